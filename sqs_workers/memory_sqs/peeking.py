"""Looking at the messages of a queue without receiving them: for tests; SQS itself has no such call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sqs_workers.memory_sqs.records import DELAYED, IN_FLIGHT

if TYPE_CHECKING:
    from sqs_workers.memory_sqs.account import Account
    from sqs_workers.memory_sqs.records import Message

__all__ = ["PeekedMessage", "next_change", "peek"]


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message as it lies in its queue.

    :ivar state: ``visible``, ``delayed`` or ``in flight``.
    :ivar due_in: seconds until it becomes visible by itself; 0.0 if it is.
    """

    message_id: str
    body: str = field(repr=False)
    message_attributes: dict[str, dict[str, Any]] = field(repr=False)
    state: Literal["visible", "delayed", "in flight"]
    due_in: float
    receive_count: int
    group_id: str | None
    deduplication_id: str | None


def peek(account: Account, queue_url: str) -> list[PeekedMessage]:
    """All messages of a queue, in the order in which they were put there."""
    with account.lock:
        queue = account.queue_by_url(queue_url)
        now = account.clock.monotonic()
        queue.tick(now)
        return [_peeked(message, now) for message in queue.messages()]


def next_change(account: Account, queue_url: str) -> float | None:
    """Seconds until a message of the queue may become visible by itself; ``None`` if nothing waits."""
    with account.lock:
        queue = account.queue_by_url(queue_url)
        now = account.clock.monotonic()
        queue.tick(now)
        due = queue.next_due()
        return None if due is None else max(due - now, 0.0)


def _peeked(message: Message, now: float) -> PeekedMessage:
    state: Literal["visible", "delayed", "in flight"] = "visible"
    if message.state == DELAYED:
        state = "delayed"
    elif message.state == IN_FLIGHT:
        state = "in flight"
    return PeekedMessage(
        message_id=message.id,
        body=message.body,
        message_attributes=dict(message.attributes or {}),
        state=state,
        due_in=0.0 if message.due is None else max(message.due - now, 0.0),
        receive_count=message.receive_count,
        group_id=message.group_id,
        deduplication_id=message.deduplication_id,
    )
