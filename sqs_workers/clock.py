"""Time as the library sees it: real, steppable, or fully manual.

Everything that waits does so on a :class:`threading.Condition` through
:meth:`Clock.wait`. A test that moves the clock therefore wakes every waiter
whose deadline has passed, and nothing needs to sleep.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Protocol, runtime_checkable

__all__ = ["SYSTEM_CLOCK", "Clock", "ManualClock", "SteppableClock", "SystemClock"]


@runtime_checkable
class Clock(Protocol):
    """Where a component reads the time and waits."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back. For durations."""
        ...

    def time(self) -> float:
        """Seconds since the Unix epoch. Only for what is stored or sent."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on ``condition``, which the caller holds, for ``timeout`` seconds at most.

        Returns ``False`` if the timeout passed, ``True`` if the condition was
        notified. As with any condition, check the predicate again afterwards.
        ``None`` waits until notified.
        """
        ...


class SystemClock:
    """The clock of the machine."""

    # Asked several times for each message: without a function of our own between.
    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        if timeout is not None and timeout <= 0:
            return False
        return condition.wait(timeout)


SYSTEM_CLOCK = SystemClock()


class _Waiters:
    """Conditions on which somebody waits for the clock, with the number of waiters of each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self._conditions: Counter[threading.Condition] = Counter()

    def add(self, condition: threading.Condition) -> None:
        with self.lock:
            self._conditions[condition] += 1
            self.changed.notify_all()

    def discard(self, condition: threading.Condition) -> None:
        with self.lock:
            self._conditions[condition] -= 1
            if not self._conditions[condition]:
                del self._conditions[condition]
            self.changed.notify_all()

    def count(self) -> int:
        """Number of waiting threads. The caller holds ``lock``."""
        return sum(self._conditions.values())

    def wake(self) -> None:
        # Taken outside of the lock: a waiter holds its condition while it
        # registers here, so the two locks must never be nested the other way.
        with self.lock:
            conditions = list(self._conditions)
        for condition in conditions:
            with condition:
                condition.notify_all()


class SteppableClock:
    """Real time that a test may push forward with :meth:`advance`.

    The default clock of a ``MemorySession``: programs run as they would
    against SQS, tests skip the waiting.
    """

    def __init__(self) -> None:
        self._offset = 0.0
        self._waiters = _Waiters()

    def monotonic(self) -> float:
        return time.monotonic() + self._offset

    def time(self) -> float:
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the time ``seconds`` forward and wake whoever waits for it."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back: advance({seconds!r})")
        self._offset += seconds
        self._waiters.wake()

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        if timeout is None:
            return condition.wait()
        if timeout <= 0:
            return False
        deadline = self.monotonic() + timeout
        self._waiters.add(condition)
        try:
            remaining = deadline - self.monotonic()
            notified = remaining > 0 and condition.wait(remaining)
        finally:
            self._waiters.discard(condition)
        return notified and self.monotonic() < deadline


class ManualClock:
    """Time that stands still until :meth:`advance` is called.

    :param start: the Unix time at which the clock begins, in seconds.
    :param auto_advance: a wait with a timeout moves the clock to its end at
        once, for a test in one thread that would otherwise wait for itself.
    """

    def __init__(self, start: float = 1_750_000_000.0, *, auto_advance: bool = False) -> None:
        self._start = start
        self._elapsed = 0.0
        self._auto_advance = auto_advance
        self._waiters = _Waiters()

    def monotonic(self) -> float:
        return self._elapsed

    def time(self) -> float:
        return self._start + self._elapsed

    def advance(self, seconds: float) -> None:
        """Move the time ``seconds`` forward and wake whoever waits for it."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back: advance({seconds!r})")
        self._elapsed += seconds
        self._waiters.wake()

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        if timeout is not None and timeout <= 0:
            return False
        if timeout is not None and self._auto_advance:
            self.advance(timeout)
            return False
        deadline = None if timeout is None else self._elapsed + timeout
        self._waiters.add(condition)
        try:
            if deadline is None or self._elapsed < deadline:
                condition.wait()
        finally:
            self._waiters.discard(condition)
        return deadline is None or self._elapsed < deadline

    def wait_for_waiters(self, count: int, timeout: float = 10.0) -> None:
        """Block (in real time) until at least ``count`` threads wait on this clock.

        :raises TimeoutError: if they do not within ``timeout`` real seconds.
        """
        with self._waiters.lock:
            if not self._waiters.changed.wait_for(lambda: self._waiters.count() >= count, timeout):
                raise TimeoutError(f"{self._waiters.count()} threads wait on the clock, not {count}")
