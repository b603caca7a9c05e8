"""``local`` and ``relay``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import sqlalchemy as sa

from sqs_workers.cli import main
from sqs_workers.sql.tables import create_tables

ROOT = Path(__file__).parents[2]


def test_local_serves_an_endpoint_until_it_is_told_to_stop() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sqs_workers", "local", "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
        client = boto3.client("sqs", endpoint_url=url, **keys)
        assert client.create_queue(QueueName="q")["QueueUrl"].endswith("/q")
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def test_relay_sends_what_the_outbox_holds(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["create", "emails"])
    dsn = f"sqlite:///{tmp_path / 'app.db'}"
    engine = sa.create_engine(dsn)
    create_tables(engine)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO outbox_messages (outbox_id, state, queue_name, body, attributes, attempts, "
                "created_at) VALUES ('o-1', 'pending', 'emails', 'hello', '{}', 0, '2026-01-01 00:00:00')"
            )
        )
    engine.dispose()
    monkeypatch.setenv("DATABASE_URL", dsn)
    capsys.readouterr()
    assert main(["relay", "--drain"]) == 0
    assert "Settled 1 message(s)" in capsys.readouterr().out
    assert main(["peek", "emails", "--json"]) == 0
    assert '"body": "hello"' in capsys.readouterr().out
