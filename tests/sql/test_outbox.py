"""The outbox: exactly the jobs of committed transactions are stored."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError, MessageTooLargeError
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import OUTGOING_SINK, OutgoingMessage, string_attribute
from sqs_workers.sql import Inbox, Outbox, Relay
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs

MESSAGES = DEFAULT_TABLES.outbox_messages


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return Outbox(database.engine)


def bodies(database: Database) -> list[str]:
    with database.engine.connect() as connection:
        return list(connection.scalars(sa.select(MESSAGES.c.body).order_by(MESSAGES.c.id)))


def test_a_job_of_a_committed_transaction_is_stored(outbox: Outbox, database: Database) -> None:
    with database.engine.begin() as tx:
        outbox_id = outbox.delay(tx, FakeTask(), to="alice")
    assert len(outbox_id) == 36
    assert bodies(database) == ['{"to": "alice"}']
    assert outbox.pending() == 1


def test_a_job_of_a_transaction_rolled_back_is_not(outbox: Outbox, database: Database) -> None:
    with pytest.raises(LookupError), database.engine.begin() as tx:
        outbox.delay(tx, FakeTask(), to="alice")
        raise LookupError
    assert bodies(database) == []


def test_a_savepoint_rolled_back_takes_its_jobs_with_it(outbox: Outbox, database: Database) -> None:
    with Session(database.engine) as session, session.begin():
        outbox.delay(session, FakeTask(), number=1)
        with pytest.raises(LookupError), session.begin_nested():
            outbox.delay(session, FakeTask(), number=2)
            raise LookupError
        with session.begin_nested():
            outbox.delay(session, FakeTask(), number=3)
    assert bodies(database) == ['{"number": 1}', '{"number": 3}']


def test_within_a_session_of_the_outbox_jobs_are_redirected(outbox: Outbox, database: Database) -> None:
    with database.engine.begin() as tx:
        with outbox.session(tx):
            sink = OUTGOING_SINK.get()
            assert sink is not None
            assert len(sink(*FakeTask().prepare(number=1)) or "") == 36
        assert OUTGOING_SINK.get() is None
    assert bodies(database) == ['{"number": 1}']


def test_the_redirection_ends_with_a_block_that_raises(outbox: Outbox, database: Database) -> None:
    with database.engine.connect() as tx, pytest.raises(LookupError), outbox.session(tx):
        raise LookupError
    assert OUTGOING_SINK.get() is None


def test_a_plain_driver_connection_will_do(outbox: Outbox, database: Database) -> None:
    connection = database.driver_connection()
    outbox.delay(connection, FakeTask(), number=1)
    connection.rollback()
    outbox.delay(connection, FakeTask(), number=2)
    connection.commit()
    connection.close()
    assert bodies(database) == ['{"number": 2}']


def test_the_transaction_of_an_inbox_will_do(outbox: Outbox, database: Database) -> None:
    inbox = Inbox(database.engine, consumer="billing")
    for _ in range(2):
        with inbox.once("evt-1") as tx:
            outbox.delay(tx, FakeTask(), number=1)
    inbox.run("evt-2", {}, lambda tx: outbox.delay(tx, FakeTask(), number=2))
    assert bodies(database) == ['{"number": 1}', '{"number": 2}']


@pytest.mark.parametrize("target", ["engine", "nothing"])
def test_what_is_no_transaction_is_refused(outbox: Outbox, database: Database, target: str) -> None:
    with pytest.raises(ConfigurationError, match="begin" if target == "engine" else "is no connection"):
        outbox.delay(database.engine if target == "engine" else object(), FakeTask(), number=1)


def test_everything_of_a_message_comes_out_as_it_went_in(outbox: Outbox, database: Database) -> None:
    attributes = {
        "Text": string_attribute("naïve 🐘"),
        "Number": {"StringValue": "7", "DataType": "Number"},
        "Binary": {"BinaryValue": b"\x00\xff", "DataType": "Binary"},
    }
    message = OutgoingMessage(
        "bödy 🐘", attributes, delay_seconds=7, deduplication_id="d", group_id="g", job_name="j"
    )
    with database.engine.begin() as tx:
        outbox_id = outbox.add(tx, "jobs", message)
    sent: list[OutgoingMessage] = []
    sqs = Sqs()
    sqs.answers.append(
        lambda url, messages: (sent.extend(messages), sqs.really(url, [OutgoingMessage("x")]))[1]
    )
    with closing(Relay(outbox, sqs)) as relay:
        relay.run_once()
    (copy,) = sent
    assert copy.attributes == {**attributes, "OutboxId": string_attribute(outbox_id)}
    assert (copy.body, copy.delay_seconds, copy.deduplication_id, copy.group_id, copy.job_name) == (
        "bödy 🐘",
        7,
        "d",
        "g",
        "j",
    )


def test_the_largest_message_fits_and_one_byte_more_is_refused(outbox: Outbox, database: Database) -> None:
    room = MAX_MESSAGE_BYTES - OutgoingMessage("", {"OutboxId": string_attribute("x" * 36)}).size
    with database.engine.begin() as tx:
        outbox.add(tx, "jobs", OutgoingMessage("x" * room))
        with pytest.raises(MessageTooLargeError, match="OutboxId"):
            outbox.add(tx, "jobs", OutgoingMessage("x" * (room + 1)))
    assert [len(body) for body in bodies(database)] == [room]


def test_an_eleventh_attribute_is_refused(outbox: Outbox, database: Database) -> None:
    attributes = {f"A{number}": string_attribute("x") for number in range(10)}
    with database.engine.begin() as tx, pytest.raises(InvalidMessageError, match="10 attributes"):
        outbox.add(tx, "jobs", OutgoingMessage("x", attributes))


def test_sent_messages_are_purged_in_batches_and_others_stay(database: Database) -> None:
    clock = ManualClock()
    outbox = Outbox(database.engine, clock=clock)
    sqs = Sqs()
    with database.engine.begin() as tx:
        for number in range(5):
            outbox.delay(tx, FakeTask(), number=number)
        outbox.delay(tx, FakeTask("missing"), number=5)
    Relay(outbox, sqs, clock=clock).drain()
    with database.engine.begin() as tx:
        outbox.delay(tx, FakeTask(), number=6)
    clock.advance(60)
    assert outbox.purge(older_than=timedelta(seconds=61)) == 0
    assert outbox.purge(older_than=timedelta(seconds=59), batch=2) == 5
    assert bodies(database) == ['{"number": 5}', '{"number": 6}']


def test_what_needs_an_engine_says_so() -> None:
    outbox = Outbox()
    calls: list[Any] = [outbox.pending, outbox.refused, lambda: outbox.purge(older_than=timedelta(0))]
    for call in calls:
        with pytest.raises(ConfigurationError, match="engine"):
            call()
