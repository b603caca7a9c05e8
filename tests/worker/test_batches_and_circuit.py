"""Batch handlers, and queues that pause while what they need is down."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import JobFailed, JobStarted, JobSucceeded, MessageSettled
from sqs_workers.messages import Message
from sqs_workers.outcome import Failed, Succeeded
from sqs_workers.worker import BatchSettings, PauseOn, process_once
from tests.worker.kit import Bench, Handler, StopAfter


def sizes(handler: Handler) -> list[int]:
    return [len(bodies.split(",")) for bodies in handler.bodies]


def test_a_batch_above_ten_is_filled_from_several_receives() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(50)))
    handler = Handler()
    source = bench.source(handler, batch=BatchSettings(25, wait_seconds=5))
    bench.worker(source, shutdown_policy=StopAfter(50)).run()
    assert sizes(handler) == [25, 25]
    assert len({body for bodies in handler.bodies for body in bodies.split(",")}) == 50
    assert bench.counts() == (0, 0)


def test_a_batch_that_does_not_fill_runs_after_its_wait() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abc")
    handler = Handler()
    source = bench.source(handler, batch=BatchSettings(10, wait_seconds=0.05))
    bench.worker(source, concurrency=2, shutdown_policy=StopAfter(3)).run()
    assert sizes(handler) == [3]


def test_the_failed_items_of_a_batch_are_retried_each_by_its_own_delay() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abc")

    def partly(messages: Sequence[Message]) -> list[Any]:
        return [Failed(ValueError(), 700) if message.body == "b" else Succeeded() for message in messages]

    source = bench.source(Handler(partly), batch=BatchSettings(10, wait_seconds=0.05))  # type: ignore[arg-type]
    result = bench.worker(source, shutdown_policy=StopAfter(3)).run()
    assert (result.succeeded, result.failed) == (2, 1)
    assert bench.counts() == (0, 1)
    (entries,) = (args[1] for name, args in bench.transport.log if name == "change_visibility_batch")
    assert [seconds for _, seconds in entries] == [700]


@pytest.mark.parametrize("answer", [[Succeeded()], [True, True, True]])
def test_a_batch_handler_with_a_wrong_answer_fails_them_all(answer: list[Any]) -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abc")
    source = bench.source(Handler(lambda messages: answer), batch=BatchSettings(10, wait_seconds=0.05))
    result = bench.worker(source, shutdown_policy=StopAfter(3)).run()
    assert (result.succeeded, result.failed) == (0, 3)
    assert bench.counts() == (3, 0)


@pytest.mark.parametrize(("size", "expected"), [(4, [4]), (10, [10]), (25, [25])])
def test_process_once_takes_one_batch(size: int, expected: list[int]) -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(30)))
    handler = Handler()
    result = process_once(bench.source(handler, batch=BatchSettings(size)), bench.transport)
    assert sizes(handler) == expected
    assert result.succeeded_count() == size
    assert bench.counts() == (30 - size, 0)


def test_a_batch_of_a_fifo_queue_keeps_the_order_of_each_group() -> None:
    bench = Bench()
    bench.queue("jobs.fifo")
    bench.send("A1", "A2", "A3", queue="jobs.fifo", group="A")
    bench.send("B1", queue="jobs.fifo", group="B")
    handler = Handler()
    source = bench.source(handler, name="jobs.fifo", batch=BatchSettings(10, wait_seconds=0.05))
    bench.worker(source, concurrency=2, shutdown_policy=StopAfter(4)).run()
    order = [body for bodies in handler.bodies for body in bodies.split(",")]
    assert [body for body in order if body[0] == "A"] == ["A1", "A2", "A3"]


class Database:
    """Something that jobs need and that can be down."""

    def __init__(self) -> None:
        self.down = True
        self.calls = 0
        self.pings = 0
        self.lock = threading.Lock()

    def use(self, message: object) -> None:
        with self.lock:
            self.calls += 1
            if self.down:
                raise ConnectionRefusedError

    def ping(self) -> None:
        with self.lock:
            self.pings += 1
            if self.down:
                raise ConnectionRefusedError


def pass_time(clock: ManualClock, reached: Any, step: float = 0.5) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if reached():
            return
        clock.advance(step)
        pause.wait(0.005)
    raise AssertionError("not reached")


@pytest.mark.parametrize("with_probe", [False, True])
def test_a_database_that_is_down_is_not_hammered_and_work_resumes(with_probe: bool) -> None:
    bench = Bench(ManualClock())
    clock = bench.clock
    bench.queue(VisibilityTimeout="600")
    bench.send(*(str(number) for number in range(40)))
    database = Database()
    circuit = PauseOn(
        (ConnectionRefusedError,), failures=2, min_pause=10, probe=database.ping if with_probe else None
    )
    source = bench.source(Handler(database.use), circuit=circuit, wait_seconds=20)
    with bench.running(source, concurrency=4) as running:
        bench.wait_for(JobFailed, 2)
        pass_time(clock, lambda: running.worker.stats().state == "paused", 0)
        pass_time(clock, lambda: running.worker.stats().in_flight == 0, 0)
        fallen = database.calls
        # At its fall the four in hand lose an attempt, the failed ones come back at once.
        assert fallen <= 8
        start = clock.monotonic()
        pass_time(clock, lambda: clock.monotonic() > start + 60)
        assert running.worker.stats().sources["jobs"].paused or not with_probe
        if with_probe:
            assert database.calls == fallen
            assert 2 <= database.pings <= 8
        else:
            assert 1 <= database.calls - fallen <= 8
        with database.lock:
            database.down = False
        pass_time(clock, lambda: len(bench.of(JobSucceeded)) == 40)
        running.worker.stop()
        pass_time(clock, lambda: not running.thread.is_alive())


def test_another_error_does_not_pause_a_queue() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdef")

    def fail(message: object) -> None:
        raise ValueError

    source = bench.source(Handler(fail), circuit=PauseOn((ConnectionError,), failures=1))
    result = bench.worker(source, shutdown_policy=StopAfter(12)).run()
    assert result.failed >= 12
    assert not result.counts["jobs"].paused


def test_a_predicate_says_which_errors_pause_a_queue() -> None:
    def fail(message: object) -> None:
        raise RuntimeError("the database is down")

    bench = Bench()
    bench.queue(VisibilityTimeout="600")
    bench.send(*(str(number) for number in range(10)))
    policy = PauseOn(when=lambda error: "database" in str(error), failures=2, min_pause=60)
    source = bench.source(Handler(fail), circuit=policy)
    with bench.running(source) as running:
        bench.wait_for(JobFailed, 2)
        running.worker.stop()
        result = running.join()
    assert result.failed == 2


def test_a_predicate_that_raises_pauses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    policy = PauseOn(when=lambda error: error.no_such_attribute, failures=1)  # type: ignore[attr-defined]
    assert not policy.means_down(ValueError("x"))
    assert "PauseOn" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"errors": ()},
        {"errors": ("OperationalError",)},
        {"errors": (ValueError,), "failures": 0},
        {"errors": (ValueError,), "min_pause": 0},
        {"errors": (ValueError,), "min_pause": 10, "max_pause": 5},
    ],
)
def test_a_pause_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="PauseOn"):
        PauseOn(**options)


def test_the_stats_say_what_is_in_hand() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    gate = threading.Event()

    def wait(message: Message) -> None:
        assert gate.wait(10)

    worker = bench.worker(bench.source(Handler(wait)))
    assert worker.stats().state == "idle"
    with bench.running(bench.source(Handler(wait)), concurrency=2) as running:
        bench.wait_for(JobStarted)
        stats = running.worker.stats()
        assert (stats.state, stats.in_flight, stats.buffered) == ("running", 1, 0)
        assert stats.oldest >= 0
        assert stats.last_good_poll is not None
        assert stats.sources["jobs"].received == 1
        gate.set()
        bench.wait_for(MessageSettled)
        running.worker.stop()
        running.join()
    stats = running.worker.stats()
    assert stats.sources["jobs"].settled == 1
    # Measured when the slot is free again, which may be after the settlement.
    assert stats.rate > 0
