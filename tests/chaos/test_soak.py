"""A week in small: many jobs through one worker, which must not grow."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sqs_workers import create_standard_queue
from sqs_workers.transport import Mode
from sqs_workers.width import LIMIT
from tests.chaos.bench import Bench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOBS = int(os.environ.get("SQS_WORKERS_SOAK_JOBS", "200000"))
ROUND = JOBS // 10
CONCURRENCY = 32


def usage(pid: int) -> tuple[int, int, int]:
    """Resident memory in KiB, threads, sockets."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    descriptors = Path(f"/proc/{pid}/fd").iterdir()
    sockets = sum(1 for link in descriptors if os.readlink(link).startswith("socket:"))
    return int(status["VmRSS"].split()[0]), int(status["Threads"]), sockets


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_worker_neither_grows_nor_leaves_anything_behind(
    endpoint: str, tmp_path: Path, transport: Mode
) -> None:
    bench = Bench(endpoint, tmp_path, "soak", transport, concurrency=CONCURRENCY)
    create_standard_queue(bench.env, "soak", visibility_timeout=60)
    samples: list[tuple[int, int, int]] = []

    with bench.closing():
        worker = bench.start_worker()
        for _ in range(10):
            with bench.queue.add_batch():
                for number in range(ROUND):
                    bench.queue.add_job("quiet", number=number)
            bench.wait_until(lambda: bench.counts() == (0, 0), 120, "the round is done")
            samples.append(usage(worker.pid))
        assert bench.stop(worker, signal.SIGTERM) == 0

    # The first rounds warm up: pools, caches, the allocator.
    memory = [sample[0] for sample in samples[2:]]
    assert max(memory) < memory[0] * 1.15 + 2048, samples
    # The pool grows to the concurrency as far as jobs overlap, receivers and ackers to what is useful; main
    # thread, control, heartbeat and the like come besides.
    assert max(sample[1] for sample in samples) <= CONCURRENCY + 2 * LIMIT + 8, samples
    # One connection for each request that was ever under way at once: as many receives and settlements as there
    # may be, heartbeats, the two ends of the control's pair. One that leaked would come on top each time.
    assert max(sample[2] for sample in samples) <= 2 * LIMIT + 8, samples
