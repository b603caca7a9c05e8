"""Celery on SQS: a pool of threads, acknowledgement after the job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import bench_jobs
from celery import Celery

app = Celery("run_celery", broker=bench_jobs.ENDPOINT.replace("http://", "sqs://x:x@"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "is_secure": False,
        "region": "us-east-1",
        "wait_time_seconds": 10,
        "polling_interval": 0,
        "visibility_timeout": int(os.environ.get("BENCH_VISIBILITY", "300")),
    },
    task_default_queue=bench_jobs.QUEUE,
    task_acks_late=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=4,
)


@app.task(name="noop")
def noop(n: int, ms: int, sent: float) -> None:
    bench_jobs.handle(n, ms, sent)


def send(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        noop.delay(**job)


def work() -> None:
    pool = os.environ.get("BENCH_CELERY_POOL", "threads")
    app.worker_main(
        [
            "worker",
            f"--pool={pool}",
            f"--concurrency={bench_jobs.CONCURRENCY}",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=ERROR",
        ]
    )


if __name__ == "__main__":
    bench_jobs.main(work=work, enqueue=lambda: bench_jobs.timed(send))
