"""``top``: what workers of this machine publish, and tables that fit."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sqs_workers.cli import main
from sqs_workers.cli.fitting import Fitted
from sqs_workers.cli.published import JobState, Publisher, merged, published_jobs
from sqs_workers.cli.top import job_lines
from sqs_workers.worker import JobStats, SourceStats
from sqs_workers.worker.result import WorkerStats

ROOT = Path(__file__).parents[2]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "state"
    monkeypatch.setenv("SQS_WORKERS_STATE_DIR", str(found))
    return found


class Busy:
    """A worker that has done a little."""

    def stats(self) -> WorkerStats:
        jobs = {"ingest": JobStats(1, 1, 1, (0.2, 0.4), "ValueError")}
        return WorkerStats("running", {"source": SourceStats(jobs=jobs)})


def publisher(name: str = "events") -> Publisher:
    workers: Any = [Busy()]
    return Publisher(workers, {"source": name})


def test_a_worker_says_how_its_jobs_do_until_it_ends(directory: Path) -> None:
    one = publisher()
    one.tick()
    (state,) = published_jobs()
    assert (state.queue_name, state.job_name) == ("events", "ingest")
    assert state.stats == JobStats(1, 1, 1, (0.2, 0.4), "ValueError")
    assert directory.stat().st_mode & 0o077 == 0
    one.close()
    assert published_jobs() == []
    assert list(directory.iterdir()) == []


def test_processes_with_the_same_job_are_one_line(directory: Path) -> None:
    both = [publisher(), publisher()]
    for one in both:
        one.tick()
    (state,) = published_jobs()
    assert state.stats == JobStats(2, 2, 2, (0.2, 0.2, 0.4, 0.4), "ValueError")
    for one in both:
        one.close()


def test_what_a_killed_worker_left_is_not_shown_and_goes_in_the_end(directory: Path) -> None:
    publisher().tick()
    (file,) = directory.iterdir()
    said = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**said, "written": time.time() - 60}), encoding="utf-8")
    (directory / "torn.json").write_text('{"pid": 1', encoding="utf-8")
    (directory / "other.json").write_text("[]", encoding="utf-8")
    assert published_jobs() == []
    for path in directory.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    publisher().close()
    assert list(directory.iterdir()) == []


def test_a_directory_to_which_others_can_write_is_not_used(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    one = publisher()
    one.tick()
    assert list(directory.iterdir()) == []
    assert published_jobs() == []


def test_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    directory.symlink_to(target)
    publisher().tick()
    assert list(target.iterdir()) == []


def test_nothing_is_written_if_nobody_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQS_WORKERS_STATE_DIR", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    publisher().tick()
    assert list(tmp_path.iterdir()) == []
    assert published_jobs() == []


def test_a_full_disk_ends_the_telling_and_not_the_worker(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = publisher()

    def full(*arguments: Any, **options: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    one.tick()
    one.close()


def test_top_shows_the_jobs_of_its_queues(
    client: Any, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["create", "events"])
    main(["create", "others"])
    mine, foreign = publisher("events"), publisher("elsewhere")
    mine.tick()
    foreign.tick()
    capsys.readouterr()
    assert main(["top", "--count", "1", "--json"]) == 0
    by_name = {queue["name"]: queue for queue in json.loads(capsys.readouterr().out)}
    assert by_name["others"]["jobs"] == []
    (job,) = by_name["events"]["jobs"]
    assert job.pop("per_second") >= 0
    assert job == {
        "job": "ingest",
        "running": 1,
        "done": 1,
        "failed": 1,
        "p50": 0.4,
        "p95": 0.4,
        "last_error": "ValueError",
    }
    assert main(["top", "events", "--count", "1"]) == 0
    queue, told = capsys.readouterr().out.splitlines()
    assert queue.startswith("events\t")
    cells = told.split("\t")
    assert cells[:6] == ["job", "ingest", "events", "1", "1", "1"]
    assert cells[-3:] == ["400ms", "400ms", "ValueError"]
    mine.close()
    foreign.close()


def test_a_running_worker_is_seen_from_outside(endpoint: str, client: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    url = client.create_queue(QueueName="mail")["QueueUrl"]
    (tmp_path / "shop.py").write_text(
        "import boto3, threading\n"
        "from sqs_workers import SQSEnv\n"
        "sqs = SQSEnv(boto3, codec='json')\n"
        "@sqs.queue('mail').processor('wait')\n"
        "def wait():\n"
        "    threading.Event().wait(60)\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SQS_WORKERS_STATE_DIR": str(state)}
    send = [sys.executable, "-c", "import shop; shop.wait.delay()"]
    subprocess.run(send, cwd=tmp_path, env=environment, check=True, timeout=30)
    command = [sys.executable, "-m", "sqs_workers", "run", "shop:sqs", "--shutdown-timeout", "0.2"]
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        top = [sys.executable, "-m", "sqs_workers", "top", "mail", "--json", "--interval", "0.2"]
        watching = subprocess.Popen(
            top, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert watching.stdout is not None
        try:
            seen: list[str] = []
            deadline = time.monotonic() + 30
            while '"running": 1' not in (line := watching.stdout.readline()):
                seen.append(line)
                assert time.monotonic() < deadline, "".join(seen[-40:])
            assert any('"job": "wait"' in line for line in seen[-3:])
        finally:
            watching.kill()
            watching.wait()
            watching.stdout.close()
    finally:
        worker.terminate()
        worker.wait(30)
    assert url.endswith("/mail")
    assert list(state.iterdir()) == []


def test_a_job_fails_when_its_failures_grow() -> None:
    def states(**failed: int) -> list[JobState]:
        return [JobState("q", name, JobStats(failed=count)) for name, count in failed.items()]

    before, now = states(a=3, b=3), states(a=4, b=3, new=9)
    assert [(line.state.job_name, line.failing) for line in job_lines(now, before)] == [
        ("a", True),
        ("b", False),
        ("new", False),
    ]


def test_merging_keeps_the_order() -> None:
    one = JobStats(succeeded=1)
    states = [JobState("q", "b", one, 2.0), JobState("p", "z", one), JobState("q", "a", one)]
    found = merged([*states, JobState("q", "b", one, 1.5)])
    assert [(state.queue_name, state.job_name, state.stats.succeeded) for state in found] == [
        ("p", "z", 1),
        ("q", "a", 1),
        ("q", "b", 2),
    ]
    assert found[2].per_second == 3.5


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    one = publisher()
    rates = [one._rate(("q", "j"), min(5 * second, 100) + second, float(second)) for second in range(41)]
    assert rates[0] == 0.0
    assert rates[15] == 6.0
    assert rates[40] == 1.0
    one.close()


COLUMNS = ("job", "queue", "done", "oldest", "last error")
ROWS = [
    ("send_the_monthly_report", "reports-of-all-shops", "12345678", "-", "ConnectionResetError"),
    ("[red]markup[/red]", "q", "7", "-", "-"),
]


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_a_number_is_never_cut(width: int) -> None:
    fitted = Fitted(
        COLUMNS, ROWS, flexible=("job", "queue", "last error"), first_to_go=("oldest", "last error", "queue")
    )
    out = io.StringIO()
    Console(file=out, width=width).print(fitted.table("now", width, red=[True, False]))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    assert "12345678" in lines[2]
    assert len(lines) == 4
    header = lines[1].split()
    assert ("oldest" in header) == (width == 160)
    assert ("error" in header) == (width >= 60)
    assert "[red]" in lines[3]
