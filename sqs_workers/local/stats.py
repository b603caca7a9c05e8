"""What an endpoint has done: counted where every call passes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["QueueStats", "Stats"]


class QueueStats:
    """The traffic of one queue. Moments are on the monotonic clock, in seconds."""

    __slots__ = ("deleted", "first_receive", "last_delete", "received", "requests", "sent")

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.sent = 0
        self.received = 0
        self.deleted = 0
        self.first_receive: float | None = None
        self.last_delete: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Stats:
    """Counts of an endpoint's calls. Written by the endpoint's event loop, read from anywhere.

    :ivar requests: calls by operation, refused ones and those hit by a fault included.
    :ivar errors: error answers by code.
    :ivar faults: faults by kind.
    :ivar queues: :class:`QueueStats` by queue name.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.queues: dict[str, QueueStats] = {}

    def queue(self, name: str) -> QueueStats:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = QueueStats()
        return found

    def request(self, operation: str, queue: str | None) -> None:
        """Count a call that has arrived."""
        self.requests[operation] += 1
        if queue is not None:
            self.queue(queue).requests[operation] += 1

    def executed(self, operation: str, queue: str | None, result: Mapping[str, Any]) -> None:
        """Count what a call has just done to the messages of ``queue``."""
        if queue is None or operation not in _COUNTED:
            return
        stats = self.queue(queue)
        if operation == "ReceiveMessage":
            messages = result.get("Messages")
            if messages:
                stats.received += len(messages)
                if stats.first_receive is None:
                    stats.first_receive = time.monotonic()
            return
        done = len(result.get("Successful", ())) if operation.endswith("Batch") else 1
        if operation.startswith("Send"):
            stats.sent += done
        elif done:
            stats.deleted += done
            stats.last_delete = time.monotonic()

    def clear(self) -> None:
        """Begin again at zero."""
        self.requests.clear()
        self.errors.clear()
        self.faults.clear()
        self.queues.clear()

    def as_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON, with the CPU seconds used by this process."""
        return {
            "requests": dict(self.requests),
            "errors": dict(self.errors),
            "faults": dict(self.faults),
            "queues": {name: stats.as_dict() for name, stats in list(self.queues.items())},
            "cpu_seconds": time.process_time(),
        }


_COUNTED = frozenset(
    {"ReceiveMessage", "SendMessage", "SendMessageBatch", "DeleteMessage", "DeleteMessageBatch"}
)
