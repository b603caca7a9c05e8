"""Programs of the tests in processes of their own, killed as the kernel would kill them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sql.databases import Database

ROOT = Path(__file__).resolve().parent.parent.parent


class Processes:
    """Programs that run until they are stopped, and are replaced when they are killed.

    :param programs: Python source of each; gets the database's URL and the options of its engine as
        arguments.
    """

    def __init__(self, database: Database, endpoint: str, programs: Sequence[str], log: Path) -> None:
        url = database.url.render_as_string(hide_password=False)
        self._arguments = [url, repr(database.options)]
        self._environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_SQS": endpoint,
            "AWS_ACCESS_KEY_ID": "anything",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self._programs = programs
        self._log = log.open("ab")
        self._running = [self._start(index) for index in range(len(programs))]

    def __len__(self) -> int:
        return len(self._running)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", self._programs[index], *self._arguments],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )

    def kill(self, index: int) -> None:
        """SIGKILL one, and start it again."""
        self._running[index].kill()
        self._running[index].wait(10)
        self._running[index] = self._start(index)

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        self._log.close()


@contextmanager
def running(database: Database, endpoint: str, programs: Sequence[str], log: Path) -> Iterator[Processes]:
    processes = Processes(database, endpoint, programs, log)
    try:
        yield processes
    finally:
        processes.stop()


def kill_until_done(
    processes: Processes, left: Callable[[], int], kills: int, seconds: float, seed: int
) -> int:
    """Kill one at random for each share of the work that is done, so that every phase is met.

    :param left: how much work is left.
    :returns: how many were killed.
    """
    chance, pause = random.Random(seed), threading.Event()
    total, killed = max(left(), 1), 0
    for _ in range(int(seconds / 0.05)):
        remaining = left()
        if not remaining:
            break
        # More than one share may have been done since the last look.
        while killed < kills and remaining <= total * (1 - (killed + 1) / (kills + 2)):
            processes.kill(chance.randrange(len(processes)))
            killed += 1
        pause.wait(0.05)
    return killed


def messages_left(client: Any, *queue_names: str) -> int:
    """Messages of the queues, those in flight included."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = 0
    for queue_name in queue_names:
        url = client.get_queue_url(QueueName=queue_name)["QueueUrl"]
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        found += sum(int(answer[name]) for name in names)
    return found
