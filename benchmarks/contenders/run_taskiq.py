"""taskiq with taskiq-aio-sqs: one process, an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
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


async def send_one_by_one(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        await noop.kiq(**job)


async def send_batch(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        await noop.kiq(**job)
    # The broker sends in the background and has no call that waits for it.
    while any(not buffer.empty() for buffer in broker._batch_buffers.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def send(how: Callable[[Iterator[dict[str, Any]]], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(broker.startup())
    bench_jobs.timed(lambda jobs: loop.run_until_complete(how(jobs)))
    # A shutdown in the middle of a batch may hang: let the last one go out first.
    loop.run_until_complete(asyncio.sleep(0.5))
    loop.run_until_complete(broker.shutdown())
    loop.close()


def work() -> None:
    command = [sys.executable, "-m", "taskiq", "worker", "run_taskiq:broker", "--workers", "1"]
    options = ["--max-async-tasks", str(bench_jobs.CONCURRENCY), "--log-level", "ERROR"]
    os.execv(sys.executable, [*command, *options])


if __name__ == "__main__":
    bench_jobs.main(work=work, enqueue=lambda: send(send_one_by_one), enqueue_batch=lambda: send(send_batch))
