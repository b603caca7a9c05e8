"""Two workers with the same event at the same moment, at each isolation level."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.sql import DatabaseError, Inbox, PayloadConflict, Ran, Skipped, create_tables
from sqs_workers.sql.events import TransactionRetried
from tests.sql.accounts import balance, credit, open_account, totals
from tests.sql.databases import Database, drop_database, open_database

LEVELS = [
    ("postgresql", "READ COMMITTED"),
    ("postgresql", "REPEATABLE READ"),
    ("postgresql", "SERIALIZABLE"),
    ("mysql", "READ UNCOMMITTED"),
    ("mysql", "READ COMMITTED"),
    ("mysql", "REPEATABLE READ"),
    ("mysql", "SERIALIZABLE"),
    ("mysql", "REPEATABLE READ, snapshot isolation"),
    ("sqlite", "SERIALIZABLE"),
]
each_level = pytest.mark.parametrize(("kind", "level"), LEVELS, ids=[f"{k}-{v}" for k, v in LEVELS])
WAITING = {
    "postgresql": "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE NOT l.granted AND a.application_name = '{name}'",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p"
    " ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = '{name}'",
}


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Any:
    database = open_database(kind, tmp_path)
    try:
        create_tables(database.engine)
        open_account(database.engine)
        yield database
    finally:
        drop_database(database)


def engine_at(database: Database, level: str) -> sa.Engine:
    isolation, _, snapshots = level.partition(", ")
    if not snapshots:
        return database.make_engine(isolation)
    init = f"{database.options['connect_args']['init_command']}, SESSION innodb_snapshot_isolation=ON"
    with database.engine.connect() as connection:
        if connection.exec_driver_sql("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").first() is None:
            pytest.skip("this server has no innodb_snapshot_isolation")
    return database.make_engine(isolation, connect_args={"init_command": init})


def wait_until_blocked(database: Database) -> None:
    """Wait until a transaction of this database waits for a lock."""
    statement = WAITING[database.kind].format(name=database.name)
    # InnoDB refreshes its table of transactions only for those who ask less often than every 0.1 seconds.
    pause, seconds = threading.Event(), 0.15 if database.kind == "mysql" else 0.01
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(100):
            if connection.exec_driver_sql(statement).scalar():
                return
            pause.wait(seconds)
    raise AssertionError("nobody waits for a lock")


def both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """Answers, or exceptions, of two functions called at the same moment."""
    barrier = threading.Barrier(2)

    def start(function: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return function()
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        futures: list[Future[Any]] = [pool.submit(start, function) for function in (first, second)]
        return [future.result() for future in futures]


def race(database: Database, level: str, payloads: tuple[int, int], times: int) -> list[list[str]]:
    """How both ends of each race came out, in alphabetical order."""
    inbox = Inbox(engine_at(database, level), consumer="billing", attempts=20)

    def start(number: int, payload: int) -> Callable[[], Any]:
        return lambda: inbox.run(f"evt-{number}", {"amount": payload}, credit(1))

    answers = [both(*(start(number, payload) for payload in payloads)) for number in range(times)]
    assert balance(database.engine) == times
    return [sorted(type(answer).__name__ for answer in pair) for pair in answers]


@each_level
def test_two_workers_with_one_event_have_one_effect(place: Database, level: str) -> None:
    assert race(place, level, (1, 1), 15) == [["Ran", "Skipped"]] * 15


@each_level
def test_of_two_workers_with_two_payloads_one_is_refused(place: Database, level: str) -> None:
    assert race(place, level, (1, 2), 8) == [["PayloadConflict", "Ran"]] * 8


@pytest.mark.slow
@pytest.mark.timeout(300)
@each_level
def test_two_workers_with_one_event_have_one_effect_200_times(place: Database, level: str) -> None:
    assert race(place, level, (1, 1), 200) == [["Ran", "Skipped"]] * 200


@pytest.mark.slow
@pytest.mark.timeout(300)
@each_level
def test_of_two_workers_with_two_payloads_one_is_refused_200_times(place: Database, level: str) -> None:
    assert race(place, level, (1, 2), 200) == [["PayloadConflict", "Ran"]] * 200


LOCKING_LEVELS = [(kind, level) for kind, level in LEVELS if kind != "sqlite"]
each_locking_level = pytest.mark.parametrize(
    ("kind", "level"), LOCKING_LEVELS, ids=[f"{k}-{v}" for k, v in LOCKING_LEVELS]
)


def start_and_hold(
    inbox: Inbox, end: threading.Event, entered: threading.Event, error: Exception | None
) -> Any:
    def handler(tx: Any) -> None:
        credit(10)(tx)
        entered.set()
        assert end.wait(30)
        if error is not None:
            raise error

    return inbox.run("evt-1", {}, handler)


@each_locking_level
@pytest.mark.parametrize("first_fails", [False, True], ids=["first commits", "first rolls back"])
def test_the_second_worker_waits_for_the_outcome_of_the_first(
    place: Database, level: str, first_fails: bool
) -> None:
    inbox = Inbox(engine_at(place, level), consumer="billing", attempts=20)
    end, entered = threading.Event(), threading.Event()
    failure = LookupError("the first gives up") if first_fails else None
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(start_and_hold, inbox, end, entered, failure)
        assert entered.wait(10)
        second = pool.submit(inbox.run, "evt-1", {}, credit(10))
        try:
            wait_until_blocked(place)
            assert not second.done()
        finally:
            end.set()
        if first_fails:
            with pytest.raises(LookupError):
                first.result(30)
            assert second.result(30) == Ran("credited 10")
        else:
            assert first.result(30) == Ran(None)
            assert second.result(30) == Skipped()
    assert balance(place.engine) == 10


@each_locking_level
def test_a_transaction_that_has_read_before_still_sees_the_mark_of_another(
    place: Database, level: str
) -> None:
    engine = engine_at(place, level)
    inbox = Inbox(engine, consumer="billing")
    with engine.connect() as connection:
        connection.execute(sa.select(totals.c.amount).where(totals.c.account_id == "nobody")).all()
        inbox.run("evt-1", {"amount": 1}, lambda tx: None)
        outcomes = [once(inbox, payload, connection) for payload in ({"amount": 1}, {"amount": 2})]
        connection.rollback()
    # Either the other's mark is seen, or the database asks for a new transaction; never a second effect.
    first, second = outcomes
    assert first in ("skipped", "again")
    assert second in ("conflict", "again")


def once(inbox: Inbox, payload: Any, connection: Any) -> str:
    try:
        with inbox.once("evt-1", payload, connection=connection) as tx:
            return "fresh" if tx.fresh else "skipped"
    except PayloadConflict:
        return "conflict"
    except DatabaseError as error:
        # After the first such error PostgreSQL says nothing else until the rollback.
        return "again" if error.kind.temporary or error.code == "25P02" else str(error)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_deadlock_runs_the_whole_transaction_again(place: Database) -> None:
    open_accounts = sa.insert(totals).values([{"account_id": name, "amount": 0} for name in ("bob", "carol")])
    with place.engine.begin() as connection:
        connection.execute(open_accounts)
    inbox = Inbox(place.engine, consumer="billing")
    retried: list[TransactionRetried] = []
    inbox.hooks.add(TransactionRetried, retried.append)
    meet = threading.Barrier(2)

    def transfer(first: str, second: str) -> Callable[[Any], None]:
        runs: list[int] = []

        def handler(tx: Any) -> None:
            credit(1, first)(tx)
            if not runs:
                runs.append(1)
                meet.wait(10)
            credit(1, second)(tx)

        return handler

    answers = both(
        lambda: inbox.run("evt-1", {}, transfer("bob", "carol")),
        lambda: inbox.run("evt-2", {}, transfer("carol", "bob")),
    )
    assert answers == [Ran(None), Ran(None)]
    assert [event.code for event in retried] == ["40P01" if place.kind == "postgresql" else "1213"]
    assert balance(place.engine, "bob") == balance(place.engine, "carol") == 2


class Collision(Exception):
    """Raised from a database error that asks for another attempt."""


@pytest.mark.parametrize("kind", ["sqlite"])
def test_attempts_are_bounded(place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing", attempts=3)
    runs: list[int] = []

    def handler(tx: Any) -> None:
        runs.append(1)
        raise Collision from sqlite3.OperationalError("database is locked")

    with pytest.raises(Collision):
        inbox.run("evt-1", {}, handler)
    assert len(runs) == 3
    assert inbox.counts == {"retried": 2}
