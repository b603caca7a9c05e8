"""What waits to be settled in one way on one queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["AckLane"]


class AckLane:
    """Messages of one queue whose settlements may share a request."""

    __slots__ = ("added_at", "due", "entries", "gap", "settle", "source")

    def __init__(self, source: SourceState, settle: Callable[[SourceState, list[Held]], None]) -> None:
        self.source = source
        self.settle = settle
        self.entries: deque[Held] = deque()
        self.due = 0.0
        self.added_at = float("-inf")
        # Seconds between additions, averaged: a second until more is known.
        self.gap = 1.0
