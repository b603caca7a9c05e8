"""Relays and workers killed by SIGKILL: exactly the committed jobs have their effect, once and in order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import sqlalchemy as sa

from sqs_workers import MemorySession, SQSEnv
from sqs_workers.local import LocalServer
from sqs_workers.sql import Outbox
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.databases import Database
from tests.sql.processes import kill_until_done, messages_left, running

SEED = 20_260_103
GROUPS = 5

effects = sa.Table(
    "effects",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("grp", sa.Integer, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
    mysql_engine="InnoDB",
)

RELAY = """
import sys
import boto3
import sqlalchemy as sa
from sqs_workers import SQSEnv
from sqs_workers.sql import Outbox, Relay

engine = sa.create_engine(sys.argv[1], **eval(sys.argv[2]))
env = SQSEnv(boto3.session.Session(), codec="json")
Relay(Outbox(engine), env, min_poll=0.05, max_poll=0.2, lease=2).run()
"""

WORKER = """
import sys
import boto3
import sqlalchemy as sa
from sqs_workers import SQSEnv
from sqs_workers.sql import Inbox
from tests.sql.test_killed_relays import effects

engine = sa.create_engine(sys.argv[1], pool_size=8, **eval(sys.argv[2]))
inbox = Inbox(engine, consumer="billing", attempts=20)
queue = SQSEnv(boto3.session.Session(), codec="json").queue("jobs.fifo")

@queue.processor("book", inbox=inbox)
def book(tx, grp, n):
    tx.execute(sa.insert(effects).values(grp=grp, n=n))

queue.process_queue(concurrency=4, wait_second=1, visibility_timeout=3)
"""


class Changed(Exception):
    """Rolls a transaction back."""


def store_jobs(outbox: Outbox, session: MemorySession, first: int, last: int) -> dict[int, list[int]]:
    """One job a transaction, a third of them rolled back; group -> numbers of the committed ones."""
    env = SQSEnv(session, codec="json")

    @env.queue("jobs.fifo").processor("book")
    def book(grp: int, n: int) -> None:
        raise AssertionError("the worker has a process of its own")

    committed: dict[int, list[int]] = defaultdict(list)
    for number in range(first, last):
        group = number % GROUPS
        try:
            with outbox.engine.begin() as tx, outbox.session(tx):
                book.delay(grp=group, n=number, _group_id=f"g{group}")
                if number % 3 == 0:
                    raise Changed
        except Changed:
            continue
        committed[group].append(number)
    return committed


def jobs_through_killed_processes(
    database: Database, transactions: int, kills: int, seconds: float, log: Path
) -> None:
    effects.drop(database.engine, checkfirst=True)
    effects.create(database.engine)
    session, outbox = MemorySession(), Outbox(database.engine)
    client = session.client("sqs")
    client.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})
    committed = store_jobs(outbox, session, 0, transactions // 2)
    programs = [RELAY, RELAY, RELAY, WORKER]
    faults = ["SendMessageBatch:lost:0.05", "DeleteMessageBatch:lost:0.05", "*:error500:0.02"]
    with (
        LocalServer(session, faults=faults, seed=SEED) as server,
        running(database, server.url, programs, log) as processes,
    ):
        # The other half comes while relays die.
        for group, numbers in store_jobs(outbox, session, transactions // 2, transactions).items():
            committed[group] += numbers

        def left() -> int:
            return outbox.pending() + messages_left(client, "jobs.fifo")

        killed = kill_until_done(processes, left, kills, seconds, SEED)
        assert left() == 0, log.read_text()[-2000:]
    assert killed == kills
    with database.engine.connect() as connection:
        found = connection.execute(sa.select(effects.c.grp, effects.c.n).order_by(effects.c.id)).all()
        marks = connection.scalar(sa.select(sa.func.count()).select_from(DEFAULT_TABLES.processed_events))
    order: dict[int, list[int]] = defaultdict(list)
    for group, number in found:
        order[group].append(number)
    assert order == committed
    assert marks == len(found)


@pytest.mark.timeout(120)
def test_jobs_have_their_effect_once_and_in_order_while_relays_are_killed(
    database: Database, tmp_path: Path
) -> None:
    if database.kind == "sqlite":
        pytest.skip("five processes that write at once are more than SQLite's one lock is meant for")
    jobs_through_killed_processes(database, 200, kills=1, seconds=80, log=tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_1000_jobs_have_their_effect_once_and_in_order_while_relays_are_killed(
    database: Database, tmp_path: Path
) -> None:
    if database.kind == "sqlite":
        pytest.skip("five processes that write at once are more than SQLite's one lock is meant for")
    jobs_through_killed_processes(database, 1000, kills=12, seconds=300, log=tmp_path / "log")
