"""``beat``: schedules from the command line, and the mistakes that end it before it begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.cli import main
from sqs_workers.sql import create_tables

ROOT = Path(__file__).parents[2]
SHOP = """\
import boto3
from sqs_workers import SQSEnv
from sqs_workers.schedules import Beat
sqs = SQSEnv(boto3, codec="json")
@sqs.queue("reports").periodic(every=1)
@sqs.queue("reports").processor("report")
def report():
    pass
beat = Beat(sqs, poll=0.2)
idle = SQSEnv(boto3, codec="json")
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of its own for each test: Python keeps what it has imported."""
    name = f"shop_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return name


def started(module: str, directory: Path, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sqs_workers", "beat", module, *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stderr=subprocess.PIPE,
    )


def slots(client: Any, url: str, count: int) -> list[str]:
    """Stable ids of so many messages."""
    found: list[str] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, found
        answer = client.receive_message(
            QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        found += [
            message["MessageAttributes"]["StableId"]["StringValue"] for message in answer.get("Messages", ())
        ]
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("what", ["sqs", "beat"])
def test_jobs_are_sent_until_a_signal(
    what: str, number: signal.Signals, client: Any, module: str, tmp_path: Path
) -> None:
    url = client.create_queue(QueueName="reports")["QueueUrl"]
    process = started(f"{module}:{what}", tmp_path)
    try:
        found = slots(client, url, 2)
        process.send_signal(number)
        _, told = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0, told
    assert len(set(found)) == len(found)
    assert all(slot.startswith("reports.report@") for slot in found)
    assert b'"schedule": "reports.report"' in told
    assert b"Traceback" not in told


def test_two_with_one_database_send_each_slot_once(client: Any, module: str, tmp_path: Path) -> None:
    url = client.create_queue(QueueName="reports")["QueueUrl"]
    dsn = f"sqlite:///{tmp_path / 'lease.db'}"
    engine = sa.create_engine(dsn)
    create_tables(engine)
    engine.dispose()
    options = (f"{module}:sqs", tmp_path, "--dsn-env", "LEASE_DSN", "--poll", "0.2")
    both = [started(*options, LEASE_DSN=dsn) for _ in range(2)]  # type: ignore[arg-type]
    try:
        found = slots(client, url, 4)
        for process in both:
            process.terminate()
        codes = [(process.communicate(timeout=20), process.returncode)[1] for process in both]
    finally:
        for process in both:
            if process.poll() is None:
                process.kill()
                process.communicate()
    assert codes == [0, 0]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{module}:nothing"], "has no `nothing`"),
        (["no_such_module_here:sqs"], "there is no module"),
        (["{module}:number"], "is a int, and neither an SQSEnv nor a Beat"),
        (["{module}:idle"], "declares no schedule"),
        (["{module}:beat", "--poll", "1"], "leave --poll out"),
        (["{module}:beat", "--dsn-env", "X"], "leave --dsn-env out"),
        (["{module}:sqs", "--name", "shop"], "give --dsn-env"),
        (["{module}:sqs", "--dsn-env", "NO_SUCH_VARIABLE"], "holds no DSN"),
        (["{module}:sqs", "--poll", "0"], "--poll"),
    ],
)
def test_a_mistake_is_a_line_and_exit_code_2(
    arguments: list[str], said: str, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["beat", *(argument.format(module=module) for argument in arguments)]) == 2
    told = capsys.readouterr().err
    assert said in " ".join(told.split())
    assert "Traceback" not in told


def test_a_database_without_the_table_is_said_and_its_dsn_is_not(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEASE_DSN", f"sqlite:///{tmp_path / 'very-secret.db'}")
    assert main(["beat", f"{module}:sqs", "--dsn-env", "LEASE_DSN"]) == 1
    told = capsys.readouterr().err
    assert "create_tables" in told
    assert "schedule_slots" in told
    assert "very-secret" not in told


def test_a_database_that_does_not_answer_is_exit_code_1(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEASE_DSN", "postgresql://root:hidden@127.0.0.1:1/test")
    assert main(["beat", f"{module}:sqs", "--dsn-env", "LEASE_DSN"]) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "hidden" not in told
