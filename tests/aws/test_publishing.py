"""Events out: batches, entries that were not taken, sizes, and what an event carries."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.aws import EventBus, OutgoingEvent, Topic, publish, put_events
from sqs_workers.clock import SteppableClock
from sqs_workers.delivery import RetryPolicy
from sqs_workers.exceptions import (
    ConfigurationError,
    EventsNotSentError,
    InvalidMessageError,
    MessageTooLargeError,
    SerializationError,
)
from sqs_workers.limits import (
    MAX_EVENTBRIDGE_BYTES,
    MAX_EVENTBRIDGE_DETAIL_TYPE,
    MAX_EVENTBRIDGE_SOURCE,
    MAX_SNS_BYTES,
)
from tests.aws.fakes import Bus, Sns, api_error

ARN = "arn:aws:sns:eu-west-1:123456789012:orders"
FAST = RetryPolicy(attempts=3, base=0.001, cap=0.002)


def event(number: int = 0, **options: Any) -> OutgoingEvent:
    return OutgoingEvent("order.paid", {"number": number}, **{"source": "shop", **options})


class Target:
    """A topic or a bus, alike to the tests that follow."""

    def __init__(self, kind: str) -> None:
        self.client: Any = Sns() if kind == "topic" else Bus()
        if kind == "topic":
            self.send_all: Callable[..., Any] = Topic(ARN, client=self.client, retry=FAST).publish_all
        else:
            self.send_all = EventBus("shop", client=self.client, retry=FAST).put_all

    @property
    def numbers(self) -> list[int]:
        return [document["data"]["number"] for document in self.client.documents]


@pytest.fixture(params=["topic", "bus"])
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.param)


def test_events_go_in_calls_of_ten_and_get_their_ids_in_order(target: Target) -> None:
    ids = target.send_all(event(number) for number in range(23))
    assert [len(call) for call in target.client.calls] == [10, 10, 3]
    assert target.numbers == list(range(23))
    assert ids == [f"id-{number}" for number in range(23)]


def test_no_events_are_no_call(target: Target) -> None:
    assert target.send_all([]) == []
    assert target.client.calls == []


def test_calls_are_cut_by_bytes_too(target: Target) -> None:
    target.send_all(event(number, subject="完" * 30_000) for number in range(5))
    assert [len(call) for call in target.client.calls] == [2, 2, 1]
    assert target.numbers == list(range(5))


def test_an_event_above_the_limit_is_refused_before_anything_is_sent(target: Target) -> None:
    large = event(1, subject="x" * MAX_SNS_BYTES)
    with pytest.raises(MessageTooLargeError) as caught:
        target.send_all([event(0), large])
    assert caught.value.limit == MAX_SNS_BYTES == MAX_EVENTBRIDGE_BYTES
    assert caught.value.size > caught.value.limit
    assert target.client.calls == []


def test_what_was_not_taken_for_a_moment_is_sent_again_and_nothing_else(target: Target) -> None:
    target.client.refuse = [["InternalFailure", None, "ThrottlingException"], [None, None]]
    ids = target.send_all(event(number) for number in range(3))
    assert [len(call) for call in target.client.calls] == [3, 2]
    assert sorted(target.numbers) == [0, 1, 2]
    assert None not in ids


def test_what_is_never_taken_comes_back_in_the_error(target: Target) -> None:
    target.client.refuse = [[None, "InvalidArgument", None]]
    events = [event(number) for number in range(3)]
    with pytest.raises(EventsNotSentError, match="InvalidArgument") as caught:
        target.send_all(events)
    assert caught.value.unsent == [events[1]]
    (error,) = caught.value.errors
    assert (error["EventId"], error["Code"], error["SenderFault"]) == (
        events[1].event_id,
        "InvalidArgument",
        True,
    )
    assert target.numbers == [0, 2]
    assert "words" not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.unsent, copy.target) == (caught.value.unsent, caught.value.target)
    target.send_all(caught.value.unsent)
    assert [document["eventId"] for document in target.client.documents][-1] == events[1].event_id


def test_a_call_that_fails_is_repeated_and_its_events_are_in_the_error_if_that_fails(target: Target) -> None:
    target.client.refuse = [api_error("InternalFailure", 500)]
    assert target.send_all([event()]) == ["id-0"]
    target.client.refuse = [api_error("AccessDenied", 403)]
    events = [event(number) for number in range(12)]
    with pytest.raises(EventsNotSentError, match="AccessDenied") as caught:
        target.send_all(events)
    assert caught.value.unsent == events[:10]
    assert caught.value.__cause__ is not None


def test_an_entry_that_the_answer_does_not_name_is_sent_again() -> None:
    class Forgetful(Bus):
        def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:
            return {"Entries": super().put_events(Entries=Entries)["Entries"][:1]}

    bus = Forgetful()
    assert None not in EventBus(client=bus, retry=FAST).put_all([event(0), event(1)])
    assert [len(call) for call in bus.calls] == [2, 1]


# What an event carries


def test_an_event_carries_a_stable_id_its_schema_and_its_time() -> None:
    sns = Sns()
    time = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)
    one = event(7, subject="order/7", schema_version="3", time=time, attributes={"kind": "sale"})
    for _ in range(2):
        publish(ARN, one, client=sns)
    first, second = sns.documents
    assert first == second
    assert first == {
        "eventId": one.event_id,
        "eventType": "order.paid",
        "schemaVersion": "3",
        "source": "shop",
        "subject": "order/7",
        "time": "2026-01-31T12:00:00+00:00",
        "data": {"number": 7},
    }
    attributes = sns.taken[0]["MessageAttributes"]
    assert {name: value["StringValue"] for name, value in attributes.items()} == {
        "eventType": "order.paid",
        "source": "shop",
        "schemaVersion": "3",
        "kind": "sale",
    }
    assert event().event_id != event().event_id
    assert event().time.tzinfo is not None


def test_a_bus_gets_source_type_and_time_where_rules_look() -> None:
    bus = Bus()
    one = event(7)
    assert put_events(one, bus="shop", client=bus) == ["id-0"]
    (entry,) = bus.taken
    assert (entry["EventBusName"], entry["Source"], entry["DetailType"]) == ("shop", "shop", "order.paid")
    assert entry["Time"] == one.time
    assert json.loads(entry["Detail"])["eventId"] == one.event_id


@dataclass
class Paid:
    order: int
    at: datetime.datetime


class Model(pydantic.BaseModel):
    price: Decimal


def test_dataclasses_models_and_times_are_carried() -> None:
    at = datetime.datetime(2026, 1, 31, tzinfo=datetime.timezone.utc)
    sns = Sns()
    publish(ARN, [event(data) for data in (Paid(7, at), Model(price=Decimal("9.90")), [at])], client=sns)  # type: ignore[arg-type]
    assert [document["data"]["number"] for document in sns.documents] == [
        {"order": 7, "at": "2026-01-31T00:00:00+00:00"},
        {"price": "9.90"},
        ["2026-01-31T00:00:00+00:00"],
    ]


@pytest.mark.parametrize("data", [object(), float("nan"), {1, 2}])
def test_what_json_cannot_carry_is_refused_before_anything_is_sent(target: Target, data: Any) -> None:
    with pytest.raises(SerializationError, match="the data of event"):
        target.send_all([event(data)])
    assert target.client.calls == []


@pytest.mark.parametrize(
    "options",
    [{"source": ""}, {"event_id": ""}, {"schema_version": 1}, {"time": datetime.datetime(2026, 1, 1)}],
)
def test_an_event_without_what_it_must_have_is_refused_where_it_is_made(options: Any) -> None:
    with pytest.raises(InvalidMessageError):
        event(**options)


def test_more_attributes_than_sqs_takes_are_refused() -> None:
    # SNS drops a message with more than ten on its way to a queue with raw delivery, and says so nowhere.
    publish(ARN, event(attributes={f"a{n}": "x" for n in range(7)}), client=Sns())
    with pytest.raises(InvalidMessageError, match="11 message attributes"):
        publish(ARN, event(attributes={f"a{n}": "x" for n in range(8)}), client=Sns())
    with pytest.raises(InvalidMessageError, match="is empty"):
        publish(ARN, event(attributes={"a": ""}), client=Sns())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": "aws.shop"}, "AWS's own"),
        ({"source": "x" * (MAX_EVENTBRIDGE_SOURCE + 1)}, "256"),
    ],
)
def test_what_eventbridge_would_refuse_is_refused(options: Any, words: str) -> None:
    bus = Bus()
    put_events(event(source="x" * MAX_EVENTBRIDGE_SOURCE), client=bus)
    with pytest.raises(InvalidMessageError, match=words):
        put_events(event(**options), client=bus)
    put_events(OutgoingEvent("x" * MAX_EVENTBRIDGE_DETAIL_TYPE, {}, source="s"), client=bus)
    with pytest.raises(InvalidMessageError, match="128"):
        put_events(OutgoingEvent("x" * (MAX_EVENTBRIDGE_DETAIL_TYPE + 1), {}, source="s"), client=bus)
    assert len(bus.taken) == 2


@pytest.mark.parametrize("arn", ["orders", "arn:aws:sqs:eu-west-1:1:orders", ARN + ":subscription", 7])
def test_a_topic_is_named_by_its_arn(arn: Any) -> None:
    with pytest.raises(ConfigurationError, match="by its ARN"):
        Topic(arn)


def test_a_bus_is_named_by_name_or_arn() -> None:
    assert EventBus("arn:aws:events:eu-west-1:123456789012:event-bus/shop").target.startswith("arn:")
    assert EventBus("shop").target == "event-bus:shop"
    with pytest.raises(ConfigurationError, match="name or ARN"):
        EventBus("no bus")


# FIFO topics and jobs


def test_a_fifo_topic_gets_group_and_deduplication_id_of_the_event() -> None:
    sns = Sns()
    topic = Topic(ARN + ".fifo", client=sns, retry=FAST)
    one = event(1, subject="order/7")
    topic.publish(one)
    topic.publish(event(2), group_id="g", deduplication_id="d")
    assert [(e["MessageGroupId"], e["MessageDeduplicationId"]) for e in sns.taken] == [
        ("order/7", one.event_id),
        ("g", "d"),
    ]
    with pytest.raises(InvalidMessageError, match="FIFO topic"):
        Topic(ARN, client=sns).publish(event(), deduplication_id="d")


def test_nothing_overtakes_an_event_of_its_group_that_was_not_taken() -> None:
    sns = Sns()
    sns.refuse = [["InvalidParameter", None]]
    events = [event(number, subject=group) for number, group in enumerate("aababb")]
    with pytest.raises(EventsNotSentError, match="EarlierMessageFailed") as caught:
        Topic(ARN + ".fifo", client=sns, retry=FAST).publish_all(events)
    assert [unsent.data["number"] for unsent in caught.value.unsent] == [0, 1, 3]
    assert [document["data"]["number"] for document in sns.documents] == [2, 4, 5]


def test_a_job_is_published_with_its_attributes_and_an_id_of_its_own() -> None:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "mail")
    task = env.queue("mail").connect_processor("send", lambda to: None)
    sns = Sns()
    topic = Topic(ARN, client=sns)
    assert topic.task(task).delay(to="x") == "id-0"
    topic.task(task).delay(to="x")
    first, second = sns.taken
    assert json.loads(first["Message"]) == {"to": "x"}
    names = {name: value["StringValue"] for name, value in first["MessageAttributes"].items()}
    assert (names["JobName"], names["ContentType"], names["JobContext"]) == ("send", "json", "{}")
    assert names["OutboxId"] != second["MessageAttributes"]["OutboxId"]["StringValue"]
    with pytest.raises(TypeError):
        topic.task(task).delay(wrong="x")
    with pytest.raises(InvalidMessageError, match="has a delay"):
        topic.task(task.options(delay=5)).delay(to="x")
    fifo = Topic(ARN + ".fifo", client=sns)
    fifo.task(task).delay(to="x")
    assert sns.taken[-1]["MessageGroupId"] == "default"
    assert sns.taken[-1]["MessageDeduplicationId"]


def test_a_topic_refuses_a_delay_that_a_fifo_queue_would_leave_to_its_scheduler() -> None:
    scheduler: Any = SimpleNamespace(schedule=None, cancel=None)
    env = SQSEnv(MemorySession(), codec="json", scheduler=scheduler)
    task = env.queue("orders.fifo").connect_processor("close", lambda number: None)
    sns = Sns()
    topic = Topic(ARN + ".fifo", client=sns)
    with pytest.raises(InvalidMessageError, match="has a delay"):
        topic.task(task.options(delay=5)).delay(number=1)
    assert sns.taken == []


def test_retries_wait_by_the_clock_that_was_given() -> None:
    class Watched(SteppableClock):
        waits = 0

        def wait(self, condition: Any, timeout: Any = None) -> bool:
            Watched.waits += 1
            self.advance(timeout)
            return False

    bus = Bus()
    bus.refuse = [["ThrottlingException"], ["ThrottlingException"]]
    EventBus(client=bus, retry=RetryPolicy(attempts=3, base=100, cap=1000), clock=Watched()).put(event())
    assert Watched.waits == 2
