"""Many deadlines of few lengths: the oldest is always first, and one that is not needed is removed at once.

A heap would keep the deadlines of settled messages until they pass: with a visibility timeout of 12 hours,
for hours. Here all deadlines of one length stand in a ring in the order in which they were set.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Rings"]

KeyT = TypeVar("KeyT", bound=Hashable)


class Rings(Generic[KeyT]):
    """Deadlines by kind and length. Not safe for threads: the owner has a lock."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, float], OrderedDict[KeyT, float]] = {}

    def __len__(self) -> int:
        return sum(len(ring) for ring in self._rings.values())

    def add(self, kind: str, length: float, key: KeyT, due: float) -> None:
        """Set the deadline of ``key`` of this kind and length; it replaces an earlier one."""
        ring = self._rings.get((kind, length))
        if ring is None:
            ring = self._rings[kind, length] = OrderedDict()
        ring.pop(key, None)
        ring[key] = due

    def discard(self, kind: str, length: float, key: KeyT) -> None:
        """Remove a deadline, if it is there."""
        ring = self._rings.get((kind, length))
        if ring is not None:
            ring.pop(key, None)
            if not ring:
                del self._rings[kind, length]

    def next_due(self) -> float | None:
        """The earliest deadline."""
        return min((next(iter(ring.values())) for ring in self._rings.values()), default=None)

    def pop_due(self, now: float) -> list[tuple[str, KeyT]]:
        """Remove and return what is due at ``now``, each with its kind."""
        due: list[tuple[str, KeyT]] = []
        for (kind, length), ring in list(self._rings.items()):
            while ring and next(iter(ring.values())) <= now:
                due.append((kind, ring.popitem(last=False)[0]))
            if not ring:
                del self._rings[kind, length]
        return due
