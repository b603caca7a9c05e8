"""From a message in an envelope to an outcome: open it, then run the job or the event's processor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from sqs_workers.core import get_job_name
from sqs_workers.envelopes.opened import Ignored, IncomingEvent, Opened, OwnJob
from sqs_workers.envelopes.opening import Layer, open_layer
from sqs_workers.envelopes.policies import AutoEnvelope, Envelope
from sqs_workers.exceptions import NoProcessorError, PermanentError
from sqs_workers.job import CURRENT_JOB, Job
from sqs_workers.messages import Message
from sqs_workers.middleware import async_forms, sync_forms, wrap
from sqs_workers.outcome import Failed, Outcome, Succeeded
from sqs_workers.queues.arrivals import arrive, is_special
from sqs_workers.queues.handlers import JobHandler
from sqs_workers.reporting import outcome_of_error

if TYPE_CHECKING:
    from sqs_workers.queues.events import EventRoute, Events
    from sqs_workers.worker.contract import JobPolicies

__all__ = ["EnvelopeHandler"]

logger = logging.getLogger("sqs_workers.queue")

_SUCCEEDED = Succeeded()


@dataclass(slots=True)
class _Found:
    """What a message turned out to be, and who processes it.

    :param error: why it cannot be opened.
    :param checked: the envelope has nothing more to check.
    """

    opened: Opened | None = None
    route: EventRoute | None = None
    error: Exception | None = None
    checked: bool = False


class EnvelopeHandler(JobHandler):
    """Runs the jobs and events of a queue whose messages may be wrapped."""

    @property
    def _envelope(self) -> Envelope:
        envelope: Envelope | None = self._queue.settings.envelope
        return AutoEnvelope() if envelope is None else envelope

    @property
    def _events(self) -> Events | None:
        events: Events | None = self._queue.__dict__.get("_events")
        return events

    def _find(self, message: Message) -> _Found:
        message = message.content or message
        found = message.opened
        if not isinstance(found, _Found):
            found = message.opened = self._open(message)
        return found

    def _open(self, message: Message) -> _Found:
        try:
            opened = self._envelope.open(message)
        except Exception as error:  # noqa: BLE001 - raised again where the job is run
            return _Found(error=error)
        return self._found(opened)

    def _found(self, opened: Opened, *, checked: bool = False) -> _Found:
        events = self._events
        route = events.find(opened) if isinstance(opened, IncomingEvent) and events is not None else None
        return _Found(opened, route, checked=checked)

    def _special(self, message: Message, opened: Opened) -> Message | None:
        """The message that SNS carries, if it is not due yet or its body is elsewhere."""
        if message.content is not None or not opened.envelopes:
            return None
        carried = _carried(message, opened)
        return carried if carried is not None and is_special(self._queue, carried) else None

    def _arrive(self, message: Message, opened: Opened, carried: Message) -> Outcome | None:
        """What becomes of a wrapped message that is not due; otherwise its body is fetched and opened."""
        arrived = arrive(self._queue, message, carried)
        if not isinstance(arrived, Message):
            return arrived
        if arrived is not carried:
            # What was signed is the pointer, and that was checked.
            inside = open_layer(Layer.fetched(message, arrived, opened.envelopes))
            arrived.opened = self._found(inside, checked=True)
        return None

    def job_name(self, message: Message) -> str:
        """Name of the job, or of the event's processor."""
        found = self._find(message)
        if isinstance(found.opened, OwnJob):
            return get_job_name(found.opened.message) or ""
        return "" if found.route is None else found.route.name

    def policies(self, message: Message) -> JobPolicies:
        """The policies of the job, or of the event's processor."""
        found, events = self._find(message), self._events
        if found.route is not None and events is not None:
            return events.policies(found.route)
        policies: JobPolicies = self._queue.policies_of(self.job_name(message))
        return policies

    def is_async(self, message: Message) -> bool:
        """Whether the job, or the event's processor, is ``async def``."""
        found = self._find(message)
        if isinstance(found.opened, OwnJob):
            return super().is_async(found.opened.message)
        if found.route is None or self._queue.overrides_process_message:
            return False
        return found.route.is_async

    def run_job(self, message: Message) -> Outcome:
        """Open the message and run what is inside."""
        outcome = self._ready(message)
        return self._run_ready(message) if outcome is None else outcome

    def _ready(self, message: Message) -> Outcome | None:
        """Check and prepare what is inside; what becomes of the message if that is not to be run."""
        found = self._find(message)
        try:
            opened = self._checked(found)
            carried = self._special(message, opened)
            return None if carried is None else self._arrive(message, opened, carried)
        except Exception as error:  # noqa: BLE001 - the one place where an envelope's exceptions end
            return self._failed(error, message, found)

    def _run_ready(self, message: Message) -> Outcome:
        found = self._find(message)
        opened = _opened(found)
        match opened:
            case OwnJob():
                return super().run_job(_held_like(message, opened))
            case Ignored():
                return _ignored(opened, message, self._queue.name)
            case IncomingEvent():
                if found.route is None:
                    return self._unmatched(opened, message)
                if found.route.is_async:
                    return self._run_async(message)
                return self._run_event(opened, message, found.route)
            case _:
                assert_never(opened)

    async def arun(self, message: Message) -> Outcome:
        """As :meth:`run_job`, on the running event loop."""
        outcome = await self._aready(message)
        if outcome is not None:
            return outcome
        found = self._find(message)
        opened = _opened(found)
        if isinstance(opened, OwnJob):
            return await super().arun(_held_like(message, opened))
        if not isinstance(opened, IncomingEvent) or found.route is None:
            return self._run_ready(message)
        if not found.route.is_async:
            # The body, which was fetched, tells of another processor than the message.
            import asyncio

            return await asyncio.to_thread(self._run_ready, message)
        route = found.route
        job = self._job(opened, message, route)
        token = CURRENT_JOB.set(job)
        try:
            forms = async_forms(self._queue.middleware_in_use, f"{self._queue.name}.{route.name}")
            await wrap(forms, lambda inner: route.acall(inner.kwargs["event"]))(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failed(error, message, found)
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    def run_job_batch(self, messages: Sequence[Message]) -> list[Outcome]:
        """Run the jobs of each name as one batch, and events one by one."""
        outcomes: list[Outcome] = [_SUCCEEDED] * len(messages)
        jobs: dict[int, Message] = {}
        for index, message in enumerate(messages):
            outcome = self._ready(message)
            opened = self._find(message).opened
            if outcome is not None:
                outcomes[index] = outcome
            elif isinstance(opened, OwnJob):
                jobs[index] = _held_like(message, opened)
            else:
                outcomes[index] = self._run_ready(message)
        for index, outcome in zip(jobs, super().run_job_batch(list(jobs.values())), strict=True):
            outcomes[index] = outcome
        return outcomes

    def _checked(self, found: _Found) -> Opened:
        opened = _opened(found)
        if not found.checked:
            self._envelope.check(opened)
            found.checked = True
        return opened

    async def _aready(self, message: Message) -> Outcome | None:
        found = self._find(message)
        opened = found.opened
        if opened is not None:
            verifies = not found.checked and bool(getattr(self._envelope, "verify", False))
            if verifies or self._special(message, opened) is not None:
                import asyncio

                # It may ask for a certificate, or for a body, over the network.
                return await asyncio.to_thread(self._ready, message)
        return self._ready(message)

    def _run_event(self, event: IncomingEvent[Any], message: Message, route: EventRoute) -> Outcome:
        job = self._job(event, message, route)
        call: Callable[[Job], Any] = lambda inner: route.call(inner.kwargs["event"])  # noqa: E731
        token = CURRENT_JOB.set(job)
        try:
            forms = sync_forms(self._queue.middleware_in_use, f"{self._queue.name}.{route.name}")
            wrap(forms, call)(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failed(error, message, self._find(message))
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    def _job(self, event: IncomingEvent[Any], message: Message, route: EventRoute) -> Job:
        return Job(message, queue_name=self._queue.name, name=route.name, kwargs={"event": event})

    def _failed(self, error: Exception, message: Message, found: _Found) -> Outcome:
        name = self.job_name(message)
        permanent = self._queue.permanent_errors_of(name)
        if found.route is not None:
            permanent = (*found.route.settings.permanent_errors, *permanent)
        return outcome_of_error(
            error, [message], queue_name=self._queue.name, job_name=name, permanent=permanent
        )

    def _unmatched(self, event: IncomingEvent[Any], message: Message) -> Outcome:
        what = f"event of type {event.type!r:.100} from {event.source!r:.100}"
        extra = {"queue_name": self._queue.name, "message_id": message.message_id}
        policy = None if self._events is None else self._events.unmatched
        if policy == "discard":
            logger.info(
                "No processor of queue %s takes an %s: discarded", self._queue.name, what, extra=extra
            )
            return _SUCCEEDED
        error = f"no processor of queue {self._queue.name!r} takes an {what}"
        if policy == "fail":
            return self._failed(PermanentError(error), message, self._find(message))
        logger.error("%s; message %s is tried again later", error, message.message_id, extra=extra)
        return Failed(NoProcessorError(error))


def _opened(found: _Found) -> Opened:
    if found.error is not None:
        raise found.error
    assert found.opened is not None
    return found.opened


def _carried(message: Message, opened: Opened) -> Message | None:
    """The message inside of SNS's envelope; ``None`` if there is none, or if it is wrapped once more."""
    if isinstance(opened, OwnJob):
        return opened.message if opened.message is not message else None
    if not isinstance(opened, IncomingEvent) or opened.sns is None or len(opened.envelopes) > 1:
        return None
    return Message(
        message.message_id,
        message.receipt_handle,
        opened.sns.message,
        message.attributes,
        {name: dict(attribute) for name, attribute in opened.sns.attributes.items()},
        queue_url=message.queue_url,
        received_at=message.received_at,
    )


def _held_like(message: Message, job: OwnJob) -> Message:
    """The job's own message, with the hold that the worker has on the one that it came in."""
    inner = job.message
    if inner is not message:
        inner.control, inner.lease = message.control, message.lease
        inner.opened = _Found(OwnJob(inner), checked=True)
    return inner


def _ignored(opened: Ignored, message: Message, queue_name: str) -> Outcome:
    logger.info(
        "Message %s of queue %s needs nothing done: %s",
        message.message_id,
        queue_name,
        opened.reason,
        extra={"queue_name": queue_name, "message_id": message.message_id},
    )
    return _SUCCEEDED
