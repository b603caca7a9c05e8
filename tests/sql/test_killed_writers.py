"""A worker that writes rows is killed by SIGKILL: every good row is there, every bad one is a dead letter."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers import MemorySession
from sqs_workers.local import LocalServer
from tests.sql.databases import Database
from tests.sql.processes import kill_until_done, messages_left, running

SEED = 20_260_104
LONG_AGO = datetime(2020, 1, 1)

rows = sa.Table(
    "killed_events",
    sa.MetaData(),
    sa.Column("event_id", sa.String(40), primary_key=True),
    sa.Column("payload", sa.JSON),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("created_at", sa.DateTime, server_default=sa.func.current_timestamp()),
    sa.Column("updated_at", sa.DateTime),
    mysql_engine="InnoDB",
)

WORKER = """
import sys
import boto3
import sqlalchemy as sa
from sqs_workers import DeadLetter, SQSEnv
from sqs_workers.sql import TableSink

engine = sa.create_engine(sys.argv[1], pool_size=16, **eval(sys.argv[2]))
sink = TableSink(
    engine,
    "killed_events",
    keys=["event_id"],
    update_columns=["payload", "status"],
    update_expr={"updated_at": "CURRENT_TIMESTAMP"},
)
sink.check()
queue = SQSEnv(boto3.session.Session(), codec="json").queue("events")

@queue.processor("ingest", failure_policy=DeadLetter("events_dead"))
def ingest(id, status, text):
    sink.write_one({"event_id": id, "payload": {"id": id, "text": text}, "status": status})

queue.process_queue(concurrency=16, wait_second=1, visibility_timeout=4)
"""


def body(number: int, bad: bool) -> str:
    # Longer than the column.
    status = "x" * 30 if bad else "done"
    return json.dumps({"id": f"e{number}", "status": status, "text": "ä🐘"})


def send(client: Any, deliveries: list[int], bad: set[int]) -> None:
    url = client.get_queue_url(QueueName="events")["QueueUrl"]
    attributes = {
        name: {"StringValue": value, "DataType": "String"}
        for name, value in (("ContentType", "json"), ("JobName", "ingest"), ("JobContext", "{}"))
    }
    for start in range(0, len(deliveries), 10):
        entries = [
            {"Id": str(index), "MessageBody": body(number, number in bad), "MessageAttributes": attributes}
            for index, number in enumerate(deliveries[start : start + 10])
        ]
        client.send_message_batch(QueueUrl=url, Entries=entries)


def dead_letters(client: Any) -> set[int]:
    url = client.get_queue_url(QueueName="events_dead")["QueueUrl"]
    found: set[int] = set()
    while messages := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            found.add(int(json.loads(message["Body"])["id"][1:]))
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def rows_through_killed_workers(
    database: Database, count: int, kills: int, seconds: float, log: Path
) -> None:
    rows.drop(database.engine, checkfirst=True)
    rows.create(database.engine)
    there_before = [f"e{number}" for number in range(0, count, 50)]
    with database.engine.begin() as connection:
        connection.execute(
            sa.insert(rows),
            [{"event_id": id_, "status": "old", "created_at": LONG_AGO} for id_ in there_before],
        )
    chance = random.Random(SEED)
    deliveries = [number for number in range(count) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    twice = {number for number in range(count) if deliveries.count(number) > 1} if count < 1000 else set()
    chance.shuffle(deliveries)
    bad = {number for number in range(count) if number % 100 == 7}
    client = (session := MemorySession()).client("sqs")
    for name in ("events", "events_dead"):
        client.create_queue(QueueName=name)
    send(client, deliveries, bad)
    faults = ["DeleteMessageBatch:lost:0.1", "*:error500:0.02"]
    with (
        LocalServer(session, faults=faults, seed=SEED) as server,
        running(database, server.url, [WORKER, WORKER], log) as workers,
    ):
        killed = kill_until_done(workers, lambda: messages_left(client, "events"), kills, seconds, SEED)
    assert messages_left(client, "events") == 0, log.read_text()[-2000:]
    assert killed == kills
    assert dead_letters(client) == bad
    with database.engine.connect() as connection:
        found = {row.event_id: row for row in connection.execute(sa.select(rows))}
    assert set(found) == {f"e{number}" for number in range(count)} - {f"e{number}" for number in bad}
    assert all(
        row.status == "done" and row.payload == {"id": id_, "text": "ä🐘"} for id_, row in found.items()
    )
    for id_ in there_before:
        assert found[id_].created_at == LONG_AGO
        assert found[id_].updated_at > LONG_AGO
    assert all(row.created_at > LONG_AGO for id_, row in found.items() if id_ not in there_before)
    assert all(found[f"e{number}"].updated_at for number in twice - bad)


@pytest.mark.timeout(120)
def test_rows_survive_a_killed_worker_and_bad_ones_become_dead_letters(
    database: Database, tmp_path: Path
) -> None:
    if database.kind == "sqlite":
        pytest.skip("16 writers at once are more than SQLite's one lock is meant for")
    rows_through_killed_workers(database, 200, kills=1, seconds=80, log=tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_10000_rows_survive_killed_workers_and_bad_ones_become_dead_letters(
    database: Database, tmp_path: Path
) -> None:
    if database.kind == "sqlite":
        pytest.skip("16 writers at once are more than SQLite's one lock is meant for")
    rows_through_killed_workers(database, 10_000, kills=8, seconds=400, log=tmp_path / "log")
