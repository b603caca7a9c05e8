"""Short jobs share threads and settlements; one that is not short after all holds nobody up."""

from __future__ import annotations

import threading
import time

import pytest

from sqs_workers.hooks import JobSucceeded, MessageSettled
from sqs_workers.messages import Message
from sqs_workers.width import Width
from sqs_workers.worker.slots import BACKLOG_ALLOWANCE, Slots
from sqs_workers.worker.source import SourceState
from sqs_workers.worker.threads import JobThreads
from tests.worker.kit import PATIENCE, Bench, Handler, Running, StopAfter


class Stuck:
    """Jobs that return at once, but for those named ``stuck``."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.release = threading.Event()

    def __call__(self, message: Message) -> None:
        if message.body == "stuck":
            self.entered.release()
            assert self.release.wait(PATIENCE)

    def wait_until_entered(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.entered.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("concurrency", [2, 3, 16])
def test_a_job_that_takes_long_among_short_ones_holds_none_of_them_up(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    jobs = Stuck()
    with bench.running(bench.source(Handler(jobs)), concurrency=concurrency):
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, 100)
        bench.send("stuck", *["short"] * 100)
        jobs.wait_until_entered()
        bench.wait_for(MessageSettled, 200)
        bench.send(*["short"] * 50)
        bench.wait_for(MessageSettled, 250)
        assert bench.counts() == (0, 1)
        jobs.release.set()
        bench.wait_for(MessageSettled, 251)


def test_every_slot_is_used_when_short_jobs_turn_long() -> None:
    bench = Bench()
    bench.queue()
    jobs = Stuck()
    with bench.running(bench.source(Handler(jobs)), concurrency=16):
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, 100)
        bench.send(*["stuck"] * 16)
        jobs.wait_until_entered(16)
        jobs.release.set()
        bench.wait_for(MessageSettled, 116)


def test_a_job_that_has_ended_is_settled_while_its_thread_is_in_a_long_one() -> None:
    bench = Bench()
    bench.queue()
    jobs = Stuck()
    with bench.running(bench.source(Handler(jobs)), concurrency=16):
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, 100)
        for round_number in range(1, 6):
            bench.send(*["short"] * 9, "stuck")
            jobs.wait_until_entered()
            bench.wait_for(MessageSettled, 100 + 9 * round_number)
            assert bench.counts() == (0, round_number)
        jobs.release.set()
        bench.wait_for(MessageSettled, 150)


def test_a_stop_settles_short_jobs_that_have_ended_and_waits_for_the_long_one() -> None:
    bench = Bench()
    bench.queue()
    jobs = Stuck()
    with bench.running(bench.source(Handler(jobs)), concurrency=4) as running:
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, 100)
        bench.send(*["short"] * 5, "stuck")
        jobs.wait_until_entered()
        running.worker.stop()
        bench.wait_for(MessageSettled, 105)
        jobs.release.set()
        result = running.join()
    assert result.abandoned == ()
    assert result.succeeded + result.counts["jobs"].released == 106
    assert len(bench.of(JobSucceeded)) == result.succeeded


def test_short_jobs_of_a_full_queue_are_settled_in_tens_without_waiting_for_more() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(400)))
    handler = Handler()
    worker = bench.worker(bench.source(handler), concurrency=16, shutdown_policy=StopAfter(400))
    result = worker.run()
    assert sorted(handler.bodies, key=int) == [str(number) for number in range(400)]
    assert result.counts["jobs"].settled == 400
    assert bench.transport.calls["delete_batch"] < 100


def test_a_thread_that_watches_takes_what_has_waited_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.queue()
    jobs = Stuck()
    watched = threading.Event()
    watch = JobThreads._watch

    def noted(self: JobThreads) -> bool:
        overdue = watch(self)
        if overdue:
            watched.set()
        return overdue

    monkeypatch.setattr(JobThreads, "_watch", noted)
    with bench.running(bench.source(Handler(jobs)), concurrency=16):
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, 100)
        for number in range(1, 11):
            bench.send("stuck", *["short"] * 9)
            jobs.wait_until_entered()
            bench.wait_for(MessageSettled, 100 + 9 * number)
            if watched.is_set():
                break
        jobs.release.set()
        assert watched.is_set()


def test_receiving_goes_on_when_a_backlog_of_settlements_has_gone_after_the_last_job() -> None:
    bench = Bench()
    bench.queue()
    # More than the slots, what is fetched ahead at the most, and the allowance together.
    bench.send(*(str(number) for number in range(1000)))
    handler = Handler()
    gate = threading.Event()

    def delete_batch(*args: object) -> None:
        assert gate.wait(PATIENCE)

    bench.transport.before["delete_batch"] = delete_batch
    with bench.running(bench.source(handler), concurrency=16) as running:
        until_parked(running)
        assert len(handler.bodies) < 1000
        gate.set()
        bench.wait_for(MessageSettled, 1000)


def until_parked(running: Running) -> None:
    """Wait until the worker has stopped to take anything in."""
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while True:
        stats = running.worker.stats()
        if stats.acker_backlog > BACKLOG_ALLOWANCE and not (
            stats.in_flight or stats.buffered or receiving(running)
        ):
            return
        assert time.monotonic() < deadline
        pause.wait(0.005)


def receiving(running: Running) -> bool:
    engine = running.worker._engine
    if engine is None:
        return True
    with engine.lock:
        state = engine.sources[0]
        return state.receives > 0 or bool(state.reserved) or not state.parked


@pytest.mark.parametrize(
    ("durations", "short"),
    [([], False), ([0.0001] * 3, True), ([0.05], False), ([0.0001] * 50 + [0.05], False)],
)
def test_jobs_are_short_only_when_measured_as_such(durations: list[float], short: bool) -> None:
    bench = Bench()
    bench.queue()
    slots = Slots([SourceState(bench.source(), bench.clock)], 16, None, Width())
    if durations:
        slots.jobs_took(durations)
    assert slots.short is short
