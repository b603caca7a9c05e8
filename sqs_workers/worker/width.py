"""How many requests of one kind a worker keeps under way: as many as help.

While requests wait for the network, more of them at once bring more messages. Once this process uses up its
share of a processor, more of them only contend for the interpreter, and each message costs more. So the width
grows while processor time is left, and shrinks when it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Width"]

# Not fewer: a request that hangs must not be the only one.
FIRST = 4
LIMIT = 16
_WINDOW = 0.02
_GROW_BELOW = 0.75
_SHRINK_ABOVE = 0.9


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
        self._since = wall()
        self._used = cpu()

    def share(self, connections: int | None) -> None:
        """Leave room for others on a client that keeps ``connections``: half of them, less one, is the limit."""
        if connections is not None:
            self.limit = min(max((connections - 1) // 2, FIRST), LIMIT)

    def measure(self) -> None:
        """Compare processor time with time, if the last comparison is long enough ago."""
        if self._fixed:
            return
        now = self._wall()
        passed = now - self._since
        if passed < _WINDOW:
            return
        used = self._cpu()
        share = (used - self._used) / passed
        self._since, self._used = now, used
        if share < _GROW_BELOW:
            self.value = min(self.value + max(1, self.value // 2), self.limit)
        elif share > _SHRINK_ABOVE:
            self.value = max(self.value - 1, FIRST)
