"""One contender, one measurement."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.endpoint import EndpointProcess
from benchmarks.peers import SCRIPTS, Contender
from benchmarks.processes import Group

__all__ = ["Bench", "Drain", "FailedError"]

START_SECONDS = 40.0
ENQUEUE_SECONDS = 60.0
_names = count(1)


class FailedError(Exception):
    """A contender did not do what it was asked to."""


@dataclass(frozen=True)
class Drain:
    """A queue emptied. Times are the server's, from the first message handed out to the last deleted.

    :ivar rate: messages per second.
    :ivar cpu: CPU seconds of the worker and its children for 1,000 messages.
    :ivar rss: resident megabytes of all its processes, at most.
    :ivar requests: requests per message.
    :ivar processes: how many processes it had.
    :ivar server_share: CPU seconds of the endpoint per second: near 1 it is the bottleneck.
    :ivar rss_curve: (messages done, resident megabytes) on the way.
    """

    rate: float
    cpu: float
    rss: float
    requests: float
    processes: int
    server_share: float
    rss_curve: list[tuple[int, float]] = field(default_factory=list, repr=False)


class Bench:
    """Runs contenders against one endpoint.

    :param pythons: the interpreter of each contender.
    """

    def __init__(self, endpoint: EndpointProcess, pythons: dict[str, str]) -> None:
        self.endpoint = endpoint
        self._pythons = pythons
        self._scratch = tempfile.TemporaryDirectory(prefix="sqs-benchmarks-")
        self._folder = Path(self._scratch.name)

    def close(self) -> None:
        self._scratch.cleanup()

    def new_queue(self, visibility: int = 300) -> tuple[str, str]:
        """Name and URL of an empty queue that nobody has used."""
        name = f"bench-{next(_names)}"
        return name, self.endpoint.create_queue(name, visibility)

    def environment(self, contender: Contender, queue: str, **orders: object) -> dict[str, str]:
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ
        }
        return {
            **inherited,
            **contender.environment(),
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL_SQS": self.endpoint.url,
            "PYTHONDONTWRITEBYTECODE": "",
            "BENCH_QUEUE": queue,
            **{f"BENCH_{name.upper()}": str(value) for name, value in orders.items()},
        }

    def enqueue(
        self, contender: Contender, queue: str, role: str = "enqueue", **orders: object
    ) -> dict[str, Any]:
        """Let the contender send jobs; what it reports of that.

        :raises FailedError: if it does not.
        """
        try:
            done = subprocess.run(
                [self._pythons[contender.name], str(SCRIPTS / contender.script), role],
                env=self.environment(contender, queue, **orders),
                cwd=SCRIPTS,
                check=False,
                capture_output=True,
                text=True,
                timeout=ENQUEUE_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"{contender.name} {role}: not done after {ENQUEUE_SECONDS:g} s") from None
        if done.returncode:
            raise FailedError(f"{contender.name} {role}: {done.stderr[-2000:]}")
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return report

    def start_worker(self, contender: Contender, queue: str, wait: bool = True, **orders: object) -> Group:
        """Start a worker and wait until it polls and is at rest.

        :raises FailedError: if it ends or never polls.
        """
        before = self.endpoint.queue_stats(queue)["requests"].get("ReceiveMessage", 0)
        worker = Group(
            [self._pythons[contender.name], str(SCRIPTS / contender.script), "work"],
            self.environment(contender, queue, **orders),
            SCRIPTS,
            self._folder / f"{contender.name}-{next(_names)}.out",
        )
        deadline = time.monotonic() + START_SECONDS
        while self.endpoint.queue_stats(queue)["requests"].get("ReceiveMessage", 0) <= before:
            if not worker.alive or time.monotonic() > deadline:
                worker.stop()
                raise FailedError(f"{contender.name} does not poll: {worker.said()}")
            time.sleep(0.05)
        if wait:
            worker.settle(5.0)
        return worker

    def drain(
        self, contender: Contender, messages: int, *, concurrency: int, latency_ms: float, job_ms: int = 0
    ) -> Drain:
        """Fill a queue, let an idle worker at it, and measure until it is empty."""
        queue, url = self.new_queue()
        self.endpoint.latency(0)
        self.enqueue(contender, queue, count=1, job_ms=job_ms)
        self.endpoint.fill(url, self.endpoint.take_one(url), messages)
        self.endpoint.control("pause", {"queue": queue, "paused": True})
        worker = self.start_worker(contender, queue, concurrency=concurrency, job_ms=job_ms)
        try:
            return self._watch(contender, worker, queue, messages, latency_ms)
        finally:
            worker.stop()
            self.endpoint.latency(0)
            self.endpoint.client.delete_queue(QueueUrl=url)

    def _watch(
        self, contender: Contender, worker: Group, queue: str, messages: int, latency_ms: float
    ) -> Drain:
        self.endpoint.latency(latency_ms)
        self.endpoint.control("stats", method="DELETE")
        server_cpu, used = self.endpoint.queue_stats(queue)["cpu_seconds"], worker.usage()
        curve: list[tuple[int, float]] = []
        rss, processes = used.rss, used.processes
        deadline = time.monotonic() + 30 + messages / 10
        self.endpoint.control("pause", {"queue": queue, "paused": False})
        while True:
            time.sleep(0.05)
            stats = self.endpoint.queue_stats(queue)
            now = worker.usage()
            rss, processes = max(rss, now.rss), max(processes, now.processes)
            done = stats["deleted"]
            curve.append((done, now.rss / 1e6))
            if done >= messages:
                break
            if time.monotonic() > deadline or not worker.alive:
                raise FailedError(f"{contender.name} deleted {done} of {messages} messages: {worker.said()}")
        seconds = stats["last_delete"] - stats["first_receive"]
        return Drain(
            rate=messages / seconds,
            cpu=(now.cpu - used.cpu) / messages * 1000,
            rss=rss / 1e6,
            requests=sum(stats["requests"].values()) / messages,
            processes=processes,
            server_share=(stats["cpu_seconds"] - server_cpu) / seconds,
            rss_curve=curve,
        )

    def latencies(self, contender: Contender, jobs: int, *, latency_ms: float) -> list[float]:
        """Milliseconds from before the send to the start of the handler, of an idle worker."""
        queue, url = self.new_queue()
        log = self._folder / f"{queue}.log"
        worker = self.start_worker(contender, queue, concurrency=1, log=log)
        try:
            self.endpoint.latency(latency_ms)
            self.enqueue(contender, queue, count=jobs, pace_ms=60, warm=1)
            if not self.endpoint.wait_until_empty(url, 30):
                raise FailedError(f"{contender.name} left jobs undone: {worker.said()}")
        finally:
            worker.stop()
            self.endpoint.latency(0)
        # The first is the warm-up of the producer's connection.
        return [float(line.split()[1]) * 1000 for line in log.read_text().splitlines()][1:]

    def nine_of_ten(self, contender: Contender, slow_at: int, slow_ms: int) -> float:
        """Milliseconds until the nine quick ones of ten messages are deleted while one is slow."""
        queue, url = self.new_queue()
        self.endpoint.control("pause", {"queue": queue, "paused": True})
        self.enqueue(contender, queue, count=10, slow_at=slow_at, slow_ms=slow_ms)
        worker = self.start_worker(contender, queue, concurrency=10)
        try:
            self.endpoint.latency(10)
            self.endpoint.control("pause", {"queue": queue, "paused": False})
            deadline = time.monotonic() + 30 + slow_ms / 1000
            while (stats := self.endpoint.queue_stats(queue))["deleted"] < 9:
                if time.monotonic() > deadline:
                    raise FailedError(f"{contender.name} deleted {stats['deleted']} of 10: {worker.said()}")
                time.sleep(0.005)
            taken: float = (stats["last_delete"] - stats["first_receive"]) * 1000
            return taken
        finally:
            worker.stop()
            self.endpoint.latency(0)
            self.endpoint.client.delete_queue(QueueUrl=url)

    def runs_per_job(
        self, contender: Contender, jobs: int, *, visibility: int, job_ms: int, workers: int
    ) -> tuple[int, int]:
        """How many of ``jobs`` ran more than once, and how many are left, with workers of one slot.

        Workers start one and a half jobs apart: one that has nothing left to do then looks for work
        while another still holds some.
        """
        queue, url = self.new_queue(visibility)
        log = self._folder / f"{queue}.log"
        self.endpoint.control("pause", {"queue": queue, "paused": True})
        self.enqueue(contender, queue, count=jobs, job_ms=job_ms)
        orders: dict[str, Any] = {"concurrency": 1, "job_ms": job_ms, "log": log, "visibility": visibility}
        started = [self.start_worker(contender, queue, **orders)]
        try:
            self.endpoint.latency(10)
            self.endpoint.control("pause", {"queue": queue, "paused": False})
            for _ in range(workers - 1):
                time.sleep(job_ms * 1.5 / 1000)
                started.append(self.start_worker(contender, queue, wait=False, **orders))
            self.endpoint.wait_until_empty(url, jobs * job_ms / 1000 / workers * 1.5 + 5)
            left = self.endpoint.left(url)
        finally:
            for worker in started:
                worker.stop()
            self.endpoint.latency(0)
        runs = Counter(line.split()[0] for line in log.read_text().splitlines())
        return sum(1 for number in runs.values() if number > 1), left

    def import_ms(self, contender: Contender, module: str) -> float:
        """Milliseconds that ``import module`` takes in a fresh interpreter."""
        code = (
            f"import time; t = time.perf_counter(); import {module}; print((time.perf_counter() - t) * 1000)"
        )
        done = subprocess.run(
            [self._pythons[contender.name], "-c", code],
            env=self.environment(contender, "none"),
            cwd=self._folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout)
