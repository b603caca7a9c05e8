"""Connections that the server ends in the middle, and rows that vanish while others work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.clock import SteppableClock
from sqs_workers.sql import DatabaseUnavailable, Inbox, Outbox, Ran, Relay, TableSink, faults, is_temporary
from sqs_workers.sql.wakers import ListenWaker
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs


@pytest.fixture
def place(database: Database) -> Database:
    if database.kind == "sqlite":
        pytest.skip("a file has no connections that somebody else could end")
    open_account(database.engine)
    return database


def kill(place: Database, victim: Any) -> None:
    """End the server's side of a SQLAlchemy connection."""
    ask = "SELECT pg_backend_pid()" if place.kind == "postgresql" else "SELECT CONNECTION_ID()"
    number = int(victim.exec_driver_sql(ask).scalar() or 0)
    end = "SELECT pg_terminate_backend({}, 5000)" if place.kind == "postgresql" else "KILL {}"
    with place.engine.connect() as connection:
        connection.exec_driver_sql(end.format(number))


def test_a_connection_killed_before_the_commit_leaves_nothing(place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing")

    def handler(tx: Any) -> None:
        credit(10)(tx)
        kill(place, tx)

    with pytest.raises(DatabaseUnavailable):
        inbox.run("evt-1", {}, handler)
    with pytest.raises(DatabaseUnavailable), inbox.once("evt-1") as tx:
        handler(tx)
    assert balance(place.engine) == 0
    assert inbox.run("evt-1", {}, credit(10)) == Ran("credited 10")


def test_a_connection_killed_under_the_handler_is_a_temporary_error_of_its_own(place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing")

    def handler(tx: Any) -> None:
        kill(place, tx)
        credit(10)(tx)

    with pytest.raises(sa.exc.DBAPIError) as caught:
        inbox.run("evt-1", {}, handler)
    assert is_temporary(caught.value)
    assert inbox.run("evt-1", {}, credit(10)) == Ran("credited 10")


def test_a_handler_that_sleeps_beyond_the_idle_timeout_has_no_effect(place: Database) -> None:
    engine = place.make_engine(poolclass=sa.NullPool)
    setting = {
        "postgresql": "SET idle_in_transaction_session_timeout = '50ms'",
        "mysql": "SET SESSION wait_timeout = 1",
    }[place.kind]
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(setting))
    inbox = Inbox(engine, consumer="billing")
    over = threading.Event()

    def handler(tx: Any) -> None:
        credit(10)(tx)
        over.wait(1.5)

    with pytest.raises(DatabaseUnavailable):
        inbox.run("evt-1", {}, handler)
    assert balance(place.engine) == 0


def test_rows_locked_by_a_relay_whose_connection_is_killed_are_sent_by_the_next(place: Database) -> None:
    outbox, sqs = Outbox(place.engine), Sqs()
    with place.engine.begin() as tx:
        for number in range(3):
            outbox.delay(tx, FakeTask(), n=number)
    relay = Relay(outbox, sqs)
    faults.AFTER_SEND.action = lambda: kill(place, relay._claims._connection)  # type: ignore[union-attr]
    with pytest.raises(DatabaseUnavailable):
        relay.run_once()
    faults.AFTER_SEND.action = None
    assert outbox.pending() == 3
    assert relay.drain() == 3
    relay.close()
    found = sqs.received()
    assert len(found) == 6
    assert len({outbox_id for _, outbox_id in found}) == 3


def test_a_sink_whose_connection_is_killed_writes_all_or_nothing(place: Database) -> None:
    sink = TableSink(place.engine, "totals", keys=["account_id"])
    sink.check()
    with place.engine.connect() as connection:
        sink.write([{"account_id": "carol", "amount": 1}], connection=connection)
        kill(place, connection)
        with pytest.raises(DatabaseUnavailable):
            sink.write([{"account_id": "dave", "amount": 1}], connection=connection)
        connection.invalidate()
        connection.rollback()
    assert sink.write([{"account_id": "dave", "amount": 1}]) == [None]
    with place.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT account_id FROM totals ORDER BY 1").scalars().all()
    assert found == ["alice", "dave"]


def test_a_listening_relay_whose_connection_is_killed_listens_again(place: Database) -> None:
    if place.kind != "postgresql":
        pytest.skip("only PostgreSQL notifies")
    outbox, sqs = Outbox(place.engine), Sqs()
    relay = Relay(outbox, sqs, min_poll=0.05, max_poll=0.2)
    running = threading.Thread(target=relay.run, kwargs={"handle_signals": False})
    running.start()
    pause = threading.Event()
    try:
        for number in range(3):
            with place.engine.connect() as connection:
                connection.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    f"WHERE application_name = '{place.name}' AND pid <> pg_backend_pid()"
                )
            place.engine.dispose()
            with place.engine.begin() as tx:
                outbox.delay(tx, FakeTask(), n=number)
            for _ in range(300):
                if outbox.pending() == 0:
                    break
                pause.wait(0.05)
    finally:
        relay.stop()
        running.join(20)
    assert {arguments["n"] for arguments, _ in sqs.received()} == {0, 1, 2}


def test_a_relay_that_cannot_listen_leaves_no_connection_open(place: Database) -> None:
    if place.kind != "postgresql":
        pytest.skip("only PostgreSQL notifies")
    opened: list[Any] = []

    def lose(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("LISTEN"):
            raise ConnectionResetError

    # Not the engine that other tests use, too.
    engine = place.make_engine()
    sa.event.listen(engine, "connect", lambda connection, _record: opened.append(connection))
    sa.event.listen(engine, "before_cursor_execute", lose)
    waker = ListenWaker(engine, "jobs")
    try:
        assert [connection.closed for connection in opened] == [True]
    finally:
        waker.close()


def test_what_was_announced_while_nobody_listened_is_looked_for(place: Database) -> None:
    if place.kind != "postgresql":
        pytest.skip("only PostgreSQL notifies")
    refusals = [ConnectionResetError()]

    def lose_once(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("LISTEN") and refusals:
            raise refusals.pop()

    engine = place.make_engine()
    sa.event.listen(engine, "before_cursor_execute", lose_once)
    waker = ListenWaker(engine, "jobs")
    try:
        with place.engine.begin() as connection:
            connection.exec_driver_sql("NOTIFY jobs")
        assert waker.wait(0)
        assert not waker.wait(0)
    finally:
        waker.close()


def test_a_purge_beside_working_consumers_has_no_event_processed_twice(place: Database) -> None:
    clock = SteppableClock()
    inbox = Inbox(place.engine, consumer="billing", attempts=20, clock=clock)
    for number in range(200):
        inbox.run(f"old-{number}", {}, credit(1))
    clock.advance(3600)

    def deliver(number: int) -> None:
        inbox.run(f"new-{number % 60}", {}, credit(1))

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(deliver, number) for number in range(180)]
        purged = pool.submit(inbox.purge, older_than=timedelta(minutes=30), batch=7)
        again = pool.submit(inbox.purge, older_than=timedelta(minutes=30), batch=11)
        for future in work:
            future.result(60)
        assert purged.result(60) + again.result(60) >= 200
    assert balance(place.engine) == 260
