"""Sending to a topic or a bus: in batches, and again what was not taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqs_workers.clock import Clock
from sqs_workers.delivery import EARLIER_FAILED, Packer, RetryPolicy, Unsent, deliver
from sqs_workers.envelopes.documents import OutgoingEvent
from sqs_workers.exceptions import EventsNotSentError, InvalidMessageError, MessageTooLargeError
from sqs_workers.messages import OUTGOING_SINK, OutgoingMessage
from sqs_workers.transport.protocol import SendResult

__all__ = ["as_events", "check_bytes", "check_event", "send_all"]


def check_event(event: Any, target: str) -> None:
    """Refuse what is no event.

    :raises InvalidMessageError: says what is taken.
    """
    if not isinstance(event, OutgoingEvent):
        raise InvalidMessageError(
            f"{target} takes an OutgoingEvent(type, data, source=...), not {type(event).__qualname__}"
        )


def as_events(events: Any) -> list[OutgoingEvent]:
    """One event, or several, as a list."""
    return [events] if isinstance(events, OutgoingEvent) else list(events)


SendCall = Callable[[list[OutgoingMessage]], list[SendResult]]


def check_bytes(message: OutgoingMessage, limit: int, target: str) -> None:
    """Refuse what the service would not take.

    :raises MessageTooLargeError: says by how much.
    """
    if message.size > limit:
        raise MessageTooLargeError(
            f"{message.job_name!r} for {target} has {message.size} bytes, attributes included, and "
            f"{limit} are taken. Store the data elsewhere and send a reference",
            size=message.size,
            limit=limit,
        )


def send_all(
    call: SendCall,
    target: str,
    messages: Sequence[OutgoingMessage],
    sources: Sequence[Any],
    *,
    fifo: bool,
    max_bytes: int,
    clock: Clock,
    retry: RetryPolicy,
) -> list[str | None]:
    """Send checked messages, 10 a call; within the block of an outbox they go there.

    :param sources: what each message was made of, for the error.
    :returns: the ids that were given; ``None`` for those that an outbox took.
    :raises EventsNotSentError: with what was not taken after all retries.
    """
    sink = OUTGOING_SINK.get()
    if sink is not None:
        for message in messages:
            sink(target, message)
        return [None] * len(messages)
    ids: dict[int, str | None] = {}

    def noting(chunk: list[OutgoingMessage]) -> list[SendResult]:
        results = call(chunk)
        ids.update((id(message), result.message_id) for message, result in zip(chunk, results, strict=True))
        return results

    packer = Packer(fifo=fifo, max_bytes=max_bytes)
    for position, message in enumerate(messages):
        packer.add(position, message)
    unsent: list[Unsent] = []
    blocked: set[str | None] = set()
    while chunk := packer.next_call():
        ready = [entry for entry in chunk if not fifo or entry[1].group_id not in blocked]
        unsent += [Unsent(*entry, EARLIER_FAILED) for entry in chunk if entry not in ready]
        if ready:
            failures = deliver(noting, ready, clock=clock, retry=retry, queue_name=target)
            unsent += failures
            blocked.update(failure.message.group_id for failure in failures)
    if unsent:
        _raise(unsent, sources, target)
    return [ids.get(id(message)) for message in messages]


def _raise(unsent: list[Unsent], sources: Sequence[Any], target: str) -> None:
    unsent.sort(key=lambda failure: failure.position)
    errors = [
        {
            "EventId": getattr(sources[failure.position], "event_id", ""),
            "Code": failure.error.code,
            "Message": failure.error.message,
            "SenderFault": failure.error.sender_fault,
        }
        for failure in unsent
    ]
    error = EventsNotSentError(errors, [sources[failure.position] for failure in unsent], target=target)
    raise error from next((failure.cause for failure in unsent if failure.cause), None)
