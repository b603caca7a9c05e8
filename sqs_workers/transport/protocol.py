"""The SQS operations that senders and workers use, whatever carries them.

Errors are raised as botocore raises them (``ClientError`` and its kin);
:func:`sqs_workers.transport.errors.classify` says what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from sqs_workers.messages import Message, OutgoingMessage

__all__ = [
    "EntryError",
    "ReceiveOptions",
    "SendResult",
    "Transport",
    "WakesReceives",
    "connections_of",
    "wake_receives",
]


@dataclass(frozen=True, slots=True)
class EntryError:
    """An entry of a batch call that SQS did not carry out.

    :param code: SQS's error code.
    :param sender_fault: whether SQS says that repeating the same entry cannot help.
    """

    code: str
    message: str = ""
    sender_fault: bool = False


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of one message of a batch: an id, or an error."""

    message_id: str | None
    error: EntryError | None = None


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """What a receive asks for.

    :param max_messages: 1 to 10.
    :param wait_seconds: 0 to 20, seconds of long polling.
    :param visibility_timeout: seconds (0 to 43,200), or ``None`` for the queue's own.
    :param system_attributes: names of system attributes, or ``("All",)``.
    :param message_attributes: names of message attributes, or ``("All",)``.
    """

    max_messages: int = 10
    wait_seconds: int = 0
    visibility_timeout: int | None = None
    system_attributes: Sequence[str] = ("ApproximateReceiveCount",)
    message_attributes: Sequence[str] = ("All",)

    def to_request(self, queue_url: str) -> dict[str, Any]:
        """Parameters of ``ReceiveMessage``."""
        request: dict[str, Any] = {
            "QueueUrl": queue_url,
            "MaxNumberOfMessages": self.max_messages,
            "WaitTimeSeconds": self.wait_seconds,
        }
        if self.system_attributes:
            request["AttributeNames"] = list(self.system_attributes)
        if self.message_attributes:
            request["MessageAttributeNames"] = list(self.message_attributes)
        if self.visibility_timeout is not None:
            request["VisibilityTimeout"] = self.visibility_timeout
        return request


class Transport(Protocol):
    """The operations of SQS that senders and workers use. Safe to share between threads."""

    def get_queue_url(self, sqs_queue_name: str) -> str:
        """URL of a queue by its full name on SQS."""
        ...

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        """Attributes of a queue by name."""
        ...

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        """Send one message; returns the id that SQS gave it."""
        ...

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        """Send 1 to 10 messages; one result each, in their order."""
        ...

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        """Receive up to 10 messages, in SQS's order."""
        ...

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        """Acknowledge one message."""
        ...

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        """Acknowledge 1 to 10 messages; ``None`` or an error each, in their order."""
        ...

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        """Make one message visible after ``seconds`` (0 to 43,200)."""
        ...

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        """Change 1 to 10 visibilities, ``(receipt handle, seconds)`` each; ``None`` or an error each."""
        ...


@runtime_checkable
class WakesReceives(Protocol):
    """A transport that can answer a long poll before its time. SQS cannot; queues in memory can."""

    def wake_receives(self, queue_url: str) -> None:
        """Answer the receives of the queue that are under way now, losing nothing, if that is possible."""
        ...


def wake_receives(transport: object, queue_url: str) -> None:
    """Have the transport answer its receives of the queue, if it can: see :class:`WakesReceives`."""
    # By attribute: isinstance() of a protocol does not see, since Python 3.12, what a wrapper passes on by
    # __getattr__.
    wake = getattr(transport, "wake_receives", None)
    if callable(wake):
        wake(queue_url)


def connections_of(transport: object) -> int | None:
    """Requests that the transport can have under way without opening connections for each; ``None``: any number.

    A transport says it by an attribute ``connections``.
    """
    found = getattr(transport, "connections", None)
    return found if isinstance(found, int) else None
