"""The benchmark harness measures and judges what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import ALL_TARGETS, main
from benchmarks.endpoint import EndpointProcess
from benchmarks.measure import Bench, FailedError
from benchmarks.peers import CONTENDERS, SCRIPTS, Contender, UnavailableError, prepare
from benchmarks.report import as_json, as_markdown
from benchmarks.targets import Plan, Result, Samples, take_turns

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the benchmarks read CPU and memory from /proc"
)
PLAN = Plan(rounds=3, scale=1.0, present=("ours", "raw"))


def result(ours: list[float], raw: list[float]) -> Result:
    samples = {"ours": Samples({"messages/s": ours}), "raw": Samples({"messages/s": raw})}
    return Result("T0", "A test", samples)


def test_a_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_medians() -> None:
    # A slow second round slows both down.
    assert result([100, 10, 90], [50, 5, 60]).ratio("messages/s", "ours", "raw") == (2.0, 1.5, 2.0)


@pytest.mark.parametrize(("least", "enough"), [(1.9, True), (2.1, False)])
def test_a_target_is_reached_or_missed_by_the_median(least: float, enough: bool) -> None:
    found = result([100, 10, 90], [50, 5, 60])
    found.judge_ratio("at least", "messages/s", "ours", "raw", least=least)
    assert found.verdicts == [("at least", "2.00 (1.50 to 2.00)", enough)]


def test_a_target_without_its_rival_is_neither_reached_nor_missed() -> None:
    found = result([1], [1])
    found.judge_ratio("at least", "messages/s", "ours", "celery", least=1)
    assert found.verdicts == [("at least", "not measured", None)]


def test_contenders_take_turns_and_one_that_fails_is_left_out_with_its_reason() -> None:
    order = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        if name == "raw":
            raise FailedError("Traceback\nValueError: it broke")
        return {"ms": len(order)}

    found = Result("T0", "A test")
    take_turns(found, PLAN, ("ours", "raw", "celery"), measure)
    assert order == ["ours", "raw", "ours", "ours"]
    assert found.samples["ours"].values == {"ms": [1, 3, 4]}
    assert found.notes == ["raw failed: ValueError: it broke"]


def test_the_report_shows_verdicts_medians_and_spread() -> None:
    found = result([100, 10, 90], [50, 5, 60])
    found.judge_ratio("at least 3", "messages/s", "ours", "raw", least=3)
    text = as_markdown([found], {"raw": "boto3 1.0"}, PLAN)
    assert "| T0 | at least 3 | 2.00 (1.50 to 2.00) | **missed** |" in text
    assert "| ours | 90 (10 to 100) |" in text
    assert "raw: boto3 1.0" in text
    assert json.loads(json.dumps(as_json([found], {}, PLAN)))["targets"]["T0"]["title"] == "A test"


def test_every_contender_has_its_script_and_every_target_its_place() -> None:
    assert all((SCRIPTS / contender.script).is_file() for contender in CONTENDERS.values())
    assert list(ALL_TARGETS) == [
        *(f"T{number}" for number in range(1, 11)),
        *(f"L{number}" for number in range(1, 6)),
    ]


def test_a_contender_that_cannot_be_installed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "No matching distribution found for absent")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(UnavailableError, match="absent cannot be installed: No matching distribution"):
        prepare(Contender("absent", "run_raw.py", ("absent",)), tmp_path)


@pytest.mark.parametrize("arguments", [["--only", "T11"], ["--contenders", "nobody"]])
def test_unknown_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "is not among" in capsys.readouterr().err


@pytest.fixture
def bench() -> Iterator[Bench]:
    with EndpointProcess() as endpoint:
        found = Bench(endpoint, {"raw": sys.executable, "raw-tuned": sys.executable})
        yield found
        found.close()


@pytest.mark.wire
def test_a_queue_is_drained_and_measured(bench: Bench) -> None:
    drained = bench.drain(CONTENDERS["raw-tuned"], 300, concurrency=4, latency_ms=1)
    assert drained.rate > 10
    assert 0 < drained.cpu < 50
    assert 0.1 < drained.requests < 1
    assert drained.rss > 10
    assert drained.processes == 1


@pytest.mark.wire
def test_an_idle_worker_is_timed_and_runs_are_counted(bench: Bench) -> None:
    values = bench.latencies(CONTENDERS["raw"], 3, latency_ms=10)
    assert len(values) == 3
    assert all(value >= 9 for value in values)
    assert bench.runs_per_job(CONTENDERS["raw"], 4, visibility=30, job_ms=10, workers=2) == (0, 0)


@pytest.mark.wire
def test_a_worker_that_never_polls_is_an_error_that_shows_what_it_said(bench: Bench) -> None:
    with pytest.raises(FailedError, match=r"(?s)does not poll: .*NonExistentQueue"):
        bench.start_worker(CONTENDERS["raw"], "no-such-queue", concurrency=1)
