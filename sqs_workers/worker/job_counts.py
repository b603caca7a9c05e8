"""How the jobs of one queue do, each by its name."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqs_workers.worker.result import JobStats

if TYPE_CHECKING:
    from sqs_workers.worker.held import Held

__all__ = ["OTHER_JOBS", "JobCounts"]

OTHER_JOBS = "(others)"
"""Name under which the jobs beyond the first hundreds are counted."""

_MOST_JOBS = 500
_KEPT_DURATIONS = 500
_TOLD_DURATIONS = 50


class _Entry:
    __slots__ = ("durations", "failed", "last_error", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.last_error = ""
        self.durations: deque[float] = deque(maxlen=_KEPT_DURATIONS)


class JobCounts:
    """Counts ends of runs. Cheap, because it is asked for every message; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def succeeded(self, ended: Iterable[tuple[Held, float]]) -> None:
        """Runs have succeeded, each after so many seconds."""
        with self._lock:
            for held, duration in ended:
                entry = self._entries.get(held.job_name) or self._new(held.job_name)
                entry.succeeded += 1
                entry.durations.append(duration)

    def failed(self, job_name: str, duration: float, error: BaseException | None) -> None:
        """A run has failed after so many seconds."""
        with self._lock:
            entry = self._entries.get(job_name) or self._new(job_name)
            entry.failed += 1
            entry.durations.append(duration)
            if error is not None:
                entry.last_error = type(error).__name__

    def stats(self, running: Mapping[str, int]) -> dict[str, JobStats]:
        """All jobs that have run or do, by name.

        :param running: messages with a handler, by the name of their job.
        """
        with self._lock:
            for name in running:
                if name not in self._entries:
                    self._new(name)
            found = {
                name: (entry.succeeded, entry.failed, list(entry.durations), entry.last_error)
                for name, entry in self._entries.items()
            }
        return {
            name: JobStats(running.get(name, 0), succeeded, failed, _some(sorted(durations)), last_error)
            for name, (succeeded, failed, durations, last_error) in sorted(found.items())
        }

    def _new(self, job_name: str) -> _Entry:
        # The name comes with the message: whoever makes names up must not fill the memory.
        name = job_name if len(self._entries) < _MOST_JOBS else OTHER_JOBS
        return self._entries.setdefault(name, _Entry())


def _some(durations: list[float]) -> tuple[float, ...]:
    """Of many the quantiles, as many as are told."""
    count = len(durations)
    if count > _TOLD_DURATIONS:
        durations = [durations[(2 * n + 1) * count // (2 * _TOLD_DURATIONS)] for n in range(_TOLD_DURATIONS)]
    return tuple(durations)
