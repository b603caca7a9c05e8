"""Events and the inbox: each has its effect once, by the id that all its deliveries share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers import DeadLetter, MemorySession, SQSEnv, create_standard_queue
from sqs_workers.aws import lambda_handler
from sqs_workers.envelopes import IncomingEvent, OutgoingEvent
from sqs_workers.sql import Inbox, create_engine, create_tables
from tests.aws.calls import Context, batch, failures, record
from tests.events.test_hostile import body_of
from tests.events.test_processors import put, work
from tests.worlds import counts

metadata = sa.MetaData()
results = sa.Table(
    "results",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("event_id", sa.String(100)),
    sa.Column("report", sa.String(100)),
)


class Place:
    def __init__(self, path: Path) -> None:
        self.engine = create_engine(f"sqlite:///{path}/test.db")
        create_tables(self.engine)
        metadata.create_all(self.engine)
        self.inbox = Inbox(self.engine, consumer="reports")
        self.env = SQSEnv(MemorySession(), codec="json")
        create_standard_queue(self.env, "events")
        create_standard_queue(self.env, "dead")
        self.queue = self.env.queue("events", envelope="auto", failure_policy=DeadLetter("dead"))

    def rows(self) -> list[tuple[str, str]]:
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(results.c.event_id, results.c.report).order_by(results.c.id))
            return [(row[0], row[1]) for row in found]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.engine.dispose()


def store(tx: Any, event: IncomingEvent[Any]) -> None:
    tx.execute(sa.insert(results).values(event_id=event.event_id, report=json.dumps(event.data)))


@pytest.mark.parametrize(
    "name",
    [
        "a schedule fires",
        "SNS delivers text",
        "SNS delivers an event of EventBridge",
        "an event of our own in SNS",
    ],
)
def test_an_event_that_is_delivered_three_times_has_its_effect_once(place: Place, name: str) -> None:
    place.queue.events().on(inbox=place.inbox)(store)
    for _ in range(3):
        put(place.queue, body_of(name))
    assert work(place.queue) == (3, 0)
    assert len(place.rows()) == 1
    assert place.inbox.counts == {"processed": 1, "skipped": 2}


def test_a_notification_of_s3_has_its_effect_once_though_its_details_differ(place: Place) -> None:
    place.queue.events().on(inbox=place.inbox)(
        lambda tx, event: store(tx, IncomingEvent(event.event_id, "", event.data.record.key))
    )
    body = body_of("an object is put")
    put(place.queue, body)
    body["Records"][0]["eventTime"] = "1970-01-01T00:00:07.000Z"
    body["Records"][0]["responseElements"]["x-amz-request-id"] = "other"
    put(place.queue, body)
    assert work(place.queue) == (2, 0)
    assert len(place.rows()) == 1


def test_an_event_of_our_own_has_one_id_by_whatever_road_it_comes(place: Place) -> None:
    place.queue.events().on(inbox=place.inbox)(store)
    for name in ("an event of our own", "an event of our own in SNS", "an event of our own in EventBridge"):
        put(place.queue, body_of(name))
    assert work(place.queue) == (3, 0)
    assert [event_id for event_id, _ in place.rows()] == ["report-7-v1"]


def test_the_same_id_with_other_data_is_refused(place: Place) -> None:
    place.queue.events().on(inbox=place.inbox)(store)
    for data in (1, 2):
        put(place.queue, OutgoingEvent("a", data, source="s", event_id="e").document())
    assert work(place.queue) == (1, 1)
    assert counts(place.env, "dead") == (1, 0)


def test_the_id_may_be_a_member_of_the_data_or_what_a_function_says(place: Place) -> None:
    events = place.queue.events()
    events.on("a", inbox=place.inbox, event_id="order")(store)
    events.on("b", inbox=place.inbox, event_id=lambda event: f"b-{event.data['order']}")(store)
    for type_, data in (("a", {"order": 7}), ("a", {"order": 7}), ("b", {"order": 7}), ("a", {})):
        put(place.queue, OutgoingEvent(type_, data, source="s").document())
    assert work(place.queue) == (3, 1)
    assert sorted(event_id for event_id, _ in place.rows()) == ["7", "b-7"]
    assert counts(place.env, "dead") == (1, 0)


def test_an_effect_that_fails_leaves_no_mark(place: Place) -> None:
    attempts: list[int] = []

    @place.queue.events().on(inbox=place.inbox)
    def flaky(tx: Any, event: IncomingEvent[Any]) -> None:
        store(tx, event)
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError

    for _ in range(2):
        put(place.queue, body_of("a schedule fires"))
    assert work(place.queue) == (1, 1)
    assert len(place.rows()) == 1


# The batch of three: valid, duplicate, invalid


@dataclass
class Report:
    eventId: str
    report: str


VALID = json.dumps({"eventId": "report-7-v1", "report": "完成"}, ensure_ascii=False)


def reports_handler(place: Place, **options: Any) -> Any:
    queue = place.env.queue("plain", envelope="auto", **options)

    @queue.events().on(model=Report, inbox=place.inbox, event_id="eventId")
    def keep(tx: Any, event: IncomingEvent[Report]) -> None:
        tx.execute(sa.insert(results).values(event_id=event.event_id, report=event.data.report))

    return lambda_handler(queue)


def test_a_valid_a_duplicate_and_an_invalid_message_are_answered_with_the_invalid_one(place: Place) -> None:
    response = reports_handler(place)(
        batch(record("m1", VALID), record("m2", VALID), record("m3", "invalid-json")), Context()
    )
    assert place.rows() == [("report-7-v1", "完成")]
    assert response == failures("m3") == {"batchItemFailures": [{"itemIdentifier": "m3"}]}


@pytest.mark.parametrize(
    "invalid",
    [
        {"eventId": "", "report": "x"},
        {"eventId": 7, "report": None},
        {"eventId": "x"},
        {"report": "x"},
        [],
        "x",
    ],
)
def test_what_lacks_the_event_id_or_the_report_is_invalid_too(place: Place, invalid: Any) -> None:
    handler = reports_handler(place)
    assert handler(batch(record("m1", VALID), record("m3", invalid)), Context()) == failures("m3")
    assert len(place.rows()) == 1


def test_an_invalid_message_that_is_isolated_counts_as_done(place: Place) -> None:
    handler = reports_handler(place, failure_policy=DeadLetter("dead"))
    assert handler(batch(record("m1", VALID), record("m3", "invalid-json")), Context()) == failures()
    (dead,) = place.env.queue("dead").get_raw_messages()
    assert (dead.body, dead.string_attribute("DeadLetterMessageId")) == ("invalid-json", "m3")


def test_in_a_fifo_batch_what_follows_the_invalid_message_of_its_group_comes_again(place: Place) -> None:
    other = json.dumps({"eventId": "report-8-v1", "report": "b"})
    response = reports_handler(place)(
        batch(
            record("m1", VALID, "a"),
            record("m2", VALID, "a"),
            record("m3", "invalid-json", "a"),
            record("m4", other, "a"),
            record("m5", other, "b"),
        ),
        Context(),
    )
    assert response == failures("m3", "m4")
    assert [event_id for event_id, _ in place.rows()] == ["report-7-v1", "report-8-v1"]


def test_the_batch_that_comes_again_has_no_second_effect(place: Place) -> None:
    handler = reports_handler(place)
    for count in (1, 2):
        assert handler(batch(record("m1", VALID, count=count)), Context()) == failures()
    assert len(place.rows()) == 1
