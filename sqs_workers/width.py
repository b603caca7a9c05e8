"""How many requests of one kind are kept under way: as many as help.

While requests wait for the network, more of them at once carry more messages. Beyond what keeps one processor
busy, they only contend for the interpreter, and each message costs more. So the width is the time that a
request takes over the processor time that this process spends for each: of a request of 20 ms that costs 2 ms,
ten fit beside one another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import ceil

__all__ = ["Places", "Width"]

# Not fewer: a request that hangs must not be the only one.
FIRST = 3
LIMIT = 16
# Answers between two looks at the processor time.
_ANSWERS = 8
# The least time of late is what counts: that others had the processor is no reason for more requests. It is
# forgotten by so much at each answer.
_FORGET = 1.02
# Seconds without an answer until one more is tried beside those that are waited for.
_HANGS = 0.25


class Width:
    """Requests of one kind under way at once at most. Used under one lock.

    :param fixed: that many, always; ``None`` to measure.
    :param start: until it is measured.
    :param least: not fewer.
    :param limit: not more.
    :param spare: so many times what would do if requests came at even distances and waited for nothing else.
    :param wall: seconds, of the clock on the wall.
    :param cpu: seconds of processor time that this process has used.
    """

    def __init__(
        self,
        fixed: int | None = None,
        *,
        start: int = FIRST,
        least: int = FIRST,
        limit: int = LIMIT,
        spare: float = 2.0,
        wall: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.value = start if fixed is None else fixed
        self.limit = limit
        self._fixed = fixed is not None
        self._floor = least
        self._spare = spare
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
        return self.value <= self._floor

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
        wanted = ceil(self._spare * self._least / max(self._cost, 1e-6) + self._spare - 1)
        self.value = min(max(wanted, self._floor), self.limit)


class Places:
    """Lets as many requests be under way at once as a width says. For threads."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._taken = 0
        self._free = threading.Condition()

    @property
    def overlap(self) -> bool:
        """Whether more than one request at once is of use."""
        return self._width.value > 1

    def take(self) -> None:
        """Wait until one more request may begin."""
        with self._free:
            while self._taken >= self._width.value:
                if not self._free.wait(_HANGS):
                    self._width.wanted()
            self._taken += 1

    def give_back(self) -> None:
        """A request has ended that had taken a place."""
        with self._free:
            self._taken -= 1
            self._free.notify()

    def answered(self, seconds: float) -> None:
        """A request was answered, whether it had taken a place or not."""
        with self._free:
            self._width.answered(seconds)
