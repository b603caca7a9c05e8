"""Worker processes: kept alive, stopped in order, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.worker import processes
from sqs_workers.worker.processes import Supervisor, run_processes
from sqs_workers.worker.result import EXIT_ABANDONED, EXIT_FAILED

TARGETS = "tests.worker.process_targets"
_pause = threading.Event()


def wait_for(directory: Path, text: str, count: int = 1) -> set[int]:
    """Process ids of those who have said ``text``."""
    for _ in range(1000):
        found = {int(path.suffix[1:]) for path in directory.glob(f"{text}.*")}
        if len(found) >= count:
            return found
        _pause.wait(0.02)
    raise AssertionError(f"{len(found)} of {count} said {text!r}")


@contextmanager
def supervised(
    target: str, count: int, timeout: float = 10.0, **kwargs: Any
) -> Iterator[tuple[Any, list[int]]]:
    supervisor = Supervisor(f"{TARGETS}:{target}", kwargs, count, timeout)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run()))
    thread.start()
    try:
        yield supervisor, codes
    finally:
        supervisor.stop()
        thread.join(20)
        assert not thread.is_alive()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_f09_a_killed_child_is_replaced_and_its_siblings_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_RESTART_FIRST", 0.01)
    with supervised("work", 2, directory=str(tmp_path)) as (supervisor, codes):
        first = wait_for(tmp_path, "up", 2)
        victim = min(first)
        os.kill(victim, signal.SIGKILL)
        everyone = wait_for(tmp_path, "up", 3)
        assert set(supervisor.pids) == everyone - {victim}
        supervisor.stop()
        assert wait_for(tmp_path, "stopped", 2) == everyone - {victim}
    assert codes == [0]
    assert f"Worker process {victim} ended with SIGKILL" in caplog.text
    assert all(gone(pid) for pid in everyone)


def test_children_that_do_not_stay_alive_end_the_parent_with_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_RESTART_FIRST", 0.01)
    monkeypatch.setattr(processes, "_MAX_EARLY_DEATHS", 2)
    assert run_processes(f"{TARGETS}:crash", processes=1) == EXIT_FAILED
    assert "exit code 7" in caplog.text


def test_children_that_end_well_by_themselves_are_not_replaced() -> None:
    assert run_processes(f"{TARGETS}:end", {"code": 0}, processes=2) == 0


def test_a_child_that_does_not_stop_is_killed_after_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_KILL_MARGIN", 0.1)
    with supervised("stubborn", 1, timeout=0.2, directory=str(tmp_path)) as (supervisor, codes):
        (pid,) = wait_for(tmp_path, "up")
        supervisor.stop()
    assert codes == [EXIT_ABANDONED]
    assert gone(pid)
    assert f"{pid} did not stop in time" in caplog.text


def test_a_child_that_is_stopped_before_it_runs_a_worker_has_ended_well(tmp_path: Path) -> None:
    with supervised("start_slowly", 1, directory=str(tmp_path)) as (supervisor, codes):
        wait_for(tmp_path, "up")
        supervisor.stop()
    assert codes == [0]


def test_a_second_stop_interrupts_the_job_of_a_child(tmp_path: Path) -> None:
    with supervised("stuck_job", 1, timeout=100, directory=str(tmp_path)) as (supervisor, codes):
        wait_for(tmp_path, "up")
        supervisor.stop()
        supervisor.stop()
    assert codes == [0]


def test_a_child_whose_parent_is_killed_stops(tmp_path: Path) -> None:
    program = (
        "import sys; from sqs_workers.worker.processes import run_processes; "
        f"run_processes('{TARGETS}:work', {{'directory': sys.argv[1]}}, processes=1)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as parent:
        (child,) = wait_for(tmp_path, "up")
        parent.kill()
        parent.wait(10)
    assert wait_for(tmp_path, "stopped") == {child}


def test_a_process_that_a_job_of_a_child_forks_ends_by_its_signal(tmp_path: Path) -> None:
    with supervised("fork_in_a_job", 1, directory=str(tmp_path)) as (_, codes):
        wait_for(tmp_path, f"signal-{signal.SIGTERM:d}")
    assert codes == [0]


def test_what_follows_a_worker_that_a_signal_has_stopped_is_not_cut_off(tmp_path: Path) -> None:
    with supervised("clean_up_after", 1, directory=str(tmp_path)) as (_, codes):
        wait_for(tmp_path, "up")
    assert codes == [0]
    assert wait_for(tmp_path, "stopped")


def test_a_signal_to_the_parent_stops_the_children_in_order(tmp_path: Path) -> None:
    program = (
        "import sys; from sqs_workers.worker.processes import run_processes; "
        f"sys.exit(run_processes('{TARGETS}:work', {{'directory': sys.argv[1]}}, processes=2))"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as parent:
        children = wait_for(tmp_path, "up", 2)
        # As a service manager does: everybody gets the signal, the children directly as well.
        for pid in (*children, parent.pid):
            os.kill(pid, signal.SIGTERM)
        assert parent.wait(20) == 0
    assert wait_for(tmp_path, "stopped", 2) == children


@pytest.mark.parametrize("target", ["no_colon", ":x", "a:", "a:b:c"])
def test_a_target_that_is_no_import_path_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="module:attribute"):
        run_processes(target, processes=1)


def test_arguments_that_cannot_travel_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="plain data"):
        run_processes("a:b", {"x": object()}, processes=1)


@pytest.mark.parametrize("count", [0, -1, True])
def test_a_number_of_processes_that_makes_no_sense_is_refused(count: int) -> None:
    with pytest.raises(ConfigurationError, match="processes"):
        run_processes("a:b", processes=count)
