"""Deduplication of what is sent to a FIFO queue.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html
"""

from __future__ import annotations

from collections import deque

__all__ = ["DEDUPLICATION_SECONDS", "Deduplication"]

DEDUPLICATION_SECONDS = 300
"""Seconds for which a deduplication id is remembered, counted from the message that was accepted."""

Key = tuple[str, str]


class Deduplication:
    """Ids seen in the last five minutes, each with the answer that its first message got.

    An id outlives its message: deleting it does not let a second one in.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[str, str]] = {}
        self._expiry: deque[tuple[float, Key]] = deque()

    def find(self, key: Key, now: float) -> tuple[str, str] | None:
        """Message id and sequence number of the message first sent with this id."""
        while self._expiry and self._expiry[0][0] <= now:
            del self._seen[self._expiry.popleft()[1]]
        return self._seen.get(key)

    def remember(self, key: Key, message_id: str, sequence: str, now: float) -> None:
        """``key`` must be one that :meth:`find` has just not found."""
        self._seen[key] = (message_id, sequence)
        self._expiry.append((now + DEDUPLICATION_SECONDS, key))
