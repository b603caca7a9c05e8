"""The guide's two files, run as a user runs them: in processes of their own, against a database."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

__all__ = ["CASES", "Events", "Worker", "database", "fill", "wait_until"]

CASES = Path(__file__).parent / "cases"
SECRET = "s3cr3t-of-a-message"
MYSQL = os.environ.get("SQS_WORKERS_TEST_MYSQL_DSN", "mysql+pymysql://root@127.0.0.1:3306/test")
POSTGRES = os.environ.get(
    "SQS_WORKERS_TEST_POSTGRES_DSN", "postgresql+psycopg://postgres@127.0.0.1:5432/test"
)
TABLE = """
CREATE TABLE events (
    event_id VARCHAR(64) NOT NULL PRIMARY KEY,
    payload {json} NOT NULL,
    status VARCHAR(32) NOT NULL,
    created_at {moment} NOT NULL DEFAULT {now},
    updated_at {moment} NULL
)"""
TABLES = {
    "mysql": TABLE.format(json="JSON", moment="DATETIME(6)", now="NOW(6)") + " CHARACTER SET utf8mb4",
    "postgresql": TABLE.format(json="JSONB", moment="TIMESTAMPTZ", now="NOW()"),
    "sqlite": TABLE.format(json="TEXT", moment="TIMESTAMP", now="CURRENT_TIMESTAMP"),
}


def _absent(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def database(kind: str, directory: Path) -> Iterator[tuple[str, sa.Engine]]:
    """A database of the test's own with the guide's table: its DSN as a user writes it, and an engine."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    if kind == "sqlite":
        dsn = f"sqlite:///{directory / name}.db"
        engine, admin = sa.create_engine(dsn), None
    else:
        server = sa.make_url(MYSQL if kind == "mysql" else POSTGRES)
        admin = sa.create_engine(server, isolation_level="AUTOCOMMIT")
        try:
            with admin.connect() as connection:
                charset = " CHARACTER SET utf8mb4" if kind == "mysql" else ""
                connection.execute(sa.text(f"CREATE DATABASE {name}{charset}"))
        except sa.exc.OperationalError:
            admin.dispose()
            _absent(f"no {kind} answers")
        engine = sa.create_engine(server.set(database=name))
        dsn = server.set(database=name, drivername=kind).render_as_string(hide_password=False)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(TABLES[kind]))
        yield dsn, engine
    finally:
        engine.dispose()
        if admin is not None:
            with admin.connect() as connection:
                force = " WITH (FORCE)" if kind == "postgresql" else ""
                connection.execute(sa.text(f"DROP DATABASE {name}{force}"))
            admin.dispose()


@dataclass
class Events:
    """What was sent.

    :ivar good: ids, each of which must become one row.
    :ivar bad: messages without an id, which must end in the dead-letter queue.
    """

    url: str
    dead: str
    good: set[str] = field(default_factory=set)
    bad: int = 0


def fill(client: Any, count: int, *, visibility: int, with_bad: bool = True) -> Events:
    """Send ``count`` events: three in ten a duplicate of another, one in a hundred without an id."""
    dead = client.create_queue(QueueName="events-dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "5"})
    url = client.create_queue(
        QueueName="events", Attributes={"VisibilityTimeout": str(visibility), "RedrivePolicy": policy}
    )["QueueUrl"]
    bad, doubled = count // 100 if with_bad else 0, count * 3 // 10
    chance = random.Random(count)
    fresh = [
        {"id": f"e{n}", "name": "Zoë 王小明 🎉", "quote": "'\"\\%", "secret": SECRET}
        for n in range(count - doubled - bad)
    ]
    events: list[dict[str, Any]] = [
        *fresh,
        *chance.choices(fresh, k=doubled),
        *({"secret": SECRET} for _ in range(bad)),
    ]
    chance.shuffle(events)
    for start in range(0, len(events), 10):
        entries = [
            {"Id": str(index), "MessageBody": json.dumps(event, ensure_ascii=False)}
            for index, event in enumerate(events[start : start + 10])
        ]
        client.send_message_batch(QueueUrl=url, Entries=entries)
    return Events(url, dead, {event["id"] for event in fresh}, bad)


class Worker:
    """``sqs-workers run`` in a directory, its log in a file there."""

    def __init__(self, directory: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self._command = [sys.executable, "-m", "sqs_workers", "run", "worker.yaml", *arguments]
        self._directory = directory
        root = Path(__file__).parents[2]
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(root),
            "PYTHONWARNINGS": "default",
        }
        self.log = directory / "worker.log"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=self._directory, env=self._environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, patience: float = 30.0) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")


@contextmanager
def running_guide(
    directory: Path, endpoint: str, url: str, dsn: str, *, files: Path = CASES
) -> Iterator[Worker]:
    """The worker of the guide, byte for byte."""
    for name in ("worker.yaml", "handler.py"):
        shutil.copyfile(files / name, directory / name)
    environment = {
        "SQS_EVENTS_URL": url,
        "SQS_MYSQL_DSN": dsn,
        # Not even at DEBUG may a body or a key be logged.
        "SQS_MYSQL_LOG_LEVEL": "DEBUG",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    worker = Worker(directory, environment)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


def wait_until(condition: Any, patience: float, worker: Worker) -> None:
    """Ask until it is so; fail with the end of the log if it takes too long or the worker has ended."""
    pause, deadline = threading.Event(), time.monotonic() + patience
    while not condition():
        if worker.process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"not within {patience} s; the log ends:\n{worker.text()[-3000:]}")
        pause.wait(0.1)
