"""A mark without its effect, or an effect without its mark: what could part them is refused or noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql import DatabaseError, IdempotentCall, Inbox, Outbox, Ran, TableSink
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask

MARKS = DEFAULT_TABLES.processed_events


@pytest.fixture
def place(database: Database) -> Database:
    open_account(database.engine)
    return database


@pytest.fixture
def inbox(place: Database) -> Inbox:
    return Inbox(place.engine, consumer="billing")


def marks(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(connection.scalar(sa.select(sa.func.count()).select_from(MARKS)) or 0)


def catches_an_error(tx: Any) -> None:
    credit(10)(tx)
    with pytest.raises(sa.exc.DBAPIError):
        tx.execute(sa.text("SELECT nothing FROM nowhere"))


def fails_in_a_savepoint(tx: Any) -> None:
    credit(10)(tx)
    with pytest.raises(sa.exc.DBAPIError), tx.begin_nested():
        tx.execute(sa.text("SELECT nothing FROM nowhere"))


def test_an_error_that_the_handler_catches_never_loses_the_event(place: Database, inbox: Inbox) -> None:
    if place.kind == "postgresql":
        # COMMIT would be answered with a rollback, and without an error.
        with pytest.raises(DatabaseError, match="savepoint"):
            inbox.run("evt-1", {}, catches_an_error)
        with pytest.raises(DatabaseError, match="savepoint"), inbox.once("evt-1") as tx:
            catches_an_error(tx)
        assert balance(place.engine) == marks(place) == 0
    else:
        assert inbox.run("evt-1", {}, catches_an_error) == Ran(None)
        assert (balance(place.engine), marks(place)) == (10, 1)


def test_an_error_in_a_savepoint_takes_back_the_savepoint_alone(place: Database, inbox: Inbox) -> None:
    assert inbox.run("evt-1", {}, fails_in_a_savepoint) == Ran(None)
    assert (balance(place.engine), marks(place)) == (10, 1)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.asyncio
async def test_an_error_that_an_async_handler_catches_never_loses_the_event(
    place: Database, driver: str
) -> None:
    if place.kind != "postgresql":
        pytest.skip("the asynchronous drivers tested here are those of PostgreSQL")
    arguments: Any = {"server_settings": {"search_path": place.name}}
    if driver == "psycopg":
        arguments = {"options": f"-csearch_path={place.name}"}
    engine = create_async_engine(
        place.url.set(drivername=f"postgresql+{driver}"), connect_args=arguments, poolclass=sa.NullPool
    )
    inbox = Inbox(engine, consumer="billing")

    async def handler(tx: Any) -> None:
        await tx.run_sync(catches_an_error)

    async def rolls_back(tx: Any) -> None:
        await tx.rollback()

    async def careful(tx: Any) -> None:
        await tx.run_sync(fails_in_a_savepoint)

    with pytest.raises(DatabaseError, match="savepoint"):
        await inbox.arun("evt-1", {}, handler)
    with pytest.raises(DatabaseError, match="savepoint"):
        async with inbox.aonce("evt-1") as tx:
            await handler(tx)
    with pytest.raises(DatabaseError, match="was ended"):
        await inbox.arun("evt-1", {}, rolls_back)
    assert balance(place.engine) == marks(place) == 0
    assert await inbox.arun("evt-1", {}, careful) == Ran(None)
    assert (balance(place.engine), marks(place)) == (10, 1)


def ends_it_by(name: str) -> Callable[[Any], None]:
    def handler(tx: Any) -> None:
        credit(10)(tx)
        getattr(tx, name)()

    return handler


@pytest.mark.parametrize("factory", [lambda engine: engine, sessionmaker], ids=["core", "orm"])
def test_a_handler_that_ends_the_transaction_itself_is_told_so(place: Database, factory: Any) -> None:
    inbox = Inbox(factory(place.engine), consumer="billing")
    with pytest.raises(DatabaseError, match="was ended"):
        inbox.run("evt-1", {}, ends_it_by("rollback"))
    assert balance(place.engine) == marks(place) == 0
    with pytest.raises(DatabaseError, match="was ended"):
        inbox.run("evt-1", {}, ends_it_by("commit"))
    # Its own commit took mark and effect together: the redelivery is skipped.
    assert (balance(place.engine), marks(place)) == (10, 1)


def test_a_session_that_rolls_back_and_goes_on_in_another_transaction_is_noticed(
    place: Database, inbox: Inbox
) -> None:
    with Session(place.engine) as session:
        with pytest.raises(DatabaseError, match="was ended"), inbox.once("evt-1", connection=session):
            session.rollback()
            credit(10)(session)
        session.rollback()
    assert balance(place.engine) == marks(place) == 0


def test_a_driver_connection_that_the_handler_rolls_back_is_noticed(place: Database) -> None:
    inbox = Inbox(place.driver_connection, consumer="billing")
    with pytest.raises(DatabaseError, match="was ended"):
        inbox.run("evt-1", {}, lambda tx: tx.rollback())
    assert marks(place) == 0


def test_a_deadlock_that_the_handler_catches_runs_the_whole_transaction_again(
    place: Database, inbox: Inbox
) -> None:
    if place.kind == "sqlite":
        pytest.skip("one writer at a time has no deadlocks")
    open_account(place.engine, "bob")
    runs: list[bool] = []

    def handler(tx: sa.Connection) -> None:
        runs.append(True)
        credit(1)(tx)
        if len(runs) > 1:
            credit(1, "bob")(tx)
            return
        with place.engine.connect() as other:
            credit(100, "bob")(other)
            deadlock(tx, other)
            other.rollback()

    assert inbox.run("evt-1", {}, handler) == Ran(None)
    assert len(runs) == 2
    assert (balance(place.engine), balance(place.engine, "bob"), marks(place)) == (1, 1, 1)


def deadlock(tx: sa.Connection, other: sa.Connection) -> None:
    """``tx`` holds alice, ``other`` holds bob: the error of the one that waits second is caught."""
    waiting = threading.Thread(target=lambda: suppress(lambda: credit(100)(other)))
    if tx.dialect.name == "postgresql":
        # The one that finds the deadlock is its victim.
        tx.exec_driver_sql("SET LOCAL deadlock_timeout = '50ms'")
        other.exec_driver_sql("SET LOCAL deadlock_timeout = '20s'")
    else:
        # The one that has written less is the victim.
        for number in range(20):
            other.execute(
                sa.insert(MARKS).values(
                    consumer="filler",
                    event_id=str(number),
                    payload_hash="",
                    processed_at=sa.func.current_timestamp(),
                )
            )
    waiting.start()
    with pytest.raises(sa.exc.OperationalError):
        credit(1, "bob")(tx)
    waiting.join(30)


def suppress(call: Callable[[], object]) -> None:
    try:
        call()
    except sa.exc.DBAPIError:
        return


def autocommit_engine(place: Database) -> sa.Engine:
    return place.make_engine("AUTOCOMMIT")


def autocommit_connection(place: Database) -> Any:
    connection = place.driver_connection()
    if place.kind == "postgresql":
        connection.autocommit = True
    elif place.kind == "mysql":
        connection.autocommit(True)
    else:
        connection.isolation_level = None
    return connection


def test_a_connection_that_commits_by_itself_is_refused(place: Database) -> None:
    engine = autocommit_engine(place)
    inbox = Inbox(engine, consumer="billing")
    with pytest.raises(ConfigurationError, match="begin a transaction"):
        inbox.run("evt-1", {}, credit(10))
    with engine.begin() as tx, pytest.raises(ConfigurationError, match="begin a transaction"):
        Outbox().delay(tx, FakeTask(), n=1)
    with pytest.raises(ConfigurationError, match="begin a transaction"):
        IdempotentCall(engine, "charge").run("k", {}, lambda key: key)
    with pytest.raises(ConfigurationError, match="begin a transaction"):
        TableSink(engine, "totals", keys=["account_id"]).write([{"account_id": "a", "amount": 1}])
    with (
        closing(autocommit_connection(place)) as driver,
        pytest.raises(ConfigurationError, match="begin a transaction"),
        inbox.once("evt-1", connection=driver),
    ):
        pytest.fail("the block must not be entered")
    assert balance(place.engine) == marks(place) == 0


def test_a_transaction_begun_by_hand_on_such_a_connection_will_do(place: Database, inbox: Inbox) -> None:
    with closing(autocommit_connection(place)) as driver:
        driver.cursor().execute("BEGIN")
        with inbox.once("evt-1", connection=driver) as tx:
            tx.cursor().execute("UPDATE totals SET amount = amount + 10")
        driver.cursor().execute("COMMIT")
    assert (balance(place.engine), marks(place)) == (10, 1)


def test_an_event_within_itself_is_refused_instead_of_waiting_for_ever(place: Database, inbox: Inbox) -> None:
    with pytest.raises(ConfigurationError, match="open already"):
        inbox.run("evt-1", {}, lambda tx: inbox.run("evt-1", {}, credit(10)))
    with pytest.raises(ConfigurationError, match="open already"), inbox.once("evt-1"), inbox.once("evt-1"):
        pytest.fail("the block must not be entered")
    assert balance(place.engine) == marks(place) == 0
    inbox.run("evt-1", {}, credit(10))


def test_blocks_within_each_other_share_a_transaction(place: Database, inbox: Inbox) -> None:
    other = Inbox(place.engine, consumer="audit")
    with pytest.raises(ZeroDivisionError), inbox.once("evt-1") as tx:
        with other.once("evt-1", connection=tx) as inner:
            credit(10)(inner)
        with inbox.once("evt-2", connection=tx) as inner:
            credit(5)(inner)
        raise ZeroDivisionError
    assert balance(place.engine) == marks(place) == 0
    with inbox.once("evt-1") as tx:
        for _ in range(2):
            with inbox.once("evt-2", connection=tx) as inner:
                credit(5)(inner)
        credit(10)(tx)
    assert (balance(place.engine), marks(place)) == (15, 2)
