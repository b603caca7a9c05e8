"""sqs-workers 0.7.3: one process works one batch after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bench_jobs

from sqs_workers import SQSEnv

env = SQSEnv(codec="json")
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
        work=queue.process_queue,
        enqueue=lambda: bench_jobs.timed(send),
        enqueue_batch=lambda: bench_jobs.timed(send_batch),
    )
