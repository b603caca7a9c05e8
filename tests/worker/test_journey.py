"""A message's journey through the engine, in the ordinary cases."""

from __future__ import annotations

import threading

import pytest

from sqs_workers.hooks import (
    JobFailed,
    JobRetried,
    JobStarted,
    JobSucceeded,
    MessageReceived,
    MessageSettled,
    WorkerStarted,
    WorkerStopped,
)
from sqs_workers.worker import process_once
from tests.worker.kit import AsyncHandler, Bench, Handler, IdleStop, StopAfter


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_message_is_run_once_and_deleted(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(40)))
    handler = Handler()
    with bench.running(bench.source(handler), concurrency=concurrency, shutdown_policy=IdleStop()) as running:
        result = running.join()
    assert sorted(handler.bodies, key=int) == [str(number) for number in range(40)]
    assert bench.counts() == (0, 0)
    assert result.reason == "IdleStop()"
    assert result.exit_code == 0
    assert result.abandoned == ()
    assert result.succeeded == result.counts["jobs"].settled == 40


def test_the_inline_executor_runs_jobs_in_the_calling_thread() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    threads = []
    handler = Handler(lambda message: threads.append(threading.current_thread()))
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert threads == [threading.current_thread()]


def test_threads_run_jobs_and_the_calling_thread_runs_none() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(60)))
    threads = set()
    handler = Handler(lambda message: threads.add(threading.current_thread()))
    bench.worker(bench.source(handler), concurrency=3, shutdown_policy=StopAfter(60)).run()
    assert threads
    assert threading.current_thread() not in threads


def test_the_hooks_see_a_job_from_receipt_to_settlement() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    bench.worker(bench.source(Handler()), shutdown_policy=StopAfter(1)).run()
    assert [type(event) for event in bench.events] == [
        WorkerStarted,
        MessageReceived,
        JobStarted,
        JobSucceeded,
        MessageSettled,
        WorkerStopped,
    ]


def test_a_failed_job_becomes_visible_after_its_backoff() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    attempts = []

    def fail_twice(message: object) -> None:
        attempts.append(message)
        if len(attempts) < 3:
            raise ValueError("not yet")

    handler = Handler(fail_twice)
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(3)).run()
    assert handler.counts == [1, 2, 3]
    assert [event.delay for event in bench.of(JobRetried)] == [0, 0]
    assert len(bench.of(JobFailed)) == 2
    assert bench.counts() == (0, 0)


def test_jobs_run_side_by_side_up_to_the_concurrency() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefgh")
    together = threading.Barrier(4)

    def meet(message: object) -> None:
        together.wait(10)

    handler = Handler(meet)
    with bench.running(bench.source(handler), concurrency=4, shutdown_policy=StopAfter(8)) as running:
        assert running.join().succeeded == 8


def test_async_jobs_run_on_one_event_loop_side_by_side() -> None:
    import asyncio

    bench = Bench()
    bench.queue()
    bench.send(*"abc")
    arrived: list[asyncio.Event] = []
    loops = set()

    async def meet(message: object) -> None:
        loops.add(asyncio.get_running_loop())
        mine = asyncio.Event()
        arrived.append(mine)
        if len(arrived) == 3:
            for event in arrived:
                event.set()
        await mine.wait()

    with bench.running(
        bench.source(AsyncHandler(meet)), concurrency=3, shutdown_policy=StopAfter(3)
    ) as running:
        assert running.join().succeeded == 3
    assert len(loops) == 1
    assert bench.counts() == (0, 0)


def test_process_once_receives_once_and_settles_everything() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefghijkl")

    def fail_on_b(message: object) -> None:
        if message.body == "b":  # type: ignore[attr-defined]
            raise ValueError

    handler = Handler(fail_on_b)
    result = process_once(bench.source(handler), bench.transport, clock=bench.clock, hooks=bench.hooks)
    assert (result.succeeded_count(), result.failed_count()) == (9, 1)
    assert bench.transport.calls["receive"] == 1
    assert bench.counts() == (3, 0)


def test_process_once_of_an_empty_queue_makes_no_other_call_than_the_receive() -> None:
    bench = Bench()
    bench.queue()
    result = process_once(bench.source(visibility_timeout=30), bench.transport, clock=bench.clock)
    assert result.total_count() == 0
    assert dict(bench.transport.calls) == {"receive": 1}


def test_a_worker_runs_again_after_it_has_stopped() -> None:
    bench = Bench()
    bench.queue()
    handler = Handler()
    worker = bench.worker(bench.source(handler), shutdown_policy=IdleStop())
    bench.send("a")
    worker.run()
    bench.send("b")
    worker.run()
    assert handler.bodies == ["a", "b"]
