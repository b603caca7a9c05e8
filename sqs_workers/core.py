"""What became of a batch of messages."""

from __future__ import annotations

from typing import Any

__all__ = ["BatchProcessingResult"]


class BatchProcessingResult:
    """The messages that succeeded and failed.

    :param queue_name: name of the queue as ``env.queue(...)`` takes it.
    """

    def __init__(
        self, queue_name: str, succeeded: list[Any] | None = None, failed: list[Any] | None = None
    ) -> None:
        self.queue_name = queue_name
        self.succeeded: list[Any] = succeeded or []
        self.failed: list[Any] = failed or []

    def update_with_message(self, message: Any, success: bool) -> None:
        """Add a message."""
        (self.succeeded if success else self.failed).append(message)

    def succeeded_count(self) -> int:
        """Messages that succeeded."""
        return len(self.succeeded)

    def failed_count(self) -> int:
        """Messages that failed."""
        return len(self.failed)

    def total_count(self) -> int:
        """All messages."""
        return self.succeeded_count() + self.failed_count()

    def __repr__(self) -> str:
        return f"<BatchProcessingResult/{self.queue_name}/{self.succeeded_count()}/{self.failed_count()}>"
