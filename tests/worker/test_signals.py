"""Signals of processes that jobs fork, and of workers that jobs run."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSEnv
from sqs_workers.shutdown_policies import MaxTasksShutdown
from sqs_workers.sqs_manage import create_standard_queue
from tests.worker.kit import Bench, Handler, StopAfter
from tests.worker.process_targets import fork_and_terminate

# A process with threads is forked here: that is what the tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_process_that_a_job_forks_ends_by_its_signal_and_the_worker_goes_on(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a", "b", "c")
    ended_by: list[int] = []
    worker = bench.worker(
        bench.source(Handler(lambda message: ended_by.append(fork_and_terminate()))),
        concurrency=concurrency,
        handle_signals=True,
        shutdown_policy=StopAfter(3),
    )
    result = worker.run()
    assert ended_by == [signal.SIGTERM] * 3
    assert result.reason == "StopAfter()"


def test_the_same_beside_an_event_loop() -> None:
    env = SQSEnv(MemorySession(), codec="json")
    queue = env.queue("jobs")
    ended_by: list[int] = []

    @queue.processor("fork")
    def fork() -> None:
        ended_by.append(fork_and_terminate())

    create_standard_queue(env, "jobs")
    fork.delay()
    fork.delay()
    result = asyncio.run(queue.aprocess_queue(MaxTasksShutdown(2)))
    assert ended_by == [signal.SIGTERM] * 2
    assert result.reason == "MaxTasksShutdown(2)"


def test_a_signal_stops_the_worker_in_a_job_and_the_one_around_it() -> None:
    outer, inner = Bench(), Bench()
    outer.queue()
    inner.queue()
    outer.send("a", "b")
    inner.send("c")
    results: list[Any] = []

    def run_another(message: object) -> None:
        source = inner.source(Handler(lambda message: os.kill(os.getpid(), signal.SIGTERM)))
        results.append(inner.worker(source, handle_signals=True).run())

    worker = outer.worker(
        outer.source(Handler(run_another)), handle_signals=True, shutdown_policy=StopAfter(2), prefetch=0
    )
    results.append(worker.run())
    assert [result.reason for result in results] == ["SIGTERM", "SIGTERM"]
    assert outer.counts() == (1, 0)
    assert inner.counts() == (0, 0)
