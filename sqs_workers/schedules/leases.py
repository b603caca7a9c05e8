"""Who may send the job of a slot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqs_workers.periodic import SlotClaim

__all__ = ["MemoryLease", "SlotLease"]


class SlotLease(Protocol):
    """Remembers the last slot of each schedule, so that beats send the job of a slot once together."""

    def last_slot(self, schedule: str, now: int) -> int:
        """The last slot of a schedule; ``now`` from the first question on, if there was none."""
        ...

    def claim(self, schedule: str, previous: int, slot: int) -> AbstractContextManager[SlotClaim]:
        """Move a schedule from ``previous`` on to ``slot``, if it is still there.

        The end of the block makes it last; an exception undoes it.
        """
        ...

    def give_back(self, schedule: str, slot: int, previous: int) -> None:
        """Undo a claim of which nothing came, if nobody has moved on since."""
        ...


class MemoryLease:
    """For one beat alone: forgotten when its process ends, with what it missed meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}

    def last_slot(self, schedule: str, now: int) -> int:
        """The last slot of a schedule; ``now`` from the first question on, if there was none."""
        with self._lock:
            return self._last.setdefault(schedule, now)

    @contextmanager
    def claim(self, schedule: str, previous: int, slot: int) -> Iterator[SlotClaim]:
        """Move a schedule from ``previous`` on to ``slot``, if it is still there."""
        with self._lock:
            won = self._last.get(schedule) == previous
            if won:
                self._last[schedule] = slot
        try:
            yield SlotClaim(won)
        except BaseException:
            if won:
                self.give_back(schedule, slot, previous)
            raise

    def give_back(self, schedule: str, slot: int, previous: int) -> None:
        """Undo a claim of which nothing came, if nobody has moved on since."""
        with self._lock:
            if self._last.get(schedule) == slot:
                self._last[schedule] = previous
