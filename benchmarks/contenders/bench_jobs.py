"""What every contender shares: its orders, the job, and the report of a producer.

The scripts beside this one run in environments of their own, so this module knows the standard
library alone. Orders come in environment variables, because some workers import the script anew
in child processes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

QUEUE = os.environ.get("BENCH_QUEUE", "bench")
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "1"))
COUNT = int(os.environ.get("BENCH_COUNT", "1"))
JOB_MS = int(os.environ.get("BENCH_JOB_MS", "0"))
SLOW_AT = int(os.environ.get("BENCH_SLOW_AT", "-1"))
SLOW_MS = int(os.environ.get("BENCH_SLOW_MS", "0"))
PACE_MS = int(os.environ.get("BENCH_PACE_MS", "0"))
LOG = os.environ.get("BENCH_LOG")
ENDPOINT = os.environ.get("AWS_ENDPOINT_URL_SQS", "")

_log: list[int] = []


def note(n: int, sent: float) -> None:
    """Write down that job ``n`` begins, and how long after it was sent, if a log is wanted."""
    if not LOG:
        return
    if not _log:
        _log.append(os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    # One write of one line: lines of several processes do not mix.
    os.write(_log[0], f"{n} {time.time() - sent:.6f}\n".encode())


def handle(n: int, ms: int, sent: float) -> None:
    """The job: nothing, or ``ms`` milliseconds of waiting."""
    note(n, sent)
    if ms:
        time.sleep(ms / 1000)


def jobs(count: int = COUNT) -> Iterator[dict[str, Any]]:
    """The arguments of ``count`` jobs, paced if that is asked."""
    chance = random.Random(0)
    for n in range(count):
        if PACE_MS:
            time.sleep(PACE_MS / 1000 * chance.uniform(0.5, 1.5))
        yield {"n": n, "ms": SLOW_MS if n == SLOW_AT else JOB_MS, "sent": time.time()}


def timed(send: Callable[[Iterator[dict[str, Any]]], None]) -> None:
    """Let ``send`` send all jobs, and print what that took.

    With ``BENCH_WARM`` set, one job is sent first and not counted: the connection is there then.
    """
    if os.environ.get("BENCH_WARM"):
        send(jobs(1))
    started, cpu = time.perf_counter(), time.process_time()
    send(jobs())
    result = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "count": COUNT}
    print(json.dumps(result), flush=True)


def main(**roles: Callable[[], object]) -> None:
    """Run the role that the command line names: ``work``, ``enqueue`` or ``enqueue_batch``."""
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role not in roles:
        sys.exit(f"{sys.argv[0]} has no role {role!r}, only {', '.join(roles)}")
    roles[role]()
