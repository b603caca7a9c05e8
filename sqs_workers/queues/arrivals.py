"""The first steps of a message that was received: is it due, and where is its body?

They come before middleware and processors, for workers, ``process_batch()`` and Lambda alike. Messages without
a due time and with their body inside pass by.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.delays import NOT_BEFORE, due_time, next_hop
from sqs_workers.limits import MAX_DELAY_SECONDS, MAX_VISIBILITY_TIMEOUT
from sqs_workers.messages import Message
from sqs_workers.outcome import Outcome, Postponed, RetryRequested
from sqs_workers.queues.departures import schedule
from sqs_workers.reporting import outcome_of_error
from sqs_workers.transport.errors import error_code

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.queues.departures import PayloadStore

__all__ = ["Arrivals", "arrive", "is_special"]

logger = logging.getLogger("sqs_workers.queue")

FIRST_RETRY = 30
"""Seconds until a message is tried again whose successor could not be sent; doubled from one to the next."""

# A message may be hidden for 12 hours from its receipt; this leaves room for the time it was held.
_LONGEST_HIDING = MAX_VISIBILITY_TIMEOUT - 600


class Arrivals:
    """The handler that a worker gets: prepares messages and hands them on.

    :param queue: the queue that they come from.
    :param inner: runs them.
    """

    def __init__(self, queue: Any, inner: Any) -> None:
        self._queue = queue
        self._inner = inner
        self.job_name = inner.job_name
        self.policies = inner.policies
        self.is_async = inner.is_async

    def run(self, message: Message) -> Outcome:
        """Run one job in the calling thread."""
        outcome: Outcome | None = None
        if self._is_special(message):
            message, outcome = self._prepare(message)
        if outcome is None:
            outcome = self._inner.run(message)
        return outcome

    async def arun(self, message: Message) -> Outcome:
        """Run one ``async def`` job on the running event loop."""
        outcome: Outcome | None = None
        if self._is_special(message):
            import asyncio

            message, outcome = await asyncio.to_thread(self._prepare, message)
        if outcome is None:
            outcome = await self._inner.arun(message)
        return outcome

    def run_job(self, message: Message) -> Outcome:
        """Run one job, by the library's own rules."""
        outcome: Outcome | None = None
        if self._is_special(message):
            message, outcome = self._prepare(message)
        if outcome is None:
            outcome = self._inner.run_job(message)
        return outcome

    def run_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Run a batch; one outcome each, in their order."""
        return self._run_several(messages, self._inner.run_batch)

    def run_job_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Run a batch, by the library's own rules."""
        return self._run_several(messages, self._inner.run_job_batch)

    def _run_several(
        self, messages: Sequence[Message], run: Callable[[Sequence[Message]], Sequence[Outcome]]
    ) -> Sequence[Outcome]:
        if not any(self._is_special(message) for message in messages):
            return run(messages)
        prepared = [
            self._prepare(message) if self._is_special(message) else (message, None) for message in messages
        ]
        ready = [message for message, outcome in prepared if outcome is None]
        ran = iter(run(ready) if ready else ())
        return [next(ran) if outcome is None else outcome for _, outcome in prepared]

    def _is_special(self, message: Any) -> bool:
        return isinstance(message, Message) and is_special(self._queue, message)

    def _prepare(self, message: Message) -> tuple[Message, Outcome | None]:
        """The message to run, or what becomes of it instead."""
        try:
            found = arrive(self._queue, message)
        except Exception as error:  # noqa: BLE001 - of the message or of AWS: an outcome like any other
            name = self.job_name(message)
            permanent = self._queue.permanent_errors_of(name)
            return message, outcome_of_error(
                error, [message], queue_name=self._queue.name, job_name=name, permanent=permanent
            )
        return (message, found) if not isinstance(found, Message) else (found, None)


def is_special(queue: Any, message: Message) -> bool:
    """Whether a message, or what it carries, has a due time or a body elsewhere."""
    attributes = message.message_attributes
    if not attributes:
        return False
    store: PayloadStore | None = queue.settings.payload
    return NOT_BEFORE in attributes or (store is not None and store.is_pointer(message))


def arrive(queue: Any, message: Message, carried: Message | None = None) -> Message | Outcome:
    """The message to run, its body fetched, or what becomes of it instead.

    :param message: as it was received.
    :param carried: the message that was wrapped in it, if one was.
    :raises Exception: whatever the store raised.
    :raises UndecodableMessageError: a due time that no sender would write, or a pointer that is none.
    """
    inner = message if carried is None else carried
    now = queue.env.clock.time()
    due = due_time(inner, now)
    if due is not None and due > now:
        return _postpone(queue, message, due, due - now, carried)
    store: PayloadStore | None = queue.settings.payload
    if store is None or not store.is_pointer(inner):
        return inner
    loaded = store.load(inner)
    loaded.stored_size = len(loaded.body)
    message.content = loaded
    message.after_delete = inner.after_delete
    return loaded


def _scheduled(queue: Any, message: Message, successor: OutgoingMessage) -> bool:
    """Whether the scheduler took the successor; what it refuses goes on by hops, which cost no attempt.

    :raises Exception: it was refused, and the queue cannot delay.
    """
    try:
        # A schedule that has just fired may still be there under the id of the job.
        schedule(queue, successor, job_id=message.message_id)
    except Exception as error:
        if queue.is_fifo:
            raise
        logger.warning(
            "Message %s of queue %s could not be scheduled (%s), and goes on by hops of 15 minutes: a worker needs "
            "scheduler:CreateSchedule and iam:PassRole, and a schedule takes 256 KB",
            message.message_id,
            queue.name,
            error,
            extra={"queue_name": queue.name, "message_id": message.message_id},
        )
        return False
    return True


def _postpone(queue: Any, message: Message, due: int, remaining: float, carried: Message | None) -> Outcome:
    """Send the successor of a message that is not due; only when it was taken may the message go."""
    later = remaining > MAX_DELAY_SECONDS and queue.env.scheduler is not None
    if queue.is_fifo and not later:
        # There is no way to send it later but a schedule; hiding it keeps it, and its group waits.
        return RetryRequested(min(math.ceil(remaining), _LONGEST_HIDING))
    try:
        successor = next_hop(message, remaining, fifo=queue.is_fifo, carried=carried)
        if not later or not _scheduled(queue, message, successor):
            queue.env.transport.send(message.queue_url or queue.url, successor)
    except Exception as error:  # noqa: BLE001 - the message stays until its successor is taken
        delay = min(FIRST_RETRY * 2 ** min(message.receive_count - 1, 5), MAX_DELAY_SECONDS)
        logger.warning(
            "Message %s of queue %s is due in %d s and could not be sent on (%s): it is tried again in %d s",
            message.message_id,
            queue.name,
            remaining,
            error_code(error),
            delay,
            extra={"queue_name": queue.name, "message_id": message.message_id},
        )
        return RetryRequested(delay)
    return Postponed(due)
