"""What happens to a message whose job has failed for good.

A policy is a small class with one method::

    @dataclass(frozen=True)
    class ReleaseLater:
        seconds: int = 600

        def settle(self, failure: Failure) -> Settlement:
            return ChangeVisibility(self.seconds)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.outcome import ChangeVisibility, Delete, MoveTo, Settlement
from sqs_workers.outcome import Leave as LeaveMessage

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["DeadLetter", "Discard", "Failure", "FailurePolicy", "Leave", "Release"]

ATTEMPTS_USED_UP = "attempts used up"
PERMANENT_ERROR = "permanent error"


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that has failed for good.

    :param message: the message that carries it.
    :param error: the last exception.
    :param reason: ``permanent error`` or ``attempts used up``.
    """

    message: Message
    error: BaseException | None
    reason: str

    @property
    def error_type(self) -> str:
        """Class name of the exception, or an empty text."""
        return "" if self.error is None else type(self.error).__name__


@runtime_checkable
class FailurePolicy(Protocol):
    """Decides about messages whose job has failed for good."""

    def settle(self, failure: Failure) -> Settlement:
        """What to do with the message. Called once a failure, in a worker's thread; must not block."""
        ...


@dataclass(frozen=True)
class Leave:
    """Leave the message to its visibility timeout; the queue's redrive policy moves it in the end.

    The default. On a FIFO queue the message blocks its group until then.
    """

    def settle(self, failure: Failure) -> Settlement:
        return LeaveMessage()


@dataclass(frozen=True)
class Release:
    """Make the message visible again at once."""

    def settle(self, failure: Failure) -> Settlement:
        return ChangeVisibility(0)


@dataclass(frozen=True)
class Discard:
    """Delete the message; said in the log at WARNING and as a hook event."""

    def settle(self, failure: Failure) -> Settlement:
        return Delete(discarded=True)


@dataclass(frozen=True)
class DeadLetter:
    """Copy the message to another queue, then delete it.

    The copy keeps body, attributes and message group and says in attributes why it is there. The message is
    deleted only when SQS took the copy.

    :param queue_name: name of the dead-letter queue as ``env.queue(...)`` takes it.
    :raises ConfigurationError: it is no text.
    """

    queue_name: str

    def __post_init__(self) -> None:
        name: Any = self.queue_name
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"DeadLetter takes the name of a queue, not {name!r}")

    def settle(self, failure: Failure) -> Settlement:
        return MoveTo(
            self.queue_name,
            failure.message,
            {
                "DeadLetterReason": failure.reason,
                "DeadLetterErrorType": failure.error_type,
                "DeadLetterReceiveCount": str(failure.message.receive_count),
                "DeadLetterMessageId": failure.message.message_id,
            },
        )
