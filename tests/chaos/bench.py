"""Workers as processes, an endpoint with faults, and what they wrote down."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqs_workers import SQSEnv
from sqs_workers.transport import Mode
from tests.servers import EndpointSession

ROOT = Path(__file__).parents[2]


class Bench:
    """One queue on one endpoint, and the workers on it."""

    def __init__(
        self, endpoint: str, directory: Path, queue: str, transport: Mode = "boto3", **settings: object
    ) -> None:
        self.endpoint = endpoint
        self.queue_name = queue
        self.log = directory / "chaos.log"
        self.log.touch()
        self.output = directory / "workers.log"
        settings["transport"] = transport
        self.settings = {f"CHAOS_{name.upper()}": str(value) for name, value in settings.items()}
        self.env = SQSEnv(EndpointSession(endpoint), codec="json", transport=transport)
        self.queue = self.env.queue(queue)
        self.workers: list[subprocess.Popen[bytes]] = []

    # -- the endpoint

    def faults(self, *rules: str) -> None:
        self._post("/_local/faults", {"rules": list(rules), "seed": 7})

    def _post(self, path: str, values: dict[str, Any]) -> None:
        request = urllib.request.Request(
            self.endpoint + path,
            data=json.dumps(values).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def counts(self) -> tuple[int, int]:
        """Messages visible, and messages in flight."""
        for _ in range(50):
            with contextlib.suppress(Exception):
                url = self.queue.get_queue().url
                names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
                answer = self.env.sqs_client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
                return int(answer["Attributes"][names[0]]), int(answer["Attributes"][names[1]])
        raise AssertionError("the endpoint does not answer")

    # -- the workers

    def start_worker(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **self.settings,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "chaos",
            "AWS_SECRET_ACCESS_KEY": "chaos",
            "CHAOS_QUEUE": self.queue_name,
            "CHAOS_LOG": str(self.log),
            "PYTHONPATH": str(ROOT),
        }
        with self.output.open("ab") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.workers.append(worker)
        return worker

    def stop(self, worker: subprocess.Popen[bytes], number: signal.Signals, patience: float = 40) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        worker.send_signal(number)
        return worker.wait(patience)

    @contextlib.contextmanager
    def closing(self) -> Iterator[Bench]:
        try:
            yield self
        finally:
            for worker in self.workers:
                if worker.poll() is None:
                    # Stopped processes do not end by SIGTERM; their children end when they see them gone.
                    worker.send_signal(signal.SIGCONT)
                    worker.kill()
                    worker.wait(10)

    # -- what happened

    def noted(self, what: str) -> list[tuple[str, int]]:
        lines = self.log.read_text().splitlines()
        return [(group, int(number)) for kind, group, number, _ in map(str.split, lines) if kind == what]

    def runs(self) -> Counter[tuple[str, int]]:
        return Counter(self.noted("start"))

    def done(self) -> set[tuple[str, int]]:
        return set(self.noted("done"))

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        pause = threading.Event()
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                tail = self.output.read_text(errors="replace")[-3000:] if self.output.exists() else ""
                raise AssertionError(
                    f"not within {seconds} s: {what}; {len(self.done())} done, queue {self.counts()}\n{tail}"
                )
            pause.wait(0.1)


def children_of(pid: int) -> list[int]:
    """Process ids of the direct children."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(status.parent.name))
    return found
