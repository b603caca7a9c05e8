"""Every shape of message that AWS documents, as data: which kind it is, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.envelopes import (
    AutoEnvelope,
    EventBridgeEnvelope,
    Ignored,
    IncomingEvent,
    OwnJob,
    S3Event,
    S3Notification,
    SNSEnvelope,
)
from sqs_workers.exceptions import UndecodableMessageError
from sqs_workers.messages import Message, string_attribute

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "shapes" / "messages.json").read_text(encoding="utf-8")
)
each_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def message_of(body: Any, **attributes: str) -> Message:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    made = {name: string_attribute(value) for name, value in attributes.items()}
    return Message("m-1", "r-1", text, {}, made)


def opened(case: dict[str, Any], policy: Any) -> Any:
    return policy.open(message_of(case["body"]))


def kinds(case: dict[str, Any]) -> list[str]:
    event = AutoEnvelope().open(message_of(case["body"]))
    return [type(kind).__name__ for kind in event.envelopes]


@each_case
def test_auto_tells_what_a_message_is_by_its_structure(case: dict[str, Any]) -> None:
    found, expected = opened(case, AutoEnvelope()), case["expect"]
    if expected.get("ignored"):
        assert isinstance(found, Ignored)
        return
    assert isinstance(found, IncomingEvent)
    assert (found.type, found.source) == (expected["type"], expected["source"])
    assert found.subject == expected.get("subject")
    assert (type(found.envelope).__name__ if found.envelope else None) == expected["kind"]
    if "event_id" in expected:
        assert found.event_id == expected["event_id"]
    if "data" in expected:
        assert found.data == expected["data"]
    if "key" in expected:
        assert isinstance(found.data, S3Notification)
        assert found.data.record.key == expected["key"]
    assert found.time is None or found.time.tzinfo is not None


@each_case
def test_the_id_of_an_event_is_the_same_in_every_delivery_that_has_an_envelope(case: dict[str, Any]) -> None:
    text = json.dumps(case["body"])
    first, second = (AutoEnvelope().open(Message(id_, "r", text)) for id_ in ("m-1", "m-2"))
    if isinstance(first, Ignored):
        return
    assert isinstance(first, IncomingEvent)
    assert isinstance(second, IncomingEvent)
    assert (first.event_id == second.event_id) is not bool(case["expect"].get("plain"))
    assert first.payload == second.payload


@each_case
def test_an_envelope_of_one_kind_takes_that_kind_and_refuses_the_others(case: dict[str, Any]) -> None:
    found = kinds(case)
    ignored = case["expect"].get("ignored", False)
    for policy, fits in (
        (EventBridgeEnvelope(), found == ["EventBridgeEvent"]),
        (S3Event(), found == ["S3Notification"] or (ignored and not found)),
        (SNSEnvelope(raw=False), found[:1] == ["SNSNotification"]),
        (
            SNSEnvelope(raw=False, inner=EventBridgeEnvelope()),
            found == ["SNSNotification", "EventBridgeEvent"],
        ),
        (
            SNSEnvelope(raw=False, inner=S3Event()),
            found == ["SNSNotification", "S3Notification"] or (ignored and found == ["SNSNotification"]),
        ),
    ):
        if fits:
            assert isinstance(opened(case, policy), Ignored if ignored else IncomingEvent)
        else:
            with pytest.raises(UndecodableMessageError, match="m-1"):
                opened(case, policy)


@each_case
@pytest.mark.parametrize("policy", [AutoEnvelope(), SNSEnvelope(), EventBridgeEnvelope(), S3Event()])
def test_a_job_of_our_own_is_left_alone_whatever_its_arguments_look_like(
    case: dict[str, Any], policy: Any
) -> None:
    message = message_of(case["body"], JobName="work", ContentType="json")
    found = policy.open(message)
    assert isinstance(found, OwnJob)
    assert found.message is message


@pytest.mark.parametrize("lone", ["JobName", "ContentType"])
def test_one_attribute_of_a_job_makes_none(lone: str) -> None:
    found = AutoEnvelope().open(message_of({"x": 1}, **{lone: "work"}))
    assert isinstance(found, IncomingEvent)


def test_raw_delivery_takes_what_looks_like_an_envelope_as_what_was_published() -> None:
    case = next(case for case in CASES if case["name"] == "SNS delivers text")
    found = SNSEnvelope(raw=True).open(message_of(case["body"]))
    assert isinstance(found, IncomingEvent)
    assert found.envelopes == ()
    assert found.data["Type"] == "Notification"


def test_the_sequencer_keeps_two_changes_of_one_object_apart() -> None:
    case = next(case for case in CASES if case["name"] == "an object is put")
    later = json.loads(json.dumps(case["body"]))
    later["Records"][0]["s3"]["object"]["sequencer"] = "0055AED6DCD90281E6"
    ids = {AutoEnvelope().open(message_of(body)).event_id for body in (case["body"], later)}  # type: ignore[union-attr]
    assert len(ids) == 2


def test_records_of_different_kinds_share_what_is_before_the_colon() -> None:
    case = next(case for case in CASES if case["name"] == "an object is put")
    record = case["body"]["Records"][0]
    two = [record, {**record, "eventName": "ObjectCreated:Copy"}]
    assert AutoEnvelope().open(message_of({"Records": two})).type == "ObjectCreated"  # type: ignore[union-attr]
    other = [record, {**record, "eventName": "ObjectRemoved:Delete"}]
    assert AutoEnvelope().open(message_of({"Records": other})).type == ""  # type: ignore[union-attr]


def test_attributes_of_sns_are_plain_values() -> None:
    case = next(case for case in CASES if case["name"] == "SNS delivers attributes")
    found = AutoEnvelope().open(message_of(case["body"]))
    assert isinstance(found, IncomingEvent)
    assert found.attributes == {
        "eventType": "order.paid",
        "price": "9.90",
        "tags": '["a"]',
        "blob": b"\x00\x01\x02",
    }
    assert found.sns is not None
    assert found.sns.topic_arn.endswith(":MyTopic")


def test_a_time_has_the_zone_that_was_written() -> None:
    case = next(case for case in CASES if case["name"] == "an event of our own")
    found = AutoEnvelope().open(message_of(case["body"]))
    assert isinstance(found, IncomingEvent)
    assert found.time is not None
    assert found.time.isoformat() == "2026-01-31T12:00:00.500000+08:00"
    assert found.schema_version == "2"


def test_what_an_event_holds_is_not_in_its_repr() -> None:
    for case in CASES:
        found = AutoEnvelope().open(message_of(case["body"]))
        assert "完成" not in repr(found)
        assert "instance-id" not in repr(found)
