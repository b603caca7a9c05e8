"""How the jobs of this process do, each by its name: kept from the events of its workers."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.hooks import (
    HookRegistry,
    JobFailed,
    JobPostponed,
    JobRetried,
    JobStarted,
    JobSucceeded,
    MessageEvent,
    MessageReleased,
)

__all__ = ["JobBook", "JobState"]

_KEPT_DURATIONS = 500
_TOLD_DURATIONS = 50
_RATE_SECONDS = 10.0
_MOST_JOBS = 500
_OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class JobState:
    """One job since its worker started, and now.

    :ivar queue_name: name of its queue.
    :ivar job_name: its name; empty where messages have none.
    :ivar running: messages with its handler.
    :ivar done: runs that succeeded.
    :ivar failed: runs that failed; each attempt counts.
    :ivar per_second: runs a second that ended, over the last ten seconds.
    :ivar durations: seconds that some of the last runs took, in rising order.
    :ivar last_error: class name of the last error; empty without one.
    """

    queue_name: str
    job_name: str
    running: int = 0
    done: int = 0
    failed: int = 0
    per_second: float = 0.0
    durations: tuple[float, ...] = ()
    last_error: str = ""


class _Entry:
    __slots__ = ("done", "durations", "failed", "last_error", "running", "seen")

    def __init__(self, now: float) -> None:
        self.running: set[str] = set()
        self.done = 0
        self.failed = 0
        self.last_error = ""
        self.durations: deque[float] = deque(maxlen=_KEPT_DURATIONS)
        self.seen: deque[tuple[float, int]] = deque([(now, 0)])


class JobBook:
    """Counts what the workers with these hooks do."""

    def __init__(self, hooks: HookRegistry, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        hooks.add(JobStarted, self._started)
        hooks.add(JobSucceeded, self._succeeded)
        hooks.add(JobFailed, self._failed)
        for other in (JobRetried, JobPostponed, MessageReleased):
            hooks.add(other, self._ended)

    def states(self) -> list[JobState]:
        """All jobs that have run, by queue and name. For one caller, about once a second."""
        now = self._clock.monotonic()
        with self._lock:
            return [self._state(key, entry, now) for key, entry in sorted(self._entries.items())]

    def _state(self, key: tuple[str, str], entry: _Entry, now: float) -> JobState:
        seen, total = entry.seen, entry.done + entry.failed
        seen.append((now, total))
        while len(seen) > 2 and seen[1][0] <= now - _RATE_SECONDS:
            seen.popleft()
        since, before = seen[0]
        return JobState(
            *key,
            running=len(entry.running),
            done=entry.done,
            failed=entry.failed,
            per_second=(total - before) / (now - since) if now > since else 0.0,
            durations=_some(sorted(entry.durations)),
            last_error=entry.last_error,
        )

    def _entry(self, event: MessageEvent) -> _Entry:
        entry = self._known(event)
        if entry is None:
            # The name comes with the message: whoever makes them up must not fill the memory.
            name = event.job_name if len(self._entries) < _MOST_JOBS else _OTHERS
            entry = self._entries.setdefault((event.queue_name, name), _Entry(self._clock.monotonic()))
        return entry

    def _known(self, event: MessageEvent) -> _Entry | None:
        found = self._entries.get((event.queue_name, event.job_name))
        return found or self._entries.get((event.queue_name, _OTHERS))

    def _started(self, event: JobStarted) -> None:
        with self._lock:
            self._entry(event).running.add(event.message_id)

    def _succeeded(self, event: JobSucceeded) -> None:
        with self._lock:
            entry = self._entry(event)
            entry.running.discard(event.message_id)
            entry.done += 1
            entry.durations.append(event.duration)

    def _failed(self, event: JobFailed) -> None:
        with self._lock:
            entry = self._entry(event)
            entry.running.discard(event.message_id)
            entry.failed += 1
            entry.durations.append(event.duration)
            entry.last_error = type(event.error).__name__

    def _ended(self, event: MessageEvent) -> None:
        with self._lock:
            entry = self._known(event)
            if entry is not None:
                entry.running.discard(event.message_id)


def _some(durations: list[float]) -> tuple[float, ...]:
    """Of many the quantiles, as many as are told."""
    count = len(durations)
    if count > _TOLD_DURATIONS:
        durations = [durations[(2 * n + 1) * count // (2 * _TOLD_DURATIONS)] for n in range(_TOLD_DURATIONS)]
    return tuple(round(seconds, 6) for seconds in durations)
