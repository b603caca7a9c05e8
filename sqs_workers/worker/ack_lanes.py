"""Where settlements wait for others to share their request."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sqs_workers.limits import MAX_BATCH_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["Lane", "Lanes"]

MAX_LINGER = 0.12
"""Seconds that a settlement waits at most for others to share its request."""

# Settlements further apart than this are sent at once: waiting would fill no batch.
_WORTH_WAITING = 0.06


class Lane:
    """What waits to be settled in one way on one queue."""

    __slots__ = ("added_at", "due", "entries", "gap", "key", "pause", "settle", "source")

    def __init__(
        self,
        key: tuple[int, str],
        source: SourceState,
        settle: Callable[[SourceState, list[Held]], None],
    ) -> None:
        self.key = key
        self.source = source
        self.settle = settle
        self.entries: deque[Held] = deque()
        self.due = 0.0
        self.added_at = float("-inf")
        # Seconds between messages, and between additions of several, averaged: a second until more is known.
        self.gap = self.pause = 1.0

    def add(self, messages: Sequence[Held], now: float) -> int:
        """Let messages wait, and measure how they come; how many waited before."""
        before, count, passed = len(self.entries), len(messages), now - self.added_at
        self.gap += (min(passed / count, 1.0) - self.gap) * min(0.2 * count, 1.0)
        self.pause += (min(passed, 1.0) - self.pause) * 0.2
        self.added_at = now
        self.entries.extend(messages)
        return before

    @property
    def linger(self) -> float:
        """Seconds that the first of a batch waits for others."""
        if self.gap > _WORTH_WAITING:
            return 0.0
        # Messages that end together come in bunches: until the next one, whatever the average says.
        bunch = self.pause * 1.5 if self.pause <= _WORTH_WAITING else 0.0
        return min(MAX_LINGER, max(self.gap * (MAX_BATCH_ENTRIES + 2), bunch))


class Lanes:
    """The lanes of a worker. Used under the acker's lock."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, str], Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def get(self, source: SourceState, kind: str, settle: Callable[[SourceState, list[Held]], None]) -> Lane:
        """The lane of ``source`` for one kind of settlement."""
        key = (id(source), kind)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, source, settle)
        return lane

    @property
    def waiting(self) -> bool:
        """Whether anything waits."""
        return any(lane.entries for lane in self._lanes.values())

    @property
    def next_due(self) -> float | None:
        """When the next lane is due that has something."""
        return min((lane.due for lane in self._lanes.values() if lane.entries), default=None)

    def take(self, now: float) -> tuple[Lane, list[Held]] | None:
        """What one request can carry of a lane that is full or due."""
        for lane in self._lanes.values():
            entries = lane.entries
            if entries and (len(entries) >= MAX_BATCH_ENTRIES or lane.due <= now):
                # Behind the others: a lane that never empties must not starve them.
                self._lanes[lane.key] = self._lanes.pop(lane.key)
                return lane, [entries.popleft() for _ in range(min(len(entries), MAX_BATCH_ENTRIES))]
        return None
