"""A heap of messages by the moment at which their state changes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from sqs_workers.memory_sqs.records import Message

__all__ = ["Timers"]


class Timers:
    """When delayed and in-flight messages become visible.

    A message has at most one valid entry. Putting its moment off leaves the
    entry where it is, and it is filed again when its old moment comes: a
    heartbeat costs no heap operation, and the heap does not grow with it.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Message]] = []
        self._tiebreak = count()
        self._cancelled = 0

    def set(self, message: Message, due: float) -> None:
        message.due = due
        if message.alarm is None or due < message.alarm:
            message.alarm = due
            heapq.heappush(self._heap, (due, next(self._tiebreak), message))

    def cancel(self, message: Message) -> None:
        if message.due is None:
            return
        message.due = None
        self._cancelled += 1
        if self._cancelled > 512 and self._cancelled * 2 > len(self._heap):
            self._compact()

    def due(self, now: float) -> Iterator[Message]:
        """Take out the messages whose moment has come, the earliest first."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            alarm, _, message = heapq.heappop(heap)
            if message.alarm != alarm:
                continue
            message.alarm = None
            if message.due is None:
                continue
            if message.due > now:
                self.set(message, message.due)
                continue
            message.due = None
            yield message

    def next_due(self) -> float | None:
        """A moment not later than the next change, or ``None`` if nothing waits."""
        heap = self._heap
        while heap:
            alarm, _, message = heap[0]
            if message.alarm == alarm and message.due is not None:
                return alarm
            heapq.heappop(heap)
            if message.alarm == alarm:
                message.alarm = None
        return None

    def _compact(self) -> None:
        kept = []
        for entry in self._heap:
            alarm, _, message = entry
            if message.alarm != alarm:
                continue
            if message.due is None:
                message.alarm = None
            else:
                kept.append(entry)
        heapq.heapify(kept)
        self._heap[:] = kept
        self._cancelled = 0
