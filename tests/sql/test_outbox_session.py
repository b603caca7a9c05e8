"""Within an outbox's session every way to send a job stores it, once, and nothing reaches SQS."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.messages import OutgoingMessage
from sqs_workers.sql import Outbox
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.databases import Database

TABLE = DEFAULT_TABLES.outbox_messages


@pytest.fixture
def env() -> SQSEnv:
    made = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(made, "jobs")
    return made


@pytest.fixture
def job(env: SQSEnv) -> Any:
    @env.queue("jobs").processor("job")
    def job(n: int) -> None:
        raise AssertionError("nothing runs here")

    return job


def stored(database: Database) -> list[tuple[int, int | None]]:
    statement = sa.select(TABLE.c.body, TABLE.c.delay_seconds).order_by(TABLE.c.id)
    with database.engine.connect() as connection:
        return [(json.loads(body)["n"], delay) for body, delay in connection.execute(statement)]


def nothing_was_sent(env: SQSEnv) -> bool:
    return env.queue("jobs").get_raw_messages(0) == []


def test_each_way_to_send_stores_the_job_once(database: Database, env: SQSEnv, job: Any) -> None:
    queue, outbox = env.queue("jobs"), Outbox(database.engine)
    with database.engine.begin() as tx, outbox.session(tx):
        job.delay(n=1)
        job.options(delay=timedelta(seconds=9)).delay(n=2)
        queue.add_job("job", n=3)
        queue.add_raw_job("job", '{"n": 4}', "{}", "json", None, None, None)
        queue.send_messages([OutgoingMessage('{"n": 5}'), OutgoingMessage('{"n": 6}')])
        with job.batch():
            job.delay(n=7)
            job.delay(n=8)
        with queue.add_batch():
            job.delay(n=9)
    assert stored(database) == [(1, None), (2, 9), *((n, None) for n in range(3, 10))]
    assert nothing_was_sent(env)


def test_a_batch_around_the_session_sends_its_own_jobs_alone(
    database: Database, env: SQSEnv, job: Any
) -> None:
    outbox = Outbox(database.engine)
    with job.batch():
        job.delay(n=1)
        with database.engine.begin() as tx, outbox.session(tx):
            job.delay(n=2)
        job.delay(n=3)
    assert stored(database) == [(2, None)]
    bodies = [json.loads(message.body)["n"] for message in env.queue("jobs").get_raw_messages(0)]
    assert sorted(bodies) == [1, 3]


@pytest.mark.asyncio
async def test_each_way_to_send_of_a_coroutine_stores_the_job_once(
    database: Database, env: SQSEnv, job: Any
) -> None:
    if database.kind != "postgresql":
        pytest.skip("the asynchronous drivers tested here are those of PostgreSQL")
    engine = create_async_engine(database.url, connect_args=database.options["connect_args"])
    queue, outbox = env.queue("jobs"), Outbox()
    try:
        async with AsyncSession(engine) as session, session.begin(), outbox.asession(session):
            await job.adelay(n=1)
            job.delay(n=2)
            await job.options(delay=9).adelay(n=3)
            queue.add_raw_job("job", '{"n": 4}', "{}", "json", None, None, None)
            queue.send_messages([OutgoingMessage('{"n": 5}')])
            with job.batch():
                await job.adelay(n=6)
        async with engine.begin() as tx:
            await outbox.adelay(tx, job, n=7)
        async with engine.connect() as tx, outbox.asession(tx):
            await job.adelay(n=8)
    finally:
        await engine.dispose()
    assert stored(database) == [(1, None), (2, None), (3, 9), *((n, None) for n in range(4, 8))]
    assert nothing_was_sent(env)


@pytest.mark.asyncio
async def test_a_coroutine_in_a_synchronous_session_stores_its_jobs(
    database: Database, env: SQSEnv, job: Any
) -> None:
    outbox = Outbox(database.engine)
    with database.engine.begin() as tx, outbox.session(tx):
        await job.adelay(n=1)
        await job.options(delay=9).adelay(n=2)
    assert stored(database) == [(1, None), (2, 9)]
    assert nothing_was_sent(env)
