"""No DSN, password or payload in any log, error or repr."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.exceptions import QueueNotFoundError, SQSError
from sqs_workers.hooks import Event, HookRegistry
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.sql import (
    IdempotentCall,
    Inbox,
    Outbox,
    Relay,
    Tables,
    TableSink,
    create_engine,
    create_tables,
)
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs, client_error, failing

SECRET = "s3cret-value"
PASSWORD = "s3cret-password"


class Watch:
    """Collects everything that somebody could read: errors with tracebacks, logs, hook events, reprs."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.hooks = HookRegistry()
        self.seen: list[str] = []
        self.errors = 0
        self.hooks.add(Event, lambda event: self.seen.append(repr(event)))

    def fails(self, function: Callable[[], Any]) -> None:
        """``function`` must raise; what a logger would write of it is kept."""
        try:
            function()
        except Exception as error:
            self.errors += 1
            self.seen.append(_without_source("".join(traceback.format_exception(error))))
            self.seen.append(repr(error))
            if isinstance(error, SQSError):
                self.seen.append(repr(vars(error)))
        else:
            pytest.fail(f"{function} raised nothing")

    def check(self) -> None:
        text = "\n".join(self.seen) + self._caplog.text + "".join(repr(vars(r)) for r in self._caplog.records)
        assert SECRET not in text, _around(text, SECRET)
        assert PASSWORD not in text, _around(text, PASSWORD)


def _without_source(text: str) -> str:
    """A traceback without the lines of source code that it quotes."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def _around(text: str, word: str) -> str:
    at = text.index(word)
    return text[max(0, at - 400) : at + 100]


@pytest.fixture
def watch(caplog: pytest.LogCaptureFixture) -> Watch:
    caplog.set_level(logging.DEBUG, logger="sqs_workers")
    return Watch(caplog)


def absent_engine(database: Database) -> sa.Engine:
    """An engine whose server is not there, with a password in its URL."""
    if database.kind == "sqlite":
        return sa.create_engine(f"sqlite:////nonexistent/{PASSWORD}/x.db")
    return sa.create_engine(database.url.set(port=1, username="u", password=PASSWORD))


def test_failing_connections_show_no_dsn(database: Database, watch: Watch) -> None:
    engine = absent_engine(database)
    task = FakeTask()
    inbox, outbox = Inbox(engine, consumer="billing", hooks=watch.hooks), Outbox(engine)
    sink, call = TableSink(engine, "events", keys=["event_id"]), IdempotentCall(engine, "charge")
    relay = Relay(outbox, Sqs(), hooks=watch.hooks)
    attempts: list[Callable[[], Any]] = [
        lambda: create_tables(engine),
        lambda: inbox.run("evt-1", {"a": SECRET}, lambda tx: None),
        lambda: inbox.once("evt-1", {"a": SECRET}).__enter__(),
        outbox.pending,
        outbox.refused,
        relay.run_once,
        sink.check,
        lambda: sink.write([{"event_id": SECRET}]),
        lambda: call.run("key", {"a": SECRET}, lambda key: None),
    ]
    for attempt in attempts:
        watch.fails(attempt)
    watch.seen.extend(repr(thing) for thing in (inbox, outbox, relay, sink, call, task, Tables()))
    engine.dispose()
    watch.check()


def test_failing_statements_show_no_values(bare_database: Database, watch: Watch) -> None:
    engine = bare_database.engine
    inbox, outbox = Inbox(engine, consumer="billing", hooks=watch.hooks), Outbox(engine)
    call = IdempotentCall(engine, "charge")
    watch.fails(lambda: inbox.run("evt-1", {"a": SECRET}, lambda tx: None))
    message = OutgoingMessage(SECRET, {"A": string_attribute(SECRET)}, group_id="g")
    with engine.connect() as tx:
        watch.fails(lambda: outbox.add(tx, "jobs", message))
    watch.fails(lambda: call.run("key", {"a": SECRET}, lambda key: None))
    watch.fails(Relay(outbox, Sqs()).run)
    create_tables(engine)
    watch.fails(lambda: call.run("key", {"a": object(), "b": SECRET}, lambda key: None))
    watch.fails(lambda: call.run("key-2", {}, lambda key: {SECRET: object()}))
    watch.check()


def test_handlers_conflicts_and_skips_show_no_payload(database: Database, watch: Watch) -> None:
    inbox = Inbox(database.engine, consumer="billing", hooks=watch.hooks)
    inbox.run("evt-1", {"a": SECRET}, lambda tx: None)
    inbox.run("evt-1", {"a": SECRET}, lambda tx: None)
    watch.fails(lambda: inbox.run("evt-1", {"a": SECRET + "2"}, lambda tx: None))
    statement = sa.text("INSERT INTO nowhere (a) VALUES (:value)")
    watch.fails(lambda: inbox.run("evt-2", {}, lambda tx: tx.execute(statement, {"value": SECRET})))

    def once() -> None:
        with inbox.once("evt-3", {"a": SECRET}) as tx:
            tx.execute(statement, {"value": SECRET})

    watch.fails(once)
    watch.check()


def test_rows_that_are_refused_show_none_of_their_values(database: Database, watch: Watch) -> None:
    table = sa.Table(
        "secret_rows",
        sa.MetaData(),
        sa.Column("id", sa.String(30), primary_key=True),
        sa.Column("n", sa.Integer, sa.CheckConstraint("n > 0")),
        mysql_engine="InnoDB",
    )
    table.create(database.engine, checkfirst=True)
    sink = TableSink(database.engine, "secret_rows", keys=["id"])
    insert = TableSink(database.engine, "secret_rows", mode="insert")
    insert.write([{"id": SECRET, "n": 1}])
    rows: list[tuple[TableSink, dict[str, Any]]] = [
        (insert, {"id": SECRET, "n": 1}),
        (sink, {"id": SECRET, "n": -1}),
        (sink, {"id": SECRET, "n": {SECRET}}),
        (sink, {"id": [SECRET]}),
        (sink, {"id": None, "n": SECRET}),
    ]
    if database.kind != "sqlite":
        rows += [(sink, {"id": "x", "n": SECRET}), (sink, {"id": SECRET * 9, "n": 1})]
    for target, row in rows:
        watch.fails(lambda target=target, row=row: target.write_one(row))  # type: ignore[misc]
        (error,) = target.write([row])
        watch.seen.append(repr(error) + str(error) + repr(vars(error)))
    watch.check()


def test_messages_that_cannot_be_sent_show_no_body(database: Database, watch: Watch) -> None:
    outbox = Outbox(database.engine)
    sqs = Sqs()
    with database.engine.begin() as tx:
        for queue_name in ("gone", "jobs", "jobs", "jobs"):
            outbox.add(tx, queue_name, OutgoingMessage(SECRET, {"A": string_attribute(SECRET)}))
    sqs.answers = [
        failing(client_error("InvalidParameterValue")),
        failing(ValueError(f"Invalid type for parameter MessageBody, value: {SECRET}")),
        failing(QueueNotFoundError("no queue")),
    ]
    relay = Relay(outbox, sqs, hooks=watch.hooks)
    for _ in range(3):
        relay.run_once()
    relay.close()
    watch.seen.append(repr(outbox.refused()))
    with database.engine.connect() as connection:
        reasons = connection.scalars(sa.select(DEFAULT_TABLES.outbox_messages.c.reason)).all()
    watch.seen.extend(map(repr, reasons))
    assert any(reasons)
    watch.check()


def test_a_dsn_that_cannot_be_read_is_not_repeated(watch: Watch) -> None:
    watch.fails(lambda: create_engine(f"//user:{PASSWORD}@host"))
    watch.fails(lambda: create_engine(f"oracel://user:{PASSWORD}@host/db"))
    assert watch.errors == 2
    watch.check()


@pytest.mark.parametrize("other", ["\x00", "\ud800", 1j], ids=ascii)
def test_a_driver_logs_no_values_of_rows_beside_one_that_it_cannot_write(
    database: Database, watch: Watch, other: object
) -> None:
    table = sa.Table(
        "logged_rows",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("n", sa.Integer),
        mysql_engine="InnoDB",
    )
    table.create(database.engine, checkfirst=True)
    sink = TableSink(database.engine, "logged_rows", keys=["id"])
    rows: list[dict[str, Any]] = [{"id": number, "n": number} for number in range(100)]
    rows[3]["n"], rows[90]["n"] = SECRET, other
    sink.write(rows)
    watch.check()
