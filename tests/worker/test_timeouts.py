"""Jobs that outlive their timeout: coroutines are cancelled, threads are reported and replaced."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sqs_workers.exceptions import JobTimeoutError, WorkerError
from sqs_workers.hooks import JobFailed, JobRetried, JobStarted, JobSucceeded, MessageSettled
from sqs_workers.messages import Message
from tests.worker.kit import PATIENCE, AsyncHandler, Bench, Handler, StopAfter


def test_a_coroutine_that_outlives_its_timeout_is_cancelled_and_retried() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    cancelled: list[bool] = []

    async def long(message: Message) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    handler = AsyncHandler(long, timeout=0.05)
    result = bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    (event,) = bench.of(JobFailed)
    assert isinstance(event.error, JobTimeoutError)
    assert "0.05 s" in str(event.error)
    assert "jobs" in str(event.error)
    assert cancelled == [True]
    assert len(bench.of(JobRetried)) == 1
    assert result.counts["jobs"].timed_out == 1
    assert bench.counts() == (1, 0)


def test_a_thread_that_outlives_its_timeout_is_reported_and_its_slot_goes_on() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("stuck")
    gate = threading.Event()

    def hang(message: Message) -> None:
        if message.body == "stuck":
            assert gate.wait(PATIENCE)

    handler = Handler(hang, timeout=0.2)
    with bench.running(bench.source(handler), executor="threads", concurrency=1) as running:
        assert isinstance(bench.wait_for(JobFailed)[0].error, JobTimeoutError)
        bench.send("next")
        bench.wait_for(JobSucceeded)
        # Its late result is dropped: the message stays with its visibility timeout.
        gate.set()
        running.worker.stop()
        result = running.join()
    assert [event.action for event in bench.of(MessageSettled)] == ["leave", "delete"]
    assert bench.counts() == (0, 1)
    assert result.counts["jobs"].timed_out == 1
    assert result.counts["jobs"].succeeded == 1


def test_handlers_that_all_hang_end_the_worker_with_an_error_that_says_so() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*"abcde")
    gate = threading.Event()

    def hang(message: Message) -> None:
        assert gate.wait(PATIENCE)

    handler = Handler(hang, timeout=0.05)
    with bench.running(bench.source(handler), concurrency=2) as running:
        with pytest.raises(WorkerError, match="outlived their timeout"):
            running.join()
        gate.set()
    assert len(bench.of(JobFailed)) >= 3
    assert bench.counts()[0] + bench.counts()[1] == 5


def test_a_job_in_time_is_not_disturbed_and_leaves_no_deadline_behind() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abc")
    handler = Handler(timeout=1000)
    worker = bench.worker(bench.source(handler), shutdown_policy=StopAfter(3))
    assert worker.run().succeeded == 3
    engine = worker._engine
    assert engine is not None
    assert len(engine.heartbeat._rings) == 0


def test_an_inline_job_that_outlives_its_timeout_is_left_and_its_late_result_dropped() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("slow")

    def wait_for_the_report(message: Message) -> None:
        if message.body == "slow":
            bench.wait_for(JobFailed)
            bench.send("next")

    handler = Handler(wait_for_the_report, timeout=0.05)
    with bench.running(bench.source(handler)) as running:
        bench.wait_for(JobSucceeded)
        running.worker.stop()
        running.join()
    assert handler.bodies == ["slow", "next"]
    assert bench.counts() == (0, 1)


def test_a_cancelled_error_that_a_coroutine_raises_itself_is_a_failure() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")

    async def odd(message: Message) -> None:
        raise asyncio.CancelledError

    result = bench.worker(bench.source(AsyncHandler(odd)), shutdown_policy=StopAfter(1)).run()
    assert result.failed == 1
    assert bench.counts() == (1, 0)


def test_sync_and_async_jobs_share_a_queue() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcd")

    class Mixed(AsyncHandler):
        def is_async(self, message: Message) -> bool:
            return message.body in "ab"

    class Both(Mixed):
        async def arun(self, message: Message) -> object:  # type: ignore[override]
            with self.lock:
                self.bodies.append(message.body + "async")
            from sqs_workers.outcome import Succeeded

            return Succeeded()

    handler = Both()
    bench.worker(bench.source(handler), concurrency=2, shutdown_policy=StopAfter(4)).run()
    assert sorted(handler.bodies) == ["aasync", "basync", "c", "d"]
    assert len(bench.of(JobStarted)) == 4
