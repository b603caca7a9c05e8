"""The last steps before a message is sent: a long delay becomes a due time, a large body an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from sqs_workers.delays import NOT_BEFORE, STABLE_ID, due_of, long_delay, seconds_until, stamped, timely
from sqs_workers.delivery import Unsent, as_error_entries
from sqs_workers.exceptions import SQSBatchError
from sqs_workers.limits import MAX_DELAY_SECONDS
from sqs_workers.outgoing import check_attributes, check_text, is_plain, make_outgoing
from sqs_workers.transport.errors import classify, error_code
from sqs_workers.transport.protocol import EntryError

if TYPE_CHECKING:
    from sqs_workers.async_task import JobOptions
    from sqs_workers.clock import Clock
    from sqs_workers.messages import Message, OutgoingMessage

__all__ = [
    "JobScheduler",
    "PayloadStore",
    "check_job_attributes",
    "make_message",
    "schedule",
    "send_all",
    "send_one",
    "takes_schedule",
    "with_delay",
]


class JobScheduler(Protocol):
    """Sends a message at a time of day; ``SQSEnv(scheduler=...)``."""

    def schedule(self, queue_url: str, message: OutgoingMessage, *, due: int, job_id: str) -> str:
        """Have ``message`` sent at ``due`` (seconds since the Unix epoch); returns what cancels it."""
        ...

    def cancel(self, schedule_id: str) -> bool:
        """Forget a message that was not sent yet; whether there was one."""
        ...


class PayloadStore(Protocol):
    """Keeps large bodies elsewhere; ``env.queue(..., payload=...)``."""

    def is_large(self, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether a body has to be stored."""
        ...

    def store(
        self, body: str, attributes: Mapping[str, Mapping[str, Any]], where: str
    ) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
        """Store a body; returns the body and the attributes of the message that points to it."""
        ...

    def is_pointer(self, message: Message) -> bool:
        """Whether a message stands for a stored body."""
        ...

    def load(self, message: Message) -> Message:
        """The message as its sender wrote it.

        :raises PermanentError: it cannot be had, and no retry will change that.
        """
        ...


def make_message(
    queue: Any,
    body: str,
    attributes: Mapping[str, Mapping[str, Any]],
    where: str,
    *,
    delay_seconds: Any = None,
    inline: bool = False,
    **options: Any,
) -> OutgoingMessage:
    """A checked message for ``queue``.

    :param where: what the message is, for errors: ``job 'send_email' for queue 'emails'``.
    :param inline: keep the body in the message, whatever its size.
    :param options: as for :func:`sqs_workers.outgoing.make_outgoing`.
    :raises InvalidMessageError: SQS would refuse it.
    """
    fifo = queue.is_fifo
    scheduled = fifo and queue.env.scheduler is not None
    delay = None
    if delay_seconds and (not fifo or scheduled):
        # A FIFO queue delays no message by itself: a schedule has to.
        delay = long_delay(delay_seconds, from_seconds=0 if fifo else MAX_DELAY_SECONDS, where=where)
    if delay is not None:
        attributes = stamped(attributes, queue.env.clock.time() + delay)
        delay_seconds = None if fifo else MAX_DELAY_SECONDS
        check_attributes(attributes, where)
    store: PayloadStore | None = queue.settings.payload
    if store is not None and not inline and store.is_large(body, attributes):
        # What SQS would refuse is refused before anything is stored.
        make_outgoing("-", attributes, fifo=fifo, where=where, delay_seconds=delay_seconds, **options)
        body, attributes = store.store(body, attributes, where)
        check_attributes(attributes, where)
    return make_outgoing(body, attributes, fifo=fifo, where=where, delay_seconds=delay_seconds, **options)


def with_delay(options: JobOptions, clock: Clock) -> JobOptions:
    """``options`` with the delay that their ``eta`` means now."""
    if options.eta is None:
        return options
    return replace(options, eta=None, delay_seconds=seconds_until(options.eta, clock.time()))


def takes_schedule(queue: Any, message: OutgoingMessage) -> bool:
    """Whether the environment's scheduler sends the message, and not the queue.

    What the queue can delay by itself goes there: a job whose time has come meanwhile, too.
    """
    if queue.env.scheduler is None or NOT_BEFORE not in message.attributes:
        return False
    due = due_of(message)
    return due is not None and due - queue.env.clock.time() > (0 if queue.is_fifo else MAX_DELAY_SECONDS)


def send_one(
    queue: Any, message: OutgoingMessage, send: Callable[[OutgoingMessage], str | None]
) -> str | None:
    """Let the scheduler or ``send`` have a message, whichever is to; returns the id that it gave."""
    if NOT_BEFORE not in message.attributes:
        return send(message)
    if takes_schedule(queue, message):
        return schedule(queue, message)
    return send(timely(message, queue.env.clock.time()))


def send_all(queue: Any, messages: Iterable[OutgoingMessage]) -> None:
    """Send messages in as few calls as possible, and schedule those that are due much later.

    :raises SQSBatchError: with those that SQS, or the scheduler, did not take.
    """
    unscheduled: list[Unsent] = []

    def sendable() -> Iterator[OutgoingMessage]:
        for position, message in enumerate(messages):
            if not takes_schedule(queue, message):
                yield timely(message, queue.env.clock.time())
                continue
            try:
                schedule(queue, message)
            except Exception as error:  # noqa: BLE001 - the others are sent, and this one handed back
                failure = EntryError(error_code(error), str(error), not classify(error).temporary)
                unscheduled.append(Unsent(position, message, failure, error))

    try:
        queue.sender.send_all(sendable())
    except SQSBatchError as error:
        if not unscheduled:
            raise
        raise _with_unscheduled(queue.name, unscheduled, error) from error
    if unscheduled:
        raise _with_unscheduled(queue.name, unscheduled) from unscheduled[0].cause


def _with_unscheduled(name: str, failures: list[Unsent], other: SQSBatchError | None = None) -> SQSBatchError:
    errors, unsent = ([], []) if other is None else (other.errors, other.unsent)
    return SQSBatchError(
        [*errors, *as_error_entries(failures)],
        [*unsent, *(failure.message for failure in failures)],
        queue_name=name,
    )


def schedule(queue: Any, message: OutgoingMessage, *, job_id: str | None = None) -> str:
    """Hand a message to the environment's scheduler; returns the id that cancels it.

    :param job_id: tells this schedule from others; the stable id of the job by default.
    """
    scheduler: JobScheduler = queue.env.scheduler
    return scheduler.schedule(
        queue.url,
        message,
        due=int(message.attributes[NOT_BEFORE]["StringValue"]),
        job_id=job_id or message.attributes[STABLE_ID]["StringValue"],
    )


def check_job_attributes(attributes: Mapping[str, Mapping[str, Any]], where: str) -> None:
    """Refuse text in the attributes of a job that SQS does not take.

    :raises InvalidMessageError: names the attribute.
    """
    for name, attribute in attributes.items():
        if not is_plain(attribute["StringValue"]):
            check_text(f"attribute {name!r} of {where}", attribute["StringValue"])
