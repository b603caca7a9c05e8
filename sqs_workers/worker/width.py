"""How many requests of one kind a worker keeps under way: as many as help.

While requests wait for the network, more of them at once bring more messages. Beyond what keeps one processor
busy, they only contend for the interpreter, and each message costs more. So the width is the time that a
request takes over the processor time that this process spends for each: of a request of 20 ms that costs 2 ms,
ten fit beside one another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil

__all__ = ["Width"]

# Not fewer: a request that hangs must not be the only one.
FIRST = 3
LIMIT = 16
# Answers between two looks at the processor time.
_ANSWERS = 8
# The least time of late is what counts: that others had the processor is no reason for more requests. It is
# forgotten by so much at each answer.
_FORGET = 1.02
# Requests come to wait for one another, and answers in bunches: so many times what would do if they did not.
_SPARE = 2
# Seconds without an answer until one more is tried beside those that are waited for.
_HANGS = 0.25


class Width:
    """Receives of one queue, or requests of the acker, under way at once at most. Used under one lock.

    :param fixed: that many, always; ``None`` to measure.
    :param wall: seconds, of the clock on the wall.
    :param cpu: seconds of processor time that this process has used.
    """

    def __init__(
        self,
        fixed: int | None = None,
        *,
        wall: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.value = FIRST if fixed is None else fixed
        self.limit = LIMIT
        self._fixed = fixed is not None
        self._wall = wall
        self._cpu = cpu
        self._used = cpu()
        self._answered_at = wall()
        self._answers = 0
        self._least: float | None = None
        self._cost: float | None = None

    @property
    def narrow(self) -> bool:
        """Whether few requests keep the processor busy: handing work over costs more then than it saves."""
        return self.value <= FIRST

    def share(self, connections: int | None) -> None:
        """Leave room for others on a client that keeps ``connections``: half of them, less one, is the limit."""
        if connections is not None:
            self.limit = min(max((connections - 1) // 2, FIRST), LIMIT)

    def wanted(self) -> None:
        """There is a request to make, and nobody left to make it: those under way may hang."""
        now = self._wall()
        if not self._fixed and now - self._answered_at > _HANGS:
            self._answered_at = now
            self.value = min(self.value + 1, self.limit)

    def answered(self, seconds: float) -> None:
        """A request was answered after so many seconds."""
        if self._fixed:
            return
        self._answered_at = self._wall()
        self._least = seconds if self._least is None else min(seconds, self._least * _FORGET)
        self._answers += 1
        if self._answers < _ANSWERS:
            return
        used = self._cpu()
        cost = (used - self._used) / self._answers
        self._used, self._answers = used, 0
        self._cost = cost if self._cost is None else (self._cost + cost) / 2
        wanted = ceil(_SPARE * self._least / max(self._cost, 1e-6)) + 1
        self.value = min(max(wanted, FIRST), self.limit)
