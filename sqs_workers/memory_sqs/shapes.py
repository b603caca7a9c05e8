"""What ``session.resource("sqs")`` and its queues and messages look like, for annotations and ``isinstance``.

They are boto3's own resources over a memory client, and boto3 has no classes for them before it runs.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["MemoryMessage", "MemoryQueue", "ServiceResource"]


@runtime_checkable
class ServiceResource(Protocol):
    """``session.resource("sqs")``: boto3's ``SQS.ServiceResource``."""

    def Queue(self, url: str) -> Any:  # noqa: N802
        """The queue at this URL."""
        ...

    def create_queue(self, **kwargs: Any) -> Any:
        """Create a queue: ``QueueName=``, ``Attributes=``."""
        ...

    def get_queue_by_name(self, **kwargs: Any) -> Any:
        """The queue of this name: ``QueueName=``."""
        ...


@runtime_checkable
class MemoryQueue(Protocol):
    """What ``queue.get_queue()`` answers with: boto3's ``SQS.Queue``."""

    def send_message(self, **kwargs: Any) -> Any: ...
    def send_messages(self, **kwargs: Any) -> Any: ...
    def receive_messages(self, **kwargs: Any) -> Any: ...
    def delete_messages(self, **kwargs: Any) -> Any: ...
    def change_message_visibility_batch(self, **kwargs: Any) -> Any: ...
    def delete(self) -> Any: ...


@runtime_checkable
class MemoryMessage(Protocol):
    """A message received: boto3's ``SQS.Message``, or the library's own."""

    message_id: str
    receipt_handle: str
    body: str
    attributes: dict[str, str]
    message_attributes: dict[str, dict[str, Any]]
