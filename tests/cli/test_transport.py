"""``run --transport``: for files and for environments in Python."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.cli import main

ROOT = Path(__file__).parents[2]
SHOP = """\
import boto3
from sqs_workers import SQSEnv
sqs = SQSEnv(boto3, codec="json")
@sqs.queue("mail").processor("say")
def say(name):
    print(name, type(getattr(sqs.transport, "chosen", sqs.transport)).__name__, flush=True)
"""


def run(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sqs_workers", "run", *arguments, "--until-idle", "1"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def send(directory: Path) -> None:
    (directory / "shop.py").write_text(SHOP, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", "import shop; shop.say.delay(name='ann')"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ((), "Boto3Transport"),
        (("--transport", "lean"), "LeanTransport"),
    ],
)
def test_an_environment_takes_the_transport_of_the_run(
    options: tuple[str, ...], kind: str, client: Any, tmp_path: Path
) -> None:
    client.create_queue(QueueName="mail")
    send(tmp_path)
    done = run(tmp_path, "shop:sqs", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ann", kind]


def demo(directory: Path, endpoint: str) -> None:
    """What ``init`` writes, on this endpoint, with its queues and table."""
    assert main(["init", str(directory), "--port", endpoint.rpartition(":")[2]]) == 0
    with sqlite3.connect(directory / "demo.db") as connection:
        connection.executescript((directory / "schema.sql").read_text(encoding="utf-8"))
    connection.close()
    assert main(["create", "events", "--dead-letter", "events-dead"]) == 0
    assert main(["send", "events", "--file", str(directory / "events.jsonl")]) == 0


def test_a_file_takes_the_transport_of_the_run(endpoint: str, tmp_path: Path) -> None:
    demo(tmp_path, endpoint)
    done = run(tmp_path, "worker.yaml", "--transport", "lean")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "demo.db") as connection:
        rows = connection.execute("SELECT event_id, status FROM events ORDER BY event_id").fetchall()
    connection.close()
    assert [row[0] for row in rows] == ["e-1", "e-2", "e-3"]


@pytest.mark.parametrize("what", ["worker.yaml", "shop:sqs"])
def test_what_lean_cannot_honour_is_one_line_and_exit_code_1(
    what: str, endpoint: str, client: Any, tmp_path: Path
) -> None:
    demo(tmp_path, endpoint)
    client.create_queue(QueueName="mail")
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    done = run(
        tmp_path, what, "--transport", "lean", http_proxy="http://127.0.0.1:9", no_proxy="", NO_PROXY=""
    )
    assert done.returncode == 1, done.stderr
    assert "prox" in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("Error:")]) == 1
    assert "Traceback" not in done.stderr


def test_an_unknown_transport_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "worker.yaml", "--transport", "fast"]) == 2
    assert "boto3" in capsys.readouterr().err
