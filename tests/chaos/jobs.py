"""The worker of the chaos runs: notes each start and each success in a file that all processes share.

Started as ``python -m tests.chaos``; the endpoint and the settings come from the environment.
"""

from __future__ import annotations

import os
import random
import threading
from typing import Any

from sqs_workers import SQSEnv
from sqs_workers.backoff_policies import ConstantBackoff

TRANSPORT: Any = os.environ.get("CHAOS_TRANSPORT", "boto3")
env = SQSEnv(codec="json", backoff_policy=ConstantBackoff(1), transport=TRANSPORT)
queue = env.queue(os.environ.get("CHAOS_QUEUE", "chaos"))
PAUSE = threading.Event()
FAILURES = float(os.environ.get("CHAOS_FAILURES", "0"))


def note(what: str, *values: object) -> None:
    """Append one line; appends this short are atomic, so that lines of many processes stay whole and in order."""
    line = " ".join(map(str, (what, *values))) + "\n"
    descriptor = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@queue.processor("work")
def work(group: str, number: int) -> None:
    note("start", group, number, os.getpid())
    PAUSE.wait(random.random() * 0.02)
    if random.random() < FAILURES:
        note("fail", group, number, os.getpid())
        raise RuntimeError("bad luck")
    note("done", group, number, os.getpid())


@queue.processor("quiet")
def quiet(number: int) -> None:
    pass


def main() -> None:
    processes = int(os.environ.get("CHAOS_PROCESSES", "1"))
    options = {"processes": processes, "env_path": "tests.chaos.jobs:env"} if processes > 1 else {}
    queue.process_queue(
        concurrency=int(os.environ.get("CHAOS_CONCURRENCY", "8")),
        wait_second=2,
        shutdown_timeout=20,
        **options,
    )
