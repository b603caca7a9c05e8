"""The guide's worker.yaml and handler.py, byte for byte, against a database and the local endpoint."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import boto3
import pytest
import sqlalchemy as sa

from sqs_workers.local import LocalServer
from tests.app.guide import CASES, SECRET, Events, database, fill, running_guide, wait_until

SUMS = {
    "worker.yaml": "0de17d7d37bde2795ffd405b3d03609c0a44f2ab34ac5ae1ab597def1e9399b2",
    "handler.py": "ef7ee0f47564fb3109e36f41e4206eb8e3fb8902dc8973e8e715b83839c8fa5c",
}


@pytest.fixture
def client(server: LocalServer) -> Any:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    return boto3.client("sqs", endpoint_url=server.url, **keys)


def number_of(client: Any, url: str) -> int:
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return sum(
        int(found[name]) for name in ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    )


def rows(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(sa.text("SELECT COUNT(*) FROM events")).scalar_one())


def check(engine: sa.Engine, client: Any, events: Events, log: str) -> None:
    with engine.connect() as connection:
        found = connection.execute(
            sa.text("SELECT event_id, payload, created_at, updated_at FROM events")
        ).all()
    assert {row.event_id for row in found} == events.good
    assert len(found) == len(events.good)
    payload = found[0].payload if isinstance(found[0].payload, dict) else json.loads(found[0].payload)
    assert payload["name"] == "Zoë 王小明 🎉"
    assert payload["quote"] == "'\"\\%"
    updated = [row for row in found if row.updated_at is not None]
    assert updated
    assert all(row.created_at <= row.updated_at for row in updated)
    assert number_of(client, events.url) == 0
    assert number_of(client, events.dead) == events.bad
    assert SECRET not in log
    assert "root@" not in log
    assert "Traceback" not in log


def test_the_files_are_those_of_the_guide() -> None:
    for name, digest in SUMS.items():
        assert hashlib.sha256((CASES / name).read_bytes()).hexdigest() == digest


def test_the_guides_files_write_every_event_once_through_a_kill(
    tmp_path: Path, server: LocalServer, client: Any
) -> None:
    events = fill(client, 400, visibility=2, with_bad=False)
    with database("mysql", tmp_path) as (dsn, engine):
        with running_guide(tmp_path, server.url, events.url, dsn) as worker:
            wait_until(lambda: rows(engine) > len(events.good) // 3, 20, worker)
            worker.kill()
            worker.start()
            wait_until(lambda: number_of(client, events.url) == 0, 30, worker)
            worker.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "Worker stops" in worker.text(), 10, worker)
            # A receive may be under way: what it brings after the stop is given back.
            client.send_message(QueueUrl=events.url, MessageBody='{"id": "late"}')
            assert worker.process.wait(20) == 0
        assert len(client.receive_message(QueueUrl=events.url)["Messages"]) == 1
        client.purge_queue(QueueUrl=events.url)
        check(engine, client, events, worker.text())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_thousand_events_survive_two_kills(tmp_path: Path, server: LocalServer, client: Any) -> None:
    events = fill(client, 2000, visibility=5)
    with database("mysql", tmp_path) as (dsn, engine):
        with running_guide(tmp_path, server.url, events.url, dsn) as worker:
            for part in (0.3, 0.6):
                wait_until(lambda part=part: rows(engine) > len(events.good) * part, 30, worker)
                worker.kill()
                worker.start()
            wait_until(
                lambda: number_of(client, events.dead) == events.bad and number_of(client, events.url) == 0,
                150,
                worker,
            )
            assert worker.stop() == 0
        check(engine, client, events, worker.text())


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "type_", "now"), [("postgresql", "postgres", "NOW()"), ("sqlite", "sqlite", "CURRENT_TIMESTAMP")]
)
def test_the_same_on_other_databases(
    tmp_path: Path, server: LocalServer, client: Any, kind: str, type_: str, now: str
) -> None:
    events = fill(client, 300, visibility=2)
    files = tmp_path / "files"
    files.mkdir()
    text = (CASES / "worker.yaml").read_text(encoding="utf-8")
    text = text.replace("type: mysql_table_sink", "type: table_sink").replace(
        "type: mysql\n", f"type: {type_}\n"
    )
    (files / "worker.yaml").write_text(text.replace("NOW(6)", now), encoding="utf-8")
    (files / "handler.py").write_bytes((CASES / "handler.py").read_bytes())
    with database(kind, tmp_path) as (dsn, engine):
        with running_guide(tmp_path, server.url, events.url, dsn, files=files) as worker:
            wait_until(
                lambda: number_of(client, events.dead) == events.bad and number_of(client, events.url) == 0,
                60,
                worker,
            )
            assert worker.stop() == 0
        check(engine, client, events, worker.text())


@pytest.mark.wire
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_same_on_another_emulator(tmp_path: Path, ministack_endpoint: str) -> None:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    client = boto3.client("sqs", endpoint_url=ministack_endpoint, **keys)
    events = fill(client, 300, visibility=2)
    with database("mysql", tmp_path) as (dsn, engine):
        with running_guide(tmp_path, ministack_endpoint, events.url, dsn) as worker:
            wait_until(
                lambda: number_of(client, events.dead) == events.bad and number_of(client, events.url) == 0,
                90,
                worker,
            )
            assert worker.stop() == 0
        check(engine, client, events, worker.text())
