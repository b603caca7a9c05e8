"""Several processes of one command, and starting anew when a file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.cli import main, processes
from tests.leaks import child_processes

ROOT = Path(__file__).parents[2]
HANDLER = "import os\ndef to_row(ctx, item):\n    open('seen', 'a').write(f'{os.getpid()} {VERSION}\\n')\n"
FILE = """\
apiVersion: sqs-workers/v1
kind: App
app: {name: demo, shutdown_timeout_s: 5}
resources:
  sqs: {type: sqs}
  events: {type: sqs_queue, connector: sqs, name: events, wait_time_s: 1}
tasks:
  - {name: ingest, source: events, handler: "handler:to_row"}
"""


@pytest.fixture
def directory(client: Any, tmp_path: Path) -> Path:
    main(["create", "events"])
    (tmp_path / "worker.yaml").write_text(FILE, encoding="utf-8")
    (tmp_path / "handler.py").write_text("VERSION = 1\n" + HANDLER, encoding="utf-8")
    return tmp_path


@contextmanager
def supervised(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqs_workers", "run", "worker.yaml", *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


def children_of(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in path.read_text().split()}


def until(condition: Callable[[], Any], patience: float = 25.0) -> Any:
    pause, deadline = threading.Event(), time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        pause.wait(0.1)
    return found


def seen(directory: Path) -> list[list[str]]:
    path = directory / "seen"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the children of a process from /proc")
def test_a_process_that_dies_is_replaced_and_a_signal_ends_all(directory: Path) -> None:
    with supervised(directory, "--processes", "2") as process:
        first = until(lambda: len(found := children_of(process.pid)) == 2 and found)
        main(["send", "events", *(f'{{"id": {n}}}' for n in range(10))])
        until(lambda: len(seen(directory)) == 10)
        os.kill(min(first), signal.SIGKILL)
        until(lambda: len(now := children_of(process.pid)) == 2 and min(first) not in now)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert "ended with signal SIGKILL" in (directory / "log").read_text()
    assert not child_processes() & first


def test_a_signal_while_a_process_is_being_started_ends_that_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = processes._Supervisor([], 2, None)
    supervisor._command = [sys.executable, "-c", "import signal; signal.pause()"]
    start = subprocess.Popen
    started: list[subprocess.Popen[bytes]] = []

    def started_and_signalled(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        if len(started) == 2:
            supervisor._on_signal(signal.SIGTERM, None)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", started_and_signalled)
    before = time.monotonic()
    assert supervisor.run() == 0
    assert [child.returncode for child in started] == [-signal.SIGTERM] * 2
    assert time.monotonic() - before < 30


def test_a_change_of_a_file_starts_the_worker_anew(directory: Path) -> None:
    with supervised(directory, "--reload") as process:
        main(["send", "events", '{"id": 1}'])
        until(lambda: seen(directory))
        (directory / "handler.py").write_text("VERSION = 2  # changed\n" + HANDLER, encoding="utf-8")
        until(lambda: (directory / "log").read_text().count("Task starts") == 2)
        assert "A file has changed" in (directory / "log").read_text()
        main(["send", "events", '{"id": 2}'])
        until(lambda: seen(directory)[-1][1] == "2")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
