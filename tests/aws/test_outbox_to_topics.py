"""Events and published jobs through the outbox: sent if, and only if, the transaction was committed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.aws import EventBus, OutgoingEvent, Topic, with_events
from sqs_workers.aws.topic import STABLE_ID_ATTRIBUTE
from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError, MessageTooLargeError
from sqs_workers.limits import MAX_SNS_BYTES
from sqs_workers.sql import Outbox, Relay, create_engine, create_tables
from sqs_workers.sql.event_ids import OUTBOX_ID
from sqs_workers.sql.events import OutboxRefused
from sqs_workers.sql.rows import Sent
from tests.aws.fakes import Bus, Sns, api_error

ARN = "arn:aws:sns:eu-west-1:123456789012:orders"


class Place:
    def __init__(self, path: Path) -> None:
        self.start = time.time()
        self.engine = create_engine(f"sqlite:///{path}/test.db")
        create_tables(self.engine)
        self.env = SQSEnv(MemorySession(), codec="json")
        create_standard_queue(self.env, "mail")
        self.task = self.env.queue("mail").connect_processor("send", lambda to: None)
        self.outbox = Outbox(self.engine)
        self.sns, self.events = Sns(), Bus()
        self.topic = Topic(ARN, client=self.sns)
        self.bus = EventBus("shop", client=self.events)
        self.relay = Relay(self.outbox, with_events(self.env, sns=self.sns, events=self.events))


@pytest.fixture
def place(tmp_path: Path) -> Any:
    place = Place(tmp_path)
    yield place
    place.relay.close()
    place.engine.dispose()


def event(number: int, **options: Any) -> OutgoingEvent:
    return OutgoingEvent("order.paid", {"number": number}, source="shop", **options)


def numbers(client: Any) -> list[int]:
    return [document["data"]["number"] for document in client.documents]


def test_the_name_of_the_stable_id_is_that_of_the_outbox() -> None:
    assert STABLE_ID_ATTRIBUTE == OUTBOX_ID


def test_queues_topics_and_buses_get_what_was_committed(place: Place) -> None:
    one = event(1)
    with place.engine.begin() as tx:
        place.outbox.delay(tx, place.task, to="x")
        place.outbox.delay(tx, place.topic, one)
        place.outbox.delay(tx, place.bus, one)
        job_id = place.outbox.delay(tx, place.topic.task(place.task), to="y")
    with pytest.raises(ZeroDivisionError), place.engine.begin() as tx:
        place.outbox.delay(tx, place.topic, event(2))
        raise ZeroDivisionError
    assert place.sns.calls == place.events.calls == []
    assert place.relay.drain() == 4
    assert [document.get("eventId") for document in place.sns.documents] == [one.event_id, None]
    assert place.sns.taken[1]["MessageAttributes"]["OutboxId"]["StringValue"] == job_id
    assert [document["eventId"] for document in place.events.documents] == [one.event_id]
    assert len(place.env.queue("mail").get_raw_messages()) == 1
    assert place.outbox.pending() == 0


def test_publish_and_put_within_the_block_of_an_outbox_go_there(place: Place) -> None:
    with place.engine.begin() as tx, place.outbox.session(tx):
        assert place.topic.publish(event(1)) is None
        assert place.bus.put_all([event(2), event(3)]) == [None, None]
        assert place.topic.task(place.task).delay(to="x") is None
    assert place.sns.calls == place.events.calls == []
    place.relay.drain()
    assert numbers(place.events) == [2, 3]
    assert len(place.sns.taken) == 2


def test_what_is_not_taken_stays_in_the_outbox(place: Place) -> None:
    with place.engine.begin() as tx:
        for number in range(3):
            place.outbox.delay(tx, place.topic, event(number))
        place.outbox.delay(tx, place.bus, event(9))
    place.sns.refuse = [[None, "InternalError", None]]
    place.events.refuse = [api_error("InternalFailure", 500)]
    place.relay.drain()
    assert numbers(place.sns) == [0, 2]
    assert place.outbox.pending() == 2


@pytest.mark.parametrize("how", ["call", "entries"])
@pytest.mark.parametrize(("kind", "code"), [("topic", "NotFound"), ("bus", "ResourceNotFoundException")])
def test_events_for_a_topic_or_bus_that_does_not_exist_are_set_aside_and_said(
    place: Place, kind: str, code: str, how: str
) -> None:
    refused: list[OutboxRefused] = []
    place.env.hooks.add(OutboxRefused, refused.append)
    target, client = (place.topic, place.sns) if kind == "topic" else (place.bus, place.events)
    place.sns.faults = lambda code: False
    with place.engine.begin() as tx:
        ids = [place.outbox.delay(tx, target, event(number)) for number in range(2)]
        place.outbox.delay(tx, place.task, to="x")
    client.refuse = [api_error(code, 404) if how == "call" else [code, code]]
    place.relay.drain()
    assert [hook.outbox_id for hook in refused] == ids
    assert all(code in hook.reason for hook in refused)
    assert [row.outbox_id for row in place.outbox.refused()] == ids
    # What goes elsewhere is not held up, and nothing is tried for ever.
    assert place.outbox.pending() == 0
    assert len(place.env.queue("mail").get_raw_messages()) == 1
    assert place.relay.drain() == 0
    # Somebody makes the topic.
    assert place.outbox.retry_refused() == 2
    assert place.relay.drain() == 2
    assert numbers(client) == [0, 1]


@pytest.mark.parametrize("code", ["KMSThrottling", "Throttled", "InternalError"])
@pytest.mark.parametrize("how", ["call", "entries"])
def test_a_topic_whose_key_is_throttled_loses_no_event(place: Place, code: str, how: str) -> None:
    clock = ManualClock(place.start)
    relay = Relay(place.outbox, with_events(place.env, sns=place.sns), clock=clock)
    with place.engine.begin() as tx:
        place.outbox.delay(tx, place.topic, event(1))
    place.sns.refuse = [api_error(code, 400) if how == "call" else [code]]
    relay.drain()
    assert (place.outbox.refused(), place.outbox.pending()) == ([], 1)
    clock.advance(301)
    assert relay.drain() == 1
    assert numbers(place.sns) == [1]
    relay.close()


@pytest.mark.parametrize(
    "code", ["AuthorizationError", "KMSAccessDenied", "KMSDisabled", "KMSInvalidState", "KMSNotFound"]
)
def test_what_somebody_has_to_permit_is_tried_again_when_they_may_have(place: Place, code: str) -> None:
    clock = ManualClock(place.start)
    relay = Relay(place.outbox, with_events(place.env, sns=place.sns), clock=clock)
    with place.engine.begin() as tx:
        place.outbox.delay(tx, place.topic, event(1))
    place.sns.refuse = [api_error(code, 400)]
    relay.drain()
    assert (place.outbox.refused(), place.outbox.pending()) == ([], 1)
    clock.advance(301)
    assert relay.drain() == 1
    relay.close()


def test_a_relay_that_knows_no_topics_says_what_it_lacks(place: Place) -> None:
    with place.engine.begin() as tx:
        place.outbox.delay(tx, place.topic, event(1))
        place.outbox.delay(tx, place.bus, event(1))
    relay = Relay(place.outbox, place.env)
    relay.drain()
    relay.close()
    assert [row.reason.count("with_events(env)") for row in place.outbox.refused()] == [1, 1]


def test_large_rows_go_in_more_calls_and_none_is_sent_twice_because_another_failed(place: Place) -> None:
    with place.engine.begin() as tx:
        for number in range(4):
            place.outbox.delay(tx, place.topic, event(number, subject="x" * 120_000))
    place.sns.refuse = [[None, None], api_error("InternalError", 500)]
    place.relay.drain()
    assert [len(call) for call in place.sns.calls] == [2, 2]
    assert numbers(place.sns) == [0, 1]
    with place.engine.connect() as connection:
        rows = connection.execute(sa.select(place.outbox.table.c.state)).scalars().all()
    assert sorted(rows) == ["pending", "pending", "sent", "sent"]
    assert Sent


def test_an_event_with_no_room_for_the_outbox_is_refused_where_it_is_stored(place: Place) -> None:
    room = MAX_SNS_BYTES - place.topic.prepare(event(1, subject=""))[1].size
    with place.engine.begin() as tx:
        place.outbox.delay(tx, place.topic, event(1, subject="x" * (room - 64)))
        with pytest.raises(MessageTooLargeError):
            place.outbox.delay(tx, place.topic, event(1, subject="x" * (room - 60)))
    place.relay.drain()
    (entry,) = place.sns.taken
    assert "OutboxId" in entry["MessageAttributes"]


def test_a_topic_whose_name_an_outbox_cannot_hold_is_refused(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="255 characters"):
        Topic("arn:aws:sns:eu-west-1:123456789012:" + "x" * 250, client=place.sns).prepare(event(1))
