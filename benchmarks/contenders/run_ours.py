"""This library, by its public API."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import bench_jobs

from sqs_workers import SQSEnv

TRANSPORT: Any = os.environ["BENCH_TRANSPORT"]
env = SQSEnv(codec="json", transport=TRANSPORT)
queue = env.queue(bench_jobs.QUEUE)


@queue.processor("noop")
def noop(n: int, ms: int, sent: float) -> None:
    bench_jobs.handle(n, ms, sent)


def send(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        noop.delay(**job)


def send_batch(jobs: Iterator[dict[str, Any]]) -> None:
    with queue.add_batch():
        for job in jobs:
            noop.delay(**job)


if __name__ == "__main__":
    bench_jobs.main(
        work=lambda: queue.process_queue(concurrency=bench_jobs.CONCURRENCY),
        enqueue=lambda: bench_jobs.timed(send),
        enqueue_batch=lambda: bench_jobs.timed(send_batch),
    )
