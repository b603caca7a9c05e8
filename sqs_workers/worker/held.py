"""A message in a worker's hands, from receipt until it is settled."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT
from sqs_workers.outcome import ChangeVisibility

if TYPE_CHECKING:
    from asyncio import Task

    from sqs_workers.hooks import HookRegistry
    from sqs_workers.messages import Message
    from sqs_workers.outcome import Settlement
    from sqs_workers.transport import Transport
    from sqs_workers.worker.contract import JobPolicies
    from sqs_workers.worker.heartbeat import Heartbeat
    from sqs_workers.worker.source import SourceState

__all__ = ["Held", "Phase", "ReceiptControl", "event_fields", "log_fields"]


class Phase(IntEnum):
    """Where a held message is. It only ever moves down this list."""

    BUFFERED = 0
    RUNNING = 1
    SETTLING = 2
    DONE = 3


class Held:
    """The worker's hold on one message: a :class:`~sqs_workers.messages.Lease`.

    ``phase`` is changed under the engine's lock, by whoever moves the message on; a message is settled
    once because it leaves ``RUNNING`` once.
    """

    __slots__ = (
        "action",
        "attempts",
        "beat_interval",
        "content",
        "copied",
        "deleted_by_handler",
        "expires_at",
        "final_visibility",
        "job_name",
        "lost",
        "message",
        "phase",
        "policies",
        "received_at",
        "released_because",
        "released_by_handler",
        "source",
        "started_at",
        "task",
        "timed_out",
        "timeout",
        "told_of_limit",
        "zombie",
    )

    def __init__(self, message: Message, source: SourceState, visibility: float) -> None:
        self.message = message
        self.source = source
        self.phase = Phase.BUFFERED
        self.received_at = message.received_at
        self.expires_at = message.received_at + visibility
        self.lost = False
        self.policies: JobPolicies | None = None
        self.content: Message | None = None
        self.job_name = ""
        self.started_at = 0.0
        self.timeout: float | None = None
        self.timed_out = False
        self.zombie = False
        self.task: Task[None] | None = None
        self.action: Settlement | None = None
        self.attempts = 0
        self.copied = False
        self.beat_interval: float | None = None
        self.final_visibility: int | None = None
        self.deleted_by_handler = False
        self.released_by_handler = False
        self.released_because = ""
        self.told_of_limit = False

    def __repr__(self) -> str:
        return f"<Held {self.message.message_id} {self.phase.name}>"

    @property
    def remaining(self) -> float:
        """Seconds until the message becomes visible again if nobody extends it."""
        return max(0.0, self.expires_at - self.source.clock.monotonic())

    def visibility_to_ask_for(self, now: float) -> int:
        """Seconds that the message is to be hidden for when its change of visibility is requested ``now``."""
        if self.final_visibility is not None and not isinstance(self.action, ChangeVisibility):
            return self.final_visibility
        seconds = self.action.seconds if isinstance(self.action, ChangeVisibility) else 0
        if seconds < 3600:
            return seconds
        # SQS counts the 12 hours from the receipt and refuses what goes beyond.
        in_flight = now - self.received_at
        return max(0, min(seconds, int(MAX_VISIBILITY_TIMEOUT - in_flight) - 1))

    def adopt(self, message: Message) -> None:
        """Take over the newer receipt of a message that SQS has handed out again to this worker."""
        self.message.receipt_handle = message.receipt_handle
        if self.phase is Phase.BUFFERED:
            self.message.attributes = message.attributes
        self.received_at = message.received_at
        self.expires_at = message.received_at + self.source.visibility
        self.lost = False
        # What the handler did with the older receipt is undone: SQS would not have handed it out otherwise.
        self.deleted_by_handler = self.released_by_handler = False

    @property
    def label(self) -> str:
        """Queue, job and message id, for reports of what was left behind."""
        job = f".{self.job_name}" if self.job_name else ""
        return f"{self.source.name}{job} {self.message.message_id}"


def event_fields(held: Held) -> dict[str, object]:
    """The fields that every event about a message has."""
    return {
        "queue_name": held.source.name,
        "message_id": held.message.message_id,
        "job_name": held.job_name,
        "receive_count": held.message.receive_count,
    }


def log_fields(held: Held, duration: float | None = None) -> dict[str, object]:
    """``extra=`` of a log record about a message."""
    fields = event_fields(held)
    if duration is not None:
        fields["duration"] = duration
    return fields


class ReceiptControl:
    """What ``message.delete()`` and ``message.change_visibility()`` do while a worker holds the message."""

    def __init__(self, transport: Transport, heartbeat: Heartbeat | None, hooks: HookRegistry) -> None:
        self._transport = transport
        self._heartbeat = heartbeat
        self._hooks = hooks

    def delete(self, message: Message) -> None:
        """Acknowledge the message now; the worker will not do it a second time."""
        receipt = message.receipt_handle
        self._transport.delete(message.queue_url, receipt)
        held = message.lease
        if isinstance(held, Held) and message.receipt_handle == receipt:
            held.deleted_by_handler = True
            if self._heartbeat is not None:
                self._heartbeat.discard(held)

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Hide the message for ``seconds`` from now.

        :raises TypeError, ValueError: ``seconds`` is not an integer from 0 to 43,200.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise TypeError(f"a visibility timeout is an integer of seconds, not {seconds!r}")
        if not 0 <= seconds <= MAX_VISIBILITY_TIMEOUT:
            raise ValueError(
                f"a visibility timeout is 0 to {MAX_VISIBILITY_TIMEOUT} seconds, not {seconds!r}"
            )
        held, receipt = message.lease, message.receipt_handle
        if not isinstance(held, Held):
            self._transport.change_visibility(message.queue_url, receipt, seconds)
            return
        # Before the request: a message made visible may be received again, by this worker too, before that
        # is answered, and is held then by the new receipt.
        before = held.released_by_handler
        held.released_by_handler = seconds == 0
        try:
            self._transport.change_visibility(message.queue_url, receipt, seconds)
        except BaseException:
            held.released_by_handler = before
            raise
        if message.receipt_handle == receipt:
            held.expires_at = held.source.clock.monotonic() + seconds
            if self._heartbeat is not None:
                self._heartbeat.reschedule(held)
