"""PyQS: a process that reads and processes that work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import bench_jobs
from pyqs import task


@task(queue=bench_jobs.QUEUE, custom_function_path="run_pyqs.noop")
def noop(n: int, ms: int, sent: float) -> None:
    bench_jobs.handle(n, ms, sent)


def send(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        noop.delay(**job)


def work() -> None:
    run = "from pyqs.main import main; main()"
    os.execv(
        sys.executable,
        [sys.executable, "-c", run, bench_jobs.QUEUE, "--concurrency", str(bench_jobs.CONCURRENCY)],
    )


if __name__ == "__main__":
    bench_jobs.main(work=work, enqueue=lambda: bench_jobs.timed(send))
