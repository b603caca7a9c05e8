"""How a job ended, and what is done with its message. Both are closed: match them exhaustively.

A handler's end is an :data:`Outcome`. Policies turn it into a :data:`Settlement`, which the worker carries
out exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = [
    "ChangeVisibility",
    "Delete",
    "Failed",
    "Leave",
    "MoveTo",
    "Outcome",
    "Postponed",
    "Rejected",
    "RetryRequested",
    "Settlement",
    "Succeeded",
    "Unrun",
    "Unsettled",
]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """The handler raised ``RetryJob``: no error, run it again later.

    :param delay: seconds until then, or ``None`` for the queue's backoff policy.
    """

    delay: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised something that a retry may cure.

    :param delay: seconds until the next attempt, or ``None`` for the queue's backoff policy.
    """

    error: BaseException
    delay: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """No retry can help: the failure policy applies at once."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Unrun:
    """The handler never started (a stop, or an earlier failure in the group): visible again at once.

    :param reason: for logs and hooks, for instance ``stopping``.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The handler could not be ended in time: the message is left to its visibility timeout."""

    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Postponed:
    """The job is not due yet, and a new message carries it on: this one is acknowledged.

    :param until: when it is due, in seconds since the Unix epoch.
    """

    until: int


Outcome: TypeAlias = Succeeded | RetryRequested | Failed | Rejected | Unrun | Unsettled | Postponed


@dataclass(frozen=True, slots=True)
class Delete:
    """Acknowledge.

    :param discarded: the job did not succeed and is given up; for hooks and logs.
    """

    discarded: bool = False


@dataclass(frozen=True, slots=True)
class ChangeVisibility:
    """Visible again after ``seconds`` (0 to 43,200)."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Neither acknowledged nor released: SQS shows the message again when its visibility timeout ends."""


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Copy to another queue, and acknowledge only when the copy was taken.

    :param queue_name: name of the target, as ``env.queue(...)`` takes it.
    :param extra_attributes: message attributes added to the copy: name -> text.
    """

    queue_name: str
    message: Message
    extra_attributes: Mapping[str, str] = field(default_factory=dict)


Settlement: TypeAlias = Delete | ChangeVisibility | Leave | MoveTo
