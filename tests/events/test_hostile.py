"""Forged, foreign and malformed envelopes: a permanent error that says why, and nothing is fetched."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers import DeadLetter, MemorySession, SQSEnv, create_standard_queue
from sqs_workers.envelopes import AutoEnvelope, EventBridgeEnvelope, IncomingEvent, S3Event, SNSEnvelope
from sqs_workers.envelopes.bounded_json import MAX_DEPTH, read_json
from sqs_workers.exceptions import ConfigurationError, UndecodableMessageError
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import Message, OutgoingMessage
from tests.events.test_shapes import CASES, message_of

POLICIES: list[Any] = [AutoEnvelope(), SNSEnvelope(), EventBridgeEnvelope(), S3Event()]

MEMBERS = [
    *("Type", "MessageId", "TopicArn", "Message", "Timestamp", "Records", "version", "id", "detail", "data"),
    *("detail-type", "source", "account", "time", "region", "resources", "eventId", "eventType"),
]


def body_of(name: str) -> Any:
    return json.loads(json.dumps(next(case["body"] for case in CASES if case["name"] == name)))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(nested(MAX_DEPTH + 1), id="one level too many"),
        pytest.param(nested(100_000), id="a hundred thousand levels"),
        pytest.param('{"a":' * 50_000, id="objects that never end"),
        pytest.param("invalid-json", id="no JSON"),
        pytest.param('{"a": NaN}', id="a number that JSON does not have"),
        pytest.param("1" * 10_000, id="a number of ten thousand digits"),
        pytest.param('"' + "x" * MAX_MESSAGE_BYTES + '"', id="more than SQS carries"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_cannot_be_read_within_bounds_is_permanent(policy: Any, text: str) -> None:
    with pytest.raises(UndecodableMessageError, match="m-1") as caught:
        policy.open(message_of(text))
    assert len(str(caught.value)) < 200


def test_brackets_within_text_are_no_depth() -> None:
    value = ["[" * 500 + '\\"' + "{" * 500]
    assert read_json(json.dumps(value), "it") == value
    assert read_json(nested(MAX_DEPTH), "it")


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner), max_leaves=30))
def test_what_json_writes_within_bounds_is_read_back(value: Any) -> None:
    assert read_json(json.dumps(value), "it") == value


@pytest.mark.parametrize("inner", [nested(5_000), '{"broken', "[1, 2"])
def test_what_sns_carries_is_bounded_too(inner: str) -> None:
    body = body_of("SNS delivers text")
    body["Message"] = inner
    with pytest.raises(UndecodableMessageError, match="content of message m-1"):
        AutoEnvelope().open(message_of(body))


def change(path: str, value: Any) -> Callable[[Any], None]:
    def apply(body: Any) -> None:
        *parents, last = path.split("/")
        for name in parents:
            body = body[int(name) if name.isdigit() else name]
        body[last] = value

    return apply


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("SNS delivers text", change("Timestamp", "yesterday")),
        ("SNS delivers text", change("Subject", 7)),
        ("SNS delivers attributes", change("MessageAttributes", [])),
        ("SNS delivers attributes", change("MessageAttributes/price", "9.90")),
        ("SNS delivers attributes", change("MessageAttributes/blob/Value", "%%%")),
        ("a schedule fires", change("time", "soon")),
        ("a schedule fires", change("resources", [7])),
        ("an object is put", change("Records/0/eventTime", "never")),
        ("an event of our own", change("time", "13 o'clock")),
    ],
)
def test_a_malformed_member_of_an_envelope_is_permanent(name: str, spoil: Callable[[Any], None]) -> None:
    body = body_of(name)
    AutoEnvelope().open(message_of(body))
    spoil(body)
    with pytest.raises(UndecodableMessageError, match="m-1"):
        AutoEnvelope().open(message_of(body))


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
@pytest.mark.parametrize("policy", [AutoEnvelope(), SNSEnvelope(), SNSEnvelope(raw=False)], ids=repr)
def test_nobody_is_subscribed_because_a_message_asks_for_it(kind: str, policy: Any) -> None:
    body = body_of("SNS delivers text")
    body |= {"Type": kind, "Token": "t", "SubscribeURL": "https://attacker.example/confirm"}
    with pytest.raises(UndecodableMessageError, match="Nothing was fetched") as caught:
        policy.open(message_of(body))
    assert "attacker" not in str(caught.value)


def test_a_topic_that_is_not_named_is_refused() -> None:
    body = body_of("SNS delivers text")
    assert isinstance(SNSEnvelope(topics=[body["TopicArn"]]).open(message_of(body)), IncomingEvent)
    with pytest.raises(UndecodableMessageError, match="none of the queue's topics"):
        SNSEnvelope(topics="arn:aws:sns:us-west-2:123456789012:Other").open(message_of(body))


@pytest.mark.parametrize(
    "policy", [SNSEnvelope(raw=False), SNSEnvelope(topics=["arn:aws:sns:us-west-2:123456789012:MyTopic"])]
)
def test_a_queue_for_topics_alone_lets_no_job_in_that_was_sent_directly(policy: Any) -> None:
    with pytest.raises(UndecodableMessageError, match="no envelope of SNS"):
        policy.open(message_of({"to": "x"}, JobName="work", ContentType="json"))


@pytest.mark.parametrize(
    "options",
    [
        {"raw": True, "topics": ["arn:aws:sns:us-west-2:123456789012:MyTopic"]},
        {"raw": True, "verify": True},
        {"verify": True},
    ],
)
def test_options_that_could_not_protect_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"topics=|raw delivery"):
        SNSEnvelope(**options)


def test_forged_messages_go_to_the_failure_policy_and_their_content_to_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "dead")
    create_standard_queue(env, "events")
    policy = SNSEnvelope(topics=["arn:aws:sns:us-west-2:123456789012:Mine"])
    queue = env.queue("events", envelope=policy, failure_policy=DeadLetter("dead"))
    seen: list[Any] = []
    queue.events().on()(seen.append)
    body = body_of("SNS delivers text")
    body["Message"] = "secret-content"
    for text in (json.dumps(body), "secret-content", nested(500)):
        queue.send_message(OutgoingMessage(text))
    with caplog.at_level(logging.DEBUG):
        queue.process_batch()
    assert seen == []
    assert len(env.queue("dead").get_raw_messages()) == 3
    assert "secret-content" not in caplog.text


@given(
    st.dictionaries(
        st.sampled_from(MEMBERS),
        st.recursive(
            st.none() | st.text(max_size=5) | st.booleans() | st.just("arn:aws:sns:a:b:c"),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=5,
        ),
    )
)
def test_no_mixture_of_members_raises_anything_else(body: dict[str, Any]) -> None:
    for policy in POLICIES:
        try:
            policy.open(Message("m-1", "r-1", json.dumps(body)))
        except UndecodableMessageError:
            continue
