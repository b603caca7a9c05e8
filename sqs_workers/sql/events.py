"""Events of inbox and relay, for hooks. Payloads are in none of them."""

from __future__ import annotations

from dataclasses import dataclass

from sqs_workers.hooks import Event

__all__ = [
    "EventConflict",
    "EventProcessed",
    "EventSkipped",
    "OutboxRefused",
    "OutboxSent",
    "RelayPaused",
    "TransactionRetried",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEvent(Event):
    """Something that happened to one event in the inbox.

    :ivar consumer: the consumer of the inbox.
    :ivar event_id: the id, as it is stored.
    """

    consumer: str
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventProcessed(InboxEvent):
    """The event and its effect are committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSkipped(InboxEvent):
    """The event was processed before, with the same payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventConflict(InboxEvent):
    """The event was processed before, with another payload: refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRetried(InboxEvent):
    """Another transaction stood in the way: the whole transaction is run again.

    :ivar attempt: number of the attempt that failed, from 1.
    :ivar code: SQLSTATE, or error number as text.
    """

    attempt: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSent(Event):
    """SQS took the message, and its row is marked as sent.

    :ivar outbox_id: the stable id, attribute ``OutboxId`` of the message.
    :ivar message_id: id that SQS gave the message.
    :ivar waited: seconds between the row and the sending.
    """

    outbox_id: str
    message_id: str
    job_name: str = ""
    waited: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRefused(Event):
    """The message cannot be sent and is set aside: somebody has to look at it.

    :ivar reason: why, as it stands in the row.
    """

    outbox_id: str
    reason: str
    job_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPaused(Event):
    """The relay waits before it goes on, because SQS or the database failed.

    :ivar queue_name: the queue that was sent to; empty if the database failed.
    :ivar kind: kind of the failure, for instance ``throttled`` or ``unavailable``.
    :ivar delay: seconds until the next try.
    """

    kind: str
    delay: float
