"""taskiq with taskiq-aio-sqs: one process, an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any

import bench_jobs
from taskiq_aio_sqs import SQSBroker

broker = SQSBroker(
    bench_jobs.QUEUE,
    endpoint_url=bench_jobs.ENDPOINT,
    region_name="us-east-1",
    aws_access_key_id="x",
    aws_secret_access_key="x",
    max_number_of_messages=10,
    wait_time_seconds=10,
    enable_batching=sys.argv[1:] == ["enqueue_batch"],
    batch_timeout=0.1,
)


@broker.task(task_name="noop")
async def noop(n: int, ms: int, sent: float) -> None:
    bench_jobs.note(n, sent)
    if ms:
        await asyncio.sleep(ms / 1000)


def send(concurrent: bool) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(broker.startup())

    async def send_all(jobs: Iterator[dict[str, Any]]) -> None:
        if concurrent:
            await asyncio.gather(*[noop.kiq(**job) for job in jobs])
        else:
            for job in jobs:
                await noop.kiq(**job)

    bench_jobs.timed(lambda jobs: loop.run_until_complete(send_all(jobs)))
    loop.run_until_complete(broker.shutdown())
    loop.close()


def work() -> None:
    command = [sys.executable, "-m", "taskiq", "worker", "run_taskiq:broker", "--workers", "1"]
    options = ["--max-async-tasks", str(bench_jobs.CONCURRENCY), "--log-level", "ERROR"]
    os.execv(sys.executable, [*command, *options])


if __name__ == "__main__":
    bench_jobs.main(work=work, enqueue=lambda: send(False), enqueue_batch=lambda: send(True))
