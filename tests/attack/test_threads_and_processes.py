"""A system that has no thread or process to give, stops that come too early, and Ctrl-C where nobody expects it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.hooks import JobStarted
from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.outcome import MoveTo
from sqs_workers.worker import lifecycle
from sqs_workers.worker.moves import copy_message
from sqs_workers.worker.processes import Supervisor
from tests.worker.kit import PATIENCE, Bench, Handler, IdleStop
from tests.worker.test_processes import supervised, wait_for


def test_a_system_without_further_threads_slows_a_worker_down_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*(f"{number}" for number in range(60)))
    handler = Handler()
    first_ones = {"sqs-control", "sqs-receive-jobs-0", "sqs-job-1", "sqs-acker-0", "sqs-heartbeat"}
    start = threading.Thread.start

    def start_the_first_ones(thread: threading.Thread) -> None:
        if thread.name.startswith("sqs-") and thread.name not in first_ones:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_the_first_ones)
    result = bench.worker(
        bench.source(handler, wait_seconds=0), concurrency=16, shutdown_policy=IdleStop()
    ).run()
    assert sorted(handler.bodies, key=int) == [f"{number}" for number in range(60)]
    assert (result.exit_code, bench.counts()) == (0, (0, 0))


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_child_that_cannot_be_started_is_started_later_and_its_sibling_goes_on(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen, starts = subprocess.Popen, iter(range(10))

    def fail_once(*args: Any, **options: Any) -> Any:
        if next(starts) == 1:
            raise OSError(code, os.strerror(code))
        return popen(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", fail_once)
    with supervised("work", 2, directory=str(tmp_path)) as (supervisor, codes):
        wait_for(tmp_path, "up", 2)
    assert codes == [0]
    assert supervisor.pids == []


def test_a_child_whose_program_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        Supervisor("tests.worker.process_targets:end", {}, 1, 1.0).run()


@pytest.mark.parametrize("by", ["parent", "signal", "ctrl-c"])
def test_a_stop_while_a_child_has_no_worker_yet_is_clean(by: str, tmp_path: Path) -> None:
    with supervised("wait_for_ever", 1, directory=str(tmp_path)) as (supervisor, codes):
        (pid,) = wait_for(tmp_path, "up")
        if by == "parent":
            supervisor.stop()
        else:
            os.kill(pid, signal.SIGTERM if by == "signal" else signal.SIGINT)
    assert codes == [0]


def test_a_child_that_dies_in_the_moment_of_a_stop_does_not_take_its_siblings_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Supervisor._write

    def kill_first(supervisor: Supervisor, process: Any, line: bytes) -> None:
        if line == b"stop\n" and process.pid == min(supervisor.pids):
            process.kill()
            process.wait()
        write(supervisor, process, line)

    monkeypatch.setattr(Supervisor, "_write", kill_first)
    with supervised("work", 2, directory=str(tmp_path)) as (_, codes):
        wait_for(tmp_path, "up", 2)
    assert len(wait_for(tmp_path, "stopped", 1)) == 1, "the other one has stopped in order"
    assert codes == [3]


def test_a_second_ctrl_c_ends_the_waiting_and_leaves_nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a", "b")
    go_on = threading.Event()
    interrupts = iter([True])
    wait = lifecycle.Stop._wait_for_handlers

    def interrupted_once(stop: lifecycle.Stop, deadline: float) -> None:
        if next(interrupts, False):
            raise KeyboardInterrupt
        wait(stop, deadline)

    monkeypatch.setattr(lifecycle.Stop, "_wait_for_handlers", interrupted_once)
    handler = Handler(lambda message: go_on.wait(PATIENCE) and None)
    worker = bench.worker(bench.source(handler), executor="threads")
    thread = threading.Thread(target=lambda: (bench.wait_for(JobStarted), worker.stop()))
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            worker.run()
        assert bench.counts() == (2, 0)
    finally:
        go_on.set()
        thread.join()
    bench.wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("sqs-")])


def test_a_stop_between_the_look_and_the_run_is_not_lost() -> None:
    bench = Bench()
    bench.queue()
    worker = bench.worker(bench.source(wait_seconds=0))
    running: list[threading.Thread] = []

    original = type(worker).__setattr__

    def begin_first(self: Any, name: str, value: Any) -> None:
        if name == "_stop_asked" and value == "now" and not running:
            running.append(threading.Thread(target=worker.run))
            running[0].start()
            bench.wait_until(lambda: worker.stats().state == "running")
        original(self, name, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(worker), "__setattr__", begin_first, raising=False)
        worker.stop("now")
    running[0].join(PATIENCE)
    assert not running[0].is_alive()


def _message(size: int, attributes: int) -> Message:
    return Message(
        "id",
        "receipt",
        "x" * size,
        {"ApproximateReceiveCount": "3"},
        {f"a{number}": {"DataType": "String", "StringValue": "y"} for number in range(attributes)},
    )


@pytest.mark.parametrize("spare", [0, 10, 30, 60, 1000])
def test_the_copy_of_a_message_at_the_limit_fits(spare: int) -> None:
    message = _message(1_048_576 - spare, 0)
    extra = {"DeadLetterReason": "attempts used up", "DeadLetterErrorType": "ValueError"}
    copy: OutgoingMessage = copy_message(MoveTo("dead", message, extra), fifo=False)
    assert copy.size <= 1_048_576
    assert copy.body == message.body
    assert len(copy.attributes) == (0 if spare < 38 else 1 if spare < 80 else 2)
