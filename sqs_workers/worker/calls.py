"""A few daemon threads for calls that may hang, started when they are needed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.clock import Clock

__all__ = ["CallThreads", "join_all", "start_thread"]

logger = logging.getLogger(__name__)


def join_all(threads: Iterable[threading.Thread], timeout: float) -> list[threading.Thread]:
    """Wait for threads, ``timeout`` real seconds for all together; those that still run."""
    deadline = time.monotonic() + timeout
    alive = []
    for thread in list(threads):
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            alive.append(thread)
    return alive


def start_thread(thread: threading.Thread, *, others: int) -> bool:
    """Start a thread; ``False`` if the system has none to give but ``others`` can do its work.

    :raises RuntimeError: there is no other.
    """
    try:
        thread.start()
    except RuntimeError:
        if not others:
            raise
        logger.warning("No further thread can be started; %d go on alone", others)
        return False
    return True


class CallThreads:
    """Runs what it is given, in order of arrival, in up to ``limit`` threads.

    The threads are daemons: a dead TCP connection in one of them must not keep the process from ending.
    """

    def __init__(self, name: str, limit: int, clock: Clock) -> None:
        self._name = name
        self._limit = limit
        self._clock = clock
        self._condition = threading.Condition()
        self._queue: deque[Callable[[], object]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, call: Callable[[], object]) -> None:
        """Run ``call`` soon; an exception of it is logged."""
        with self._condition:
            self._queue.append(call)
            if self._idle >= len(self._queue):
                self._condition.notify()
            elif len(self._threads) < self._limit:
                thread = threading.Thread(
                    target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True
                )
                if start_thread(thread, others=len(self._threads)):
                    self._threads.append(thread)

    def close(self) -> None:
        """Take nothing more; what is queued is still run."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the threads (real seconds); whether all have ended."""
        with self._condition:
            threads = list(self._threads)
        return not join_all(threads, timeout)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue:
                    if self._closed:
                        return
                    self._idle += 1
                    try:
                        self._clock.wait(self._condition, None)
                    finally:
                        self._idle -= 1
                call = self._queue.popleft()
            try:
                call()
            except BaseException:
                logger.exception("A call of %s failed", self._name)
