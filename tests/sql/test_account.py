"""The account: events delivered several times, workers killed, answers lost; the balance is exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.local import LocalServer
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.accounts import balance, open_account
from tests.sql.databases import Database

ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 20_260_102
VISIBILITY_SECONDS = 4

WORKER = f"""
import sys
import boto3
import sqlalchemy as sa
from sqs_workers import SQSEnv
from sqs_workers.sql import Inbox
from tests.sql.accounts import credit

url, options = sys.argv[1], eval(sys.argv[2])
engine = sa.create_engine(url, pool_size=8, **options)
inbox = Inbox(engine, consumer="billing", attempts=20)
queue = SQSEnv(boto3.session.Session(), codec="json").queue("events")

@queue.processor("credit", inbox=inbox, event_id="event_id")
def credit_account(tx, event_id, amount):
    credit(amount)(tx)

queue.process_queue(concurrency=8, wait_second=1, visibility_timeout={VISIBILITY_SECONDS})
"""


class Workers:
    """Two worker processes, replaced when they are killed."""

    def __init__(self, database: Database, endpoint: str) -> None:
        url = database.url.render_as_string(hide_password=False)
        self._command = [sys.executable, "-c", WORKER, url, repr(database.options)]
        self._environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_SQS": endpoint,
            "AWS_ACCESS_KEY_ID": "anything",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self._processes = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill_one(self, index: int) -> None:
        self._processes[index].kill()
        self._processes[index].wait(10)
        self._processes[index] = self._start()

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


@contextmanager
def working(database: Database, endpoint: str) -> Iterator[Workers]:
    workers = Workers(database, endpoint)
    try:
        yield workers
    finally:
        workers.stop()


def deliver(session: MemorySession, events: int, seed: int) -> None:
    """Send each event 1 to 4 times, in random order."""
    client: Any = session.client("sqs")
    url = client.create_queue(QueueName="events")["QueueUrl"]
    chance = random.Random(seed)
    deliveries = [number for number in range(events) for _ in range(chance.randint(1, 4))]
    chance.shuffle(deliveries)
    attributes = {
        name: {"StringValue": value, "DataType": "String"}
        for name, value in (("ContentType", "json"), ("JobName", "credit"), ("JobContext", "{}"))
    }
    for start in range(0, len(deliveries), 10):
        entries = [
            {
                "Id": str(index),
                "MessageBody": f'{{"event_id": "evt-{number}", "amount": {number}}}',
                "MessageAttributes": attributes,
            }
            for index, number in enumerate(deliveries[start : start + 10])
        ]
        client.send_message_batch(QueueUrl=url, Entries=entries)


def left(session: MemorySession) -> int:
    client: Any = session.client("sqs")
    url = client.get_queue_url(QueueName="events")["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(answer[name]) for name in names)


def account_through_chaos(database: Database, events: int, kills: int, seconds: float) -> None:
    open_account(database.engine)
    session = MemorySession()
    deliver(session, events, SEED)
    chance = random.Random(SEED)
    faults = ["DeleteMessageBatch:lost:0.1", "ReceiveMessage:lost:0.05", "*:error500:0.02"]
    pause = threading.Event()
    with LocalServer(session, faults=faults, seed=SEED) as server, working(database, server.url) as workers:
        total, killed = left(session), 0
        for _ in range(int(seconds / 0.2)):
            remaining = left(session)
            if not remaining:
                break
            # A kill for each share of the work that is done, so that every phase is met.
            if killed < kills and remaining <= total * (1 - (killed + 1) / (kills + 1)):
                workers.kill_one(chance.randrange(2))
                killed += 1
            pause.wait(0.2)
    assert left(session) == 0
    assert killed == kills
    assert balance(database.engine) == sum(range(events))
    events_table = DEFAULT_TABLES.processed_events
    with database.engine.connect() as connection:
        ids = connection.scalars(sa.select(events_table.c.event_id)).all()
    assert sorted(ids) == sorted(f"evt-{number}" for number in range(events))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_account_of_2000_events_is_exact(database: Database) -> None:
    if database.kind == "sqlite":
        pytest.skip("16 writers at once are more than SQLite's one lock is meant for")
    account_through_chaos(database, events=2000, kills=6, seconds=250)


def test_the_account_of_150_events_is_exact(database: Database) -> None:
    if database.kind == "sqlite":
        pytest.skip("16 writers at once are more than SQLite's one lock is meant for")
    account_through_chaos(database, events=150, kills=1, seconds=50)
