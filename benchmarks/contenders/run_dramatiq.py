"""dramatiq with dramatiq_sqs: one process, threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import bench_jobs
import dramatiq
from dramatiq.middleware import AgeLimit, Callbacks, Pipelines, Retries, TimeLimit
from dramatiq_sqs import SQSBroker

broker = SQSBroker(
    middleware=[AgeLimit(), TimeLimit(), Callbacks(), Pipelines(), Retries(min_backoff=1000, max_retries=96)],
    visibility_timeout=int(os.environ.get("BENCH_VISIBILITY", "300")),
    endpoint_url=bench_jobs.ENDPOINT,
)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=bench_jobs.QUEUE, actor_name="noop")
def noop(n: int, ms: int, sent: float) -> None:
    bench_jobs.handle(n, ms, sent)


def send(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        noop.send(**job)


def work() -> None:
    options = ["--processes", "1", "--threads", str(bench_jobs.CONCURRENCY), "--skip-logging"]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "run_dramatiq", *options])


if __name__ == "__main__":
    bench_jobs.main(work=work, enqueue=lambda: bench_jobs.timed(send))
