"""Asynchronous engines: asyncpg and psycopg on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.messages import OUTGOING_SINK
from sqs_workers.sql import (
    NOT_FOUND,
    CallInProgress,
    CallRefused,
    DatabaseError,
    IdempotentCall,
    Inbox,
    Outbox,
    OutcomeUnknown,
    PayloadConflict,
    Ran,
    Relay,
    RowRefused,
    Skipped,
    TableSink,
    create_tables,
)
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database, drop_database, open_database
from tests.sql.sqs import FakeTask, Sqs


@pytest.fixture
def place(tmp_path: Path) -> Any:
    database = open_database("postgresql", tmp_path)
    try:
        create_tables(database.engine)
        open_account(database.engine)
        yield database
    finally:
        drop_database(database)


@pytest_asyncio.fixture(params=["psycopg", "asyncpg"])
async def engine(request: pytest.FixtureRequest, place: Database) -> AsyncIterator[AsyncEngine]:
    pytest.importorskip(request.param)
    url = place.url.set(drivername=f"postgresql+{request.param}")
    if request.param == "psycopg":
        arguments: dict[str, Any] = {"options": f"-csearch_path={place.name}"}
    else:
        arguments = {"server_settings": {"search_path": place.name}}
    made = create_async_engine(url, connect_args=arguments)
    yield made
    await made.dispose()


async def acredit(tx: Any) -> str:
    return await tx.run_sync(credit(10))


@pytest.mark.asyncio
async def test_an_event_has_one_effect_through_an_async_handler(engine: AsyncEngine, place: Database) -> None:
    inbox = Inbox(engine, consumer="billing")
    assert await inbox.arun("evt-1", {"a": 1}, acredit) == Ran("credited 10")
    assert await inbox.arun("evt-1", {"a": 1}, acredit) == Skipped()
    with pytest.raises(PayloadConflict):
        await inbox.arun("evt-1", {"a": 2}, acredit)
    assert balance(place.engine) == 10


@pytest.mark.asyncio
async def test_the_block_of_aonce_ends_at_the_first_use_of_its_transaction(
    engine: AsyncEngine, place: Database
) -> None:
    inbox = Inbox(engine, consumer="billing")
    reached = []
    for _ in range(2):
        async with inbox.aonce("evt-1") as tx:
            reached.append(tx.fresh)
            await acredit(tx)
            reached.append("after")
    assert reached == [True, "after", False]
    assert balance(place.engine) == 10


@pytest.mark.asyncio
async def test_a_failing_async_handler_leaves_nothing(engine: AsyncEngine, place: Database) -> None:
    inbox = Inbox(engine, consumer="billing")

    async def fails(tx: Any) -> None:
        await acredit(tx)
        raise LookupError

    with pytest.raises(LookupError):
        await inbox.arun("evt-1", {}, fails)
    assert balance(place.engine) == 0
    assert await inbox.arun("evt-1", {}, acredit) == Ran("credited 10")


@pytest.mark.asyncio
async def test_a_decorated_coroutine_function_runs_once(engine: AsyncEngine, place: Database) -> None:
    inbox = Inbox(engine, consumer="billing")

    @inbox.handler(event_id="payment_id")
    async def pay(tx: Any, payment_id: str) -> str:
        return await acredit(tx)

    assert await pay("p-1") == "credited 10"
    assert await pay("p-1") is None
    assert balance(place.engine) == 10


@pytest.mark.asyncio
async def test_jobs_are_stored_through_async_connections_and_sessions(
    engine: AsyncEngine, place: Database
) -> None:
    outbox = Outbox(place.engine)
    async with engine.begin() as tx:
        await outbox.adelay(tx, FakeTask(), n=1)
    async with AsyncSession(engine) as session, session.begin():
        await outbox.adelay(session, FakeTask(), n=2)
        async with outbox.asession(session):
            sink = OUTGOING_SINK.get()
            assert sink is not None
            assert sink(*FakeTask().prepare(n=3)) is None
    async with engine.connect() as tx:
        await outbox.adelay(tx, FakeTask(), n=4)
        await tx.rollback()
    sqs = Sqs()
    Relay(outbox, sqs).drain()
    assert [arguments["n"] for arguments, _ in sqs.received()] == [1, 2, 3]


async def store_and_fail(outbox: Outbox, tx: Any) -> None:
    async with outbox.asession(tx):
        sink = OUTGOING_SINK.get()
        assert sink is not None
        sink(*FakeTask().prepare(n=1))
        raise LookupError


@pytest.mark.asyncio
async def test_jobs_of_a_block_that_raises_are_not_stored(engine: AsyncEngine, place: Database) -> None:
    outbox = Outbox(place.engine)
    async with engine.begin() as tx:
        with pytest.raises(LookupError):
            await store_and_fail(outbox, tx)
    assert outbox.pending() == 0


@pytest.mark.asyncio
async def test_a_sink_writes_through_an_async_engine(engine: AsyncEngine, place: Database) -> None:
    with place.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id text PRIMARY KEY, n int CHECK (n > 0), data jsonb)")
    sink = TableSink(engine, "t", keys=["id"])
    errors = await sink.awrite(
        [
            {"id": "a", "n": 1, "data": {"x": 1}},
            {"id": "b", "n": -1, "data": None},
            {"id": "a", "n": 2, "data": []},
        ]
    )
    assert [type(error) for error in errors] == [type(None), RowRefused, type(None)]
    async with engine.begin() as tx:
        assert await sink.awrite([{"id": "c", "n": 3, "data": None}], connection=tx) == [None]
    with place.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT id, n FROM t ORDER BY id")).all() == [("a", 2), ("c", 3)]


@pytest.mark.asyncio
async def test_a_row_that_the_commit_would_refuse_fails_alone(engine: AsyncEngine, place: Database) -> None:
    with place.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE parents (id int PRIMARY KEY)")
        connection.exec_driver_sql(
            "CREATE TABLE t (id int PRIMARY KEY, parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"
        )
    sink = TableSink(engine, "t", keys=["id"])
    errors = await sink.awrite([{"id": 1, "parent": None}, {"id": 2, "parent": 9}])
    assert [type(error) for error in errors] == [type(None), RowRefused]


@pytest.mark.asyncio
async def test_a_server_that_is_gone_is_a_temporary_error(place: Database) -> None:
    for driver in ("psycopg", "asyncpg"):
        gone = create_async_engine(
            place.url.set(drivername=f"postgresql+{driver}", port=1, password="s3cret")
        )
        with pytest.raises(DatabaseError) as caught:
            await Inbox(gone, consumer="billing").arun("evt-1", {}, acredit)
        assert caught.value.kind.temporary
        assert "s3cret" not in str(caught.value)
        await gone.dispose()


@pytest.mark.asyncio
async def test_asynchronous_and_synchronous_are_not_mixed_up(engine: AsyncEngine, place: Database) -> None:
    outbox = Outbox(place.engine)
    with pytest.raises(ConfigurationError, match="no asynchronous engine"):
        await Inbox(place.engine, consumer="billing").arun("evt-1", {}, acredit)
    with pytest.raises(ConfigurationError, match="no asynchronous engine"):
        await TableSink(place.engine, "t", keys=["id"]).awrite([])
    async with engine.connect() as tx:
        with pytest.raises(ConfigurationError, match="begin with 'a'"):
            outbox.delay(tx, FakeTask(), n=1)
        with pytest.raises(ConfigurationError, match="asession"), outbox.session(tx):
            pytest.fail("the block ran")
    with pytest.raises(ConfigurationError, match="synchronous"):
        Relay(Outbox(engine), Sqs())
    with pytest.raises(ConfigurationError, match="asynchronous"):
        Inbox(engine, consumer="billing").run("evt-1", {}, credit(1))


@pytest.mark.asyncio
async def test_an_async_sink_runs_again_when_another_transaction_stood_in_its_way(
    engine: AsyncEngine, place: Database
) -> None:
    blocked: list[str] = []
    holder = place.engine.connect()
    credit(1)(holder)

    def release(context: Any) -> None:
        blocked.append(type(context.original_exception).__name__)
        if len(blocked) == 2:
            holder.rollback()

    sa.event.listen(engine.sync_engine, "handle_error", release)
    setting = "SET lock_timeout = '50ms'"
    sa.event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql(setting))
    try:
        sink = TableSink(engine, "totals", keys=["account_id"])
        assert await sink.awrite([{"account_id": "alice", "amount": 7}]) == [None]
    finally:
        holder.close()
    assert len(blocked) == 2
    assert balance(place.engine) == 7


@pytest.mark.asyncio
async def test_a_batch_of_more_values_than_asyncpg_takes_is_cut(place: Database, engine: AsyncEngine) -> None:
    names = [f"c{number}" for number in range(40)]
    wide = sa.Table(
        "wide",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        *[sa.Column(name, sa.Integer) for name in names],
    )
    wide.create(place.engine)
    sink = TableSink(engine, "wide", keys=["id"])
    rows = [{"id": number, **dict.fromkeys(names, number)} for number in range(1000)]
    assert await sink.awrite(rows) == [None] * 1000
    with place.engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.sum(wide.c.c39))) == sum(range(1000))


class Bank:
    """Charges each key once, and may lose an answer."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.lost = False

    async def charge(self, key: str) -> dict[str, str]:
        self.charged.append(key)
        if self.lost:
            raise TimeoutError
        return {"receipt": key}

    async def lookup(self, key: str) -> Any:
        return {"receipt": key} if key in self.charged else NOT_FOUND


@pytest.mark.asyncio
async def test_a_call_is_made_once_and_asked_for_where_its_answer_was_lost(engine: AsyncEngine) -> None:
    bank = Bank()
    call = IdempotentCall(engine, "charge", lookup=bank.lookup, repeatable=False)
    for _ in range(2):
        assert await call.arun("order-1", {}, bank.charge) == {"receipt": "order-1"}
    bank.lost = True
    with pytest.raises(TimeoutError):
        await call.arun("order-2", {}, bank.charge)
    assert await call.arun("order-2", {}, bank.charge) == {"receipt": "order-2"}
    assert bank.charged == ["order-1", "order-2"]
    with pytest.raises(PayloadConflict):
        await call.arun("order-1", {"amount": 6}, bank.charge)


@pytest.mark.asyncio
async def test_two_tasks_make_one_call_and_a_cancelled_one_is_in_doubt(engine: AsyncEngine) -> None:
    call = IdempotentCall(engine, "charge")
    entered = asyncio.Event()

    async def endless(key: str) -> None:
        entered.set()
        await asyncio.Event().wait()

    first = asyncio.create_task(call.arun("order-1", {}, endless))
    await asyncio.wait_for(entered.wait(), 10)
    with pytest.raises(CallInProgress):
        await call.arun("order-1", {}, Bank().charge)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(CallInProgress):
        await call.arun("order-1", {}, Bank().charge)


@pytest.mark.asyncio
async def test_what_nobody_knows_is_listed_and_settled(engine: AsyncEngine) -> None:
    bank = Bank()
    bank.lost = True
    call = IdempotentCall(engine, "charge", repeatable=False)
    for key in ("order-1", "order-2", "order-3"):
        with pytest.raises(TimeoutError):
            await call.arun(key, {}, bank.charge)
        with pytest.raises(OutcomeUnknown):
            await call.arun(key, {}, bank.charge)
    assert [open_call.key for open_call in await call.aunknown()] == ["order-1", "order-2", "order-3"]
    await call.asettle("order-1", {"receipt": "by hand"})
    await call.asettle_refused("order-2")
    await call.aforget("order-3")
    assert await call.aunknown() == []
    bank.lost = False
    assert await call.arun("order-1", {}, bank.charge) == {"receipt": "by hand"}
    with pytest.raises(CallRefused):
        await call.arun("order-2", {}, bank.charge)
    assert await call.arun("order-3", {}, bank.charge) == {"receipt": "order-3"}
    with pytest.raises(ConfigurationError, match="not open"):
        await call.asettle("order-3", {})


@pytest.mark.asyncio
async def test_the_methods_of_a_call_belong_to_the_kind_of_its_engine(
    place: Database, engine: AsyncEngine
) -> None:
    with pytest.raises(ConfigurationError, match="'a'"):
        IdempotentCall(engine, "charge").run("order-1", {}, lambda key: None)
    with pytest.raises(ConfigurationError, match="asynchronous"):
        await IdempotentCall(place.engine, "charge").arun("order-1", {}, Bank().charge)
