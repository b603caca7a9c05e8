"""The inbox: one effect for each event, whatever is delivered how often."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError, PermanentError
from sqs_workers.job import CURRENT_JOB, Job
from sqs_workers.messages import Message, string_attribute
from sqs_workers.sql import (
    NO_PAYLOAD,
    DatabaseError,
    Inbox,
    PayloadConflict,
    Ran,
    RowCountError,
    Skipped,
    Tables,
    create_tables,
    expect_rows,
)
from sqs_workers.sql.events import EventConflict, EventProcessed, EventSkipped
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.accounts import balance, credit, open_account, totals
from tests.sql.databases import Database

EVENTS = DEFAULT_TABLES.processed_events


@pytest.fixture
def inbox(database: Database) -> Inbox:
    open_account(database.engine)
    return Inbox(database.engine, consumer="billing")


def marks(database: Database) -> list[tuple[str, str]]:
    with database.engine.connect() as connection:
        rows = connection.execute(sa.select(EVENTS.c.consumer, EVENTS.c.event_id).order_by(EVENTS.c.event_id))
        return [(consumer, event_id) for consumer, event_id in rows]


def test_an_event_delivered_twice_has_one_effect(inbox: Inbox, database: Database) -> None:
    assert inbox.run("evt-1", {"amount": 10}, credit(10)) == Ran("credited 10")
    assert inbox.run("evt-1", {"amount": 10}, credit(10)) == Skipped()
    assert balance(database.engine) == 10
    assert marks(database) == [("billing", "evt-1")]
    assert inbox.counts == {"processed": 1, "skipped": 1}


def test_each_consumer_processes_the_event_once(inbox: Inbox, database: Database) -> None:
    other = Inbox(database.engine, consumer="audit")
    inbox.run("evt-1", {}, credit(10))
    assert other.run("evt-1", {}, credit(1)) == Ran("credited 1")
    assert balance(database.engine) == 11


def test_ids_that_differ_in_case_or_blanks_alone_are_different_events(
    inbox: Inbox, database: Database
) -> None:
    ids = ["a", "A", "a ", "é", "e\u0301", "a\x00", "x" * 256, "x" * 257, "🐘"]
    for event_id in ids:
        assert inbox.run(event_id, {}, credit(1)) == Ran("credited 1"), event_id
    for event_id in ids:
        assert inbox.run(event_id, {}, credit(1)) == Skipped(), event_id
    assert balance(database.engine) == len(ids)


def test_the_block_of_once_ends_at_the_first_use_of_its_transaction(inbox: Inbox, database: Database) -> None:
    reached = []
    for _ in range(2):
        with inbox.once("evt-1", {"amount": 10}) as tx:
            reached.append("before")
            credit(10)(tx)
            reached.append("after")
    assert reached == ["before", "after", "before"]
    assert balance(database.engine) == 10


def test_no_except_clause_of_the_block_takes_the_skip_for_a_failure(inbox: Inbox) -> None:
    failures = []
    for _ in range(2):
        with inbox.once("evt-1") as tx:
            try:
                credit(10)(tx)
            except Exception as error:
                failures.append(error)
    assert failures == []


def test_fresh_says_whether_the_event_is_new(inbox: Inbox) -> None:
    seen = []
    for _ in range(2):
        with inbox.once("evt-1") as tx:
            seen.append(tx.fresh)
    assert seen == [True, False]


def test_a_transaction_kept_beyond_its_block_is_of_no_use(inbox: Inbox) -> None:
    with inbox.once("evt-1") as tx:
        pass
    with pytest.raises(RuntimeError, match="has ended"):
        tx.execute(sa.text("SELECT 1"))


@pytest.mark.parametrize("way", ["run", "once"])
def test_a_handler_that_fails_leaves_neither_effect_nor_mark(
    inbox: Inbox, database: Database, way: str
) -> None:
    def fails(tx: Any) -> None:
        credit(10)(tx)
        raise LookupError("no such customer")

    with pytest.raises(LookupError):  # noqa: PT012
        if way == "run":
            inbox.run("evt-1", {}, fails)
        else:
            with inbox.once("evt-1") as tx:
                fails(tx)
    assert balance(database.engine) == 0
    assert marks(database) == []
    assert inbox.run("evt-1", {}, credit(10)) == Ran("credited 10")


def test_an_update_that_finds_no_row_takes_the_mark_back(inbox: Inbox, database: Database) -> None:
    with pytest.raises(RowCountError) as caught:
        inbox.run("evt-1", {}, credit(10, account="nobody"))
    assert (caught.value.expected, caught.value.found) == (1, 0)
    assert not isinstance(caught.value, PermanentError)
    assert marks(database) == []


def test_an_update_that_changes_nothing_still_counts_its_row(inbox: Inbox) -> None:
    same = sa.update(totals).values(amount=0)
    assert isinstance(inbox.run("evt-1", {}, lambda tx: expect_rows(tx.execute(same), 1).rowcount), Ran)


def test_another_payload_under_the_same_id_is_refused_and_reported_without_it(
    inbox: Inbox, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    conflicts: list[EventConflict] = []
    inbox.hooks.add(EventConflict, conflicts.append)
    inbox.run("evt-1", {"amount": 10}, credit(10))
    with caplog.at_level(logging.DEBUG), pytest.raises(PayloadConflict) as caught:
        inbox.run("evt-1", {"amount": "s3cret"}, credit(99))
    assert isinstance(caught.value, PermanentError)
    assert (caught.value.consumer, caught.value.event_id) == ("billing", "evt-1")
    assert [(event.consumer, event.event_id) for event in conflicts] == [("billing", "evt-1")]
    assert "another payload" in caplog.text
    assert "s3cret" not in caplog.text + str(caught.value) + repr(conflicts)
    assert balance(database.engine) == 10
    assert inbox.counts["conflict"] == 1


def test_the_block_of_once_is_not_entered_on_a_conflict(inbox: Inbox) -> None:
    inbox.run("evt-1", {"amount": 10}, credit(10))
    with pytest.raises(PayloadConflict), inbox.once("evt-1", {"amount": 11}):
        pytest.fail("the block ran")


def test_events_without_payload_are_compared_by_id_alone(inbox: Inbox) -> None:
    inbox.run("evt-1", {"amount": 10}, credit(10))
    assert inbox.run("evt-1", NO_PAYLOAD, credit(10)) == Skipped()


def test_hooks_hear_of_processed_and_skipped_events_and_of_their_queue(inbox: Inbox) -> None:
    seen: list[Any] = []
    inbox.hooks.add(EventProcessed, seen.append)
    inbox.hooks.add(EventSkipped, seen.append)
    token = CURRENT_JOB.set(Job(Message("m-1", "r-1", "{}"), queue_name="payments"))
    try:
        for _ in range(2):
            inbox.run("evt-1", {}, credit(10))
    finally:
        CURRENT_JOB.reset(token)
    assert [type(event) for event in seen] == [EventProcessed, EventSkipped]
    assert {event.queue_name for event in seen} == {"payments"}


def test_a_session_of_the_orm_is_the_handlers_connection(database: Database) -> None:
    open_account(database.engine)
    inbox = Inbox(sessionmaker(database.engine), consumer="billing")

    def handler(session: Session) -> None:
        assert isinstance(session, Session)
        credit(10)(session)

    assert inbox.run("evt-1", {}, handler) == Ran(None)
    assert inbox.run("evt-1", {}, handler) == Skipped()
    assert balance(database.engine) == 10


def test_a_plain_driver_connection_will_do(database: Database) -> None:
    open_account(database.engine)
    inbox = Inbox(database.driver_connection, consumer="billing")

    def handler(connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("UPDATE totals SET amount = amount + 10 WHERE account_id = 'alice'")
        expect_rows(cursor, 1)
        cursor.close()

    assert inbox.run("evt-1", {"a": 1}, handler) == Ran(None)
    assert inbox.run("evt-1", {"a": 1}, handler) == Skipped()
    with pytest.raises(PayloadConflict):
        inbox.run("evt-1", {"a": 2}, handler)
    assert balance(database.engine) == 10


def test_a_transaction_of_the_callers_own_is_committed_by_the_caller(
    inbox: Inbox, database: Database
) -> None:
    with database.engine.connect() as connection:
        with inbox.once("evt-1", {}, connection=connection) as tx:
            credit(10)(tx)
        connection.rollback()
        assert marks(database) == []
        with inbox.once("evt-1", {}, connection=connection) as tx:
            credit(10)(tx)
        connection.commit()
    assert marks(database) == [("billing", "evt-1")]
    assert balance(database.engine) == 10


class DjangoLikeConnection:
    """What the recipe hands over: opens the driver's connection when it is first asked to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.connection: Any = None

    def ensure_connection(self) -> None:
        if self.connection is None:
            self.connection = self._database.driver_connection()


def test_a_connection_wrapper_as_django_has_it_is_taken(inbox: Inbox, database: Database) -> None:
    wrapper = DjangoLikeConnection(database)
    with inbox.once("evt-1", {}, connection=wrapper) as tx:
        assert tx.fresh
    wrapper.connection.commit()
    wrapper.connection.close()
    assert marks(database) == [("billing", "evt-1")]


def test_a_decorated_function_runs_once_for_each_value_of_its_id(inbox: Inbox, database: Database) -> None:
    @inbox.handler(event_id="payment_id")
    def pay(tx: Any, payment_id: str, amount: int = 5) -> str:
        return credit(amount)(tx)

    assert pay("p-1", amount=10) == "credited 10"
    assert pay(payment_id="p-1", amount=10) is None
    assert pay(payment_id="p-2") == "credited 5"
    with pytest.raises(PayloadConflict):
        pay("p-1", amount=11)
    assert balance(database.engine) == 15


def test_a_decorated_function_takes_the_stable_id_of_the_running_job(
    inbox: Inbox, database: Database
) -> None:
    @inbox.handler()
    def pay(tx: Any, amount: int) -> None:
        credit(amount)(tx)

    attributes = {"OutboxId": string_attribute("outbox-7")}
    for message in (
        Message("m-1", "r", "{}", message_attributes=attributes),
        Message("m-2", "r", "{}", message_attributes=attributes),
        Message("m-3", "r", "{}"),
        Message("m-3", "r", "{}"),
    ):
        token = CURRENT_JOB.set(Job(message, queue_name="payments"))
        try:
            pay(amount=10)
        finally:
            CURRENT_JOB.reset(token)
    assert marks(database) == [("billing", "m-3"), ("billing", "outbox-7")]
    assert balance(database.engine) == 20


def test_a_decorated_function_without_any_id_says_so(inbox: Inbox) -> None:
    @inbox.handler()
    def pay(tx: Any) -> None:
        pytest.fail("ran without an id")

    with pytest.raises(ConfigurationError, match="event_id="):
        pay()

    @inbox.handler(event_id="order")
    def other(tx: Any, order_id: str) -> None:
        pytest.fail("ran without an id")

    with pytest.raises(ConfigurationError, match="'order' is no argument"):
        other("o-1")
    with pytest.raises(ConfigurationError, match="first argument"):
        inbox.handler()(lambda: None)


def test_old_events_are_forgotten_in_batches_and_only_the_consumers_own(database: Database) -> None:
    clock = ManualClock()
    inbox = Inbox(database.engine, consumer="billing", clock=clock)
    other = Inbox(database.engine, consumer="audit", clock=clock)
    for number in range(7):
        inbox.run(f"old-{number}", {}, lambda tx: None)
    other.run("old-0", {}, lambda tx: None)
    clock.advance(3600)
    inbox.run("new", {}, lambda tx: None)
    assert inbox.purge(older_than=timedelta(seconds=1800), batch=3) == 7
    assert marks(database) == [("billing", "new"), ("audit", "old-0")]
    assert inbox.purge(older_than=timedelta(0), batch=3) == 0
    with pytest.raises(ConfigurationError, match="batch"):
        inbox.purge(older_than=timedelta(0), batch=0)


def test_tables_may_have_other_names(bare_database: Database) -> None:
    tables = Tables(processed_events="my_events", outbox_messages="my_outbox", idempotent_calls="my_calls")
    create_tables(bare_database.engine, tables)
    inbox = Inbox(bare_database.engine, consumer="billing", tables=tables)
    assert inbox.run("evt-1", {}, lambda tx: 1) == Ran(1)
    assert inbox.run("evt-1", {}, lambda tx: 1) == Skipped()


def test_a_missing_table_is_an_error_that_names_it_and_no_temporary_one(bare_database: Database) -> None:
    inbox = Inbox(bare_database.engine, consumer="billing")
    with pytest.raises(DatabaseError, match="processed_events") as caught:
        inbox.run("evt-1", {}, lambda tx: None)
    assert not caught.value.kind.temporary


@pytest.mark.parametrize("consumer", ["", " billing", "billing ", "x" * 101])
def test_a_consumer_that_databases_would_confuse_is_refused(consumer: str) -> None:
    with pytest.raises(ConfigurationError, match="consumer"):
        Inbox(None, consumer=consumer)


def test_no_attempts_at_all_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="attempts"):
        Inbox(None, consumer="billing", attempts=0)


@pytest.mark.parametrize("event_id", ["", None, 7])
def test_an_event_id_that_is_no_text_is_refused(inbox: Inbox, event_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="event id"):
        inbox.run(event_id, {}, lambda tx: None)
