"""``stats()`` by job: what runs, what has ended and how long it took."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sqs_workers.hooks import JobFailed, JobStarted, JobSucceeded
from sqs_workers.messages import Message
from sqs_workers.worker import JobStats
from sqs_workers.worker.job_counts import OTHER_JOBS, JobCounts
from tests.worker.kit import AsyncHandler, Bench, Handler


def ended(job: str, took: float = 0.1) -> list[Any]:
    return [(SimpleNamespace(job_name=job), took)]


class ByBody(Handler):
    """The job is the first letter of the body; "f..." fails."""

    def job_name(self, message: Message) -> str:
        return message.body[0]


class AsyncByBody(AsyncHandler):
    def job_name(self, message: Message) -> str:
        return message.body[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_jobs_of_a_queue_are_told_apart(is_async: bool) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="600")
    bench.send("a1", "a2", "f1", "w1")
    gate = threading.Event()

    def work(message: Message) -> None:
        if message.body.startswith("f"):
            raise KeyError("secret")
        if message.body.startswith("w"):
            assert gate.wait(20)

    async def awork(message: Message) -> None:
        if message.body.startswith("w"):
            import asyncio

            await asyncio.to_thread(work, message)
        else:
            work(message)

    policies: dict[str, Any] = {"backoff": lambda count: 600.0, "timeout": 30}
    handler = AsyncByBody(awork, **policies) if is_async else ByBody(work, **policies)
    with bench.running(bench.source(handler), concurrency=4) as running:
        bench.wait_for(JobStarted, 4)
        bench.wait_for(JobSucceeded, 2)
        bench.wait_for(JobFailed, 1)
        jobs = running.worker.stats().sources["jobs"].jobs
        assert {name: (job.running, job.succeeded, job.failed) for name, job in jobs.items()} == {
            "a": (0, 2, 0),
            "f": (0, 0, 1),
            "w": (1, 0, 0),
        }
        assert len(jobs["a"].durations) == 2
        assert jobs["f"].last_error == "KeyError"
        assert "secret" not in repr(jobs)
        gate.set()
        bench.wait_for(JobSucceeded, 3)
        running.worker.stop()
        result = running.join()
    assert result.counts["jobs"].jobs["w"].succeeded == 1


def test_of_many_durations_quantiles_are_told() -> None:
    counts = JobCounts()
    for number in range(1000):
        counts.succeeded(ended("j", number / 1000))
    told = counts.stats({})["j"].durations
    assert len(told) == 50
    assert list(told) == sorted(told)
    # Of the last 500 alone.
    assert 0.5 <= told[0] < 0.51
    assert 0.74 < told[25] < 0.77


def test_percentiles_of_few() -> None:
    assert JobStats().percentile(0.5) is None
    assert JobStats(durations=(1.0,)).percentile(0.95) == 1.0
    assert JobStats(durations=tuple(map(float, range(100)))).percentile(0.95) == 95.0


def test_names_that_messages_make_up_do_not_fill_the_memory() -> None:
    counts = JobCounts()
    for number in range(2000):
        counts.succeeded(ended(f"made-up-{number}"))
        counts.failed(f"other-{number}", 0.1, None)
    jobs = counts.stats({f"running-{number}": 1 for number in range(2000)})
    assert len(jobs) == 501
    assert jobs[OTHER_JOBS].succeeded == 1750


def test_threads_lose_no_count() -> None:
    counts = JobCounts()

    def work() -> None:
        for _ in range(500):
            counts.succeeded(ended("j"))
            counts.failed("j", 0.1, ValueError())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert counts.stats({})["j"].succeeded == 2000
    assert counts.stats({})["j"].failed == 2000
