"""Where settlements wait for others to share their request."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["Lane"]


class Lane:
    """What waits to be settled in one way on one queue."""

    __slots__ = ("added_at", "due", "entries", "gap", "key", "settle", "source")

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
        # Seconds between additions, averaged: a second until more is known.
        self.gap = 1.0
