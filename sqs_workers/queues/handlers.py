"""From a message to an outcome: middleware, then the processor registered for the job.

The engine calls these; user code runs inside, and whatever it raises ends here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqs_workers.core import get_job_name
from sqs_workers.job import CURRENT_JOB, BatchJob, Job
from sqs_workers.middleware import async_forms, sync_forms, wrap
from sqs_workers.outcome import Outcome, Succeeded
from sqs_workers.processors import Processor, overrides
from sqs_workers.queues.results import batch_outcomes, outcome_of_result
from sqs_workers.reporting import outcome_of_error

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.worker.contract import JobPolicies

__all__ = ["JobHandler", "OwnHandler", "RawHandler"]

_SUCCEEDED = Succeeded()


class _QueueHandler:
    """What handlers of both kinds of queues share."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def policies(self, message: Message) -> JobPolicies:
        """The policies of the message's job."""
        policies: JobPolicies = self._queue.policies_of(self.job_name(message))
        return policies

    def job_name(self, message: Message) -> str:
        """Name of the message's job."""
        return get_job_name(message) or ""

    def run(self, message: Message) -> Outcome:
        """Run one job in the calling thread."""
        queue = self._queue
        try:
            if not queue.overrides_process_message:
                return self.run_job(message)
        except Exception as error:  # noqa: BLE001 - methods of a subclass of the user's, on the way to its job
            return self._failure(error, [message], self.job_name(message))
        return self._settle([message], self.job_name(message), lambda: queue.process_message(message))

    def _run_async(self, message: Message) -> Outcome:
        from sqs_workers.queues.aio import run_to_end

        outcome: Outcome = run_to_end(lambda: self.arun(message))
        return outcome

    def is_async(self, message: Message) -> bool:
        """Whether the message's job is ``async def``."""
        return False

    async def arun(self, message: Message) -> Outcome:
        """Run one ``async def`` job on the running event loop."""
        return self.run(message)

    def run_job(self, message: Message) -> Outcome:
        """Run one job, by the library's own rules."""
        outcome: Outcome = self._queue.no_processor([message])
        return outcome

    def run_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Run a batch; one outcome each, in their order."""
        queue = self._queue
        try:
            if not queue.overrides_process_messages:
                return self.run_job_batch(messages)
        except Exception as error:  # noqa: BLE001 - methods of a subclass of the user's, on the way to its jobs
            return [self._failure(error, messages, "")] * len(messages)
        outcome = self._settle(messages, "", lambda: queue.process_messages(messages))
        return [outcome] * len(messages)

    def run_job_batch(self, messages: Sequence[Message]) -> list[Outcome]:
        """Run a batch, by the library's own rules."""
        return [self._queue.no_processor(messages)] * len(messages)

    def _settle(self, messages: Sequence[Message], job_name: str, call: Callable[[], Any]) -> Outcome:
        """The outcome of code of the user's that answers with a bool or a ``ProcessingResult``."""
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, messages, job_name)
        return outcome_of_result(result, messages, f"{self._queue.name}.{job_name}")

    def _failure(self, error: Exception, messages: Sequence[Message], job_name: str) -> Outcome:
        return outcome_of_error(
            error,
            messages,
            queue_name=self._queue.name,
            job_name=job_name,
            permanent=self._queue.permanent_errors_of(job_name),
        )

    def _run_batch_job(self, job: BatchJob, call: Callable[[Job], Any]) -> list[Outcome]:
        """Run a batch inside of middleware; its handler may name the items that failed."""
        token = CURRENT_JOB.set(job)
        try:
            result = wrap(sync_forms(self._queue.middleware_in_use, _what(job)), call)(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return batch_outcomes(error, job, lambda e: self._failure(e, job.messages, job.name))
        finally:
            CURRENT_JOB.reset(token)
        return batch_outcomes(result, job, lambda e: self._failure(e, job.messages, job.name))


class OwnHandler(_QueueHandler):
    """Runs the messages of a queue class of the user's, which overrides ``process_message``."""


class JobHandler(_QueueHandler):
    """Runs the jobs of a :class:`~sqs_workers.queues.job_queue.JobQueue`."""

    def policies(self, message: Message) -> JobPolicies:
        """The policies of the message's job."""
        policies: JobPolicies = self._queue.policies_of(get_job_name(message) or "")
        return policies

    def is_async(self, message: Message) -> bool:
        """Whether the message's job is ``async def``."""
        if self._queue.overrides_process_message:
            return False
        processor = self._queue.get_processor(get_job_name(message))
        return processor is not None and _way_of(processor).asynchronous

    def run_job(self, message: Message) -> Outcome:
        """Run one job, by the library's own rules."""
        name = get_job_name(message)
        processor = self._queue.get_processor(name)
        if processor is None:
            return self._unknown(message, name)
        way = _way_of(processor)
        if way.asynchronous:
            return self._run_async(message)
        job = Job(message, queue_name=self._queue.name, name=name or "")
        middleware = self._queue.middleware_in_use
        if not (way.legacy or middleware):
            return self._run_bare(processor, job)
        call = _legacy_call(processor) if way.legacy else _prepare(processor, job)
        token = CURRENT_JOB.set(job)
        try:
            result = wrap(sync_forms(middleware, _what(job)), call)(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, [message], job.name)
        finally:
            CURRENT_JOB.reset(token)
        return outcome_of_result(result, [message], _what(job)) if way.legacy else _SUCCEEDED

    def _run_bare(self, processor: Processor, job: Job) -> Outcome:
        """Run one job that no middleware wraps."""
        token = CURRENT_JOB.set(job)
        try:
            _, job.kwargs, job.context = processor.decode(job.message)
            processor.invoke(job.kwargs, job.context)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, [job.message], job.name)
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    async def arun(self, message: Message) -> Outcome:
        """Run one ``async def`` job on the running event loop."""
        name = get_job_name(message)
        processor = self._queue.get_processor(name)
        if processor is None:
            return self._unknown(message, name)
        job = Job(message, queue_name=self._queue.name, name=name or "")
        call = _prepare(processor, job, asynchronous=True)
        token = CURRENT_JOB.set(job)
        try:
            await wrap(async_forms(self._queue.middleware_in_use, _what(job)), call)(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, [message], job.name)
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    def run_job_batch(self, messages: Sequence[Message]) -> list[Outcome]:
        """Run the jobs of each name as one batch."""
        by_name: dict[str | None, list[int]] = {}
        for index, message in enumerate(messages):
            by_name.setdefault(get_job_name(message), []).append(index)
        outcomes: list[Outcome] = [_SUCCEEDED] * len(messages)
        for name, indexes in by_name.items():
            group = [messages[index] for index in indexes]
            for index, outcome in zip(indexes, self._run_group(name, group), strict=True):
                outcomes[index] = outcome
        return outcomes

    def _run_group(self, name: str | None, messages: list[Message]) -> list[Outcome]:
        processor = self._queue.get_processor(name)
        if processor is None:
            return [self._unknown(message, name) for message in messages]
        own = overrides(type(processor)) if isinstance(processor, Processor) else None
        if own is None or own.process_messages:
            outcome = self._settle(messages, name or "", lambda: processor.process_messages(messages))
            return [outcome] * len(messages)
        if own.process_batch:
            job = BatchJob(messages, [], queue_name=self._queue.name, name=name or "")
            return self._run_batch_job(job, lambda _: processor.process_batch(messages))
        return self._run_decoded(processor, messages)

    def _run_decoded(self, processor: Processor, messages: list[Message]) -> list[Outcome]:
        """Run what can be decoded as one batch; what cannot fails alone."""
        outcomes: list[Outcome] = [_SUCCEEDED] * len(messages)
        readable: list[int] = []
        items: list[Any] = []
        for index, message in enumerate(messages):
            try:
                _, job_kwargs, job_context = processor.decode(message)
            except Exception as error:  # noqa: BLE001 - one unreadable body must not fail the others
                outcomes[index] = self._failure(error, [message], processor.job_name)
            else:
                readable.append(index)
                items.append(processor.batch_item(job_kwargs, job_context))
        if readable:
            job = BatchJob(
                [messages[index] for index in readable],
                items,
                queue_name=self._queue.name,
                name=processor.job_name,
            )
            results = self._run_batch_job(job, lambda _: processor.call_batch(items))
            for index, outcome in zip(readable, results, strict=True):
                outcomes[index] = outcome
        return outcomes

    def _unknown(self, message: Message, name: str | None) -> Outcome:
        return self._queue.unknown_job(message, name)  # type: ignore[no-any-return]


class RawHandler(_QueueHandler):
    """Runs the messages of a :class:`~sqs_workers.queues.raw_queue.RawQueue`."""

    def job_name(self, message: Message) -> str:
        """Raw queues have one processor and no job names."""
        return ""

    def is_async(self, message: Message) -> bool:
        """Whether the processor is ``async def``."""
        return not self._queue.overrides_process_message and self._queue.has_async_processor

    def run_job(self, message: Message) -> Outcome:
        """Give the message to the processor."""
        processor = self._queue.processor
        if processor is None:
            return self._queue.no_processor([message])  # type: ignore[no-any-return]
        if self._queue.has_async_processor:
            return self._run_async(message)
        job = Job(message, queue_name=self._queue.name)
        token = CURRENT_JOB.set(job)
        try:
            wrap(sync_forms(self._queue.middleware_in_use, _what(job)), lambda j: processor(j.message))(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, [message], "")
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    async def arun(self, message: Message) -> Outcome:
        """Give the message to an ``async def`` processor."""
        processor = self._queue.processor
        job = Job(message, queue_name=self._queue.name)
        token = CURRENT_JOB.set(job)
        try:
            call = wrap(
                async_forms(self._queue.middleware_in_use, _what(job)), lambda j: processor(j.message)
            )
            await call(job)
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            return self._failure(error, [message], "")
        finally:
            CURRENT_JOB.reset(token)
        return _SUCCEEDED

    def run_job_batch(self, messages: Sequence[Message]) -> list[Outcome]:
        """Give the list of messages to the processor."""
        processor = self._queue.processor
        if processor is None:
            return [self._queue.no_processor(messages)] * len(messages)
        job = BatchJob(messages, list(messages), queue_name=self._queue.name)
        return self._run_batch_job(job, lambda _: processor(list(messages)))


class _Way(NamedTuple):
    """How a processor is called.

    :ivar fn: the function that this was found for.
    :ivar asynchronous: on the event loop.
    :ivar legacy: by a ``process_message`` of its own.
    """

    fn: Callable[..., Any] | None
    asynchronous: bool
    legacy: bool


_LEGACY = _Way(None, False, True)


def _way_of(processor: Any) -> _Way:
    """Looked up once, and again if the function was replaced: it is asked for every message."""
    if not isinstance(processor, Processor):
        return _LEGACY
    way: _Way | None = processor.__dict__.get("_cached_way")
    if way is None or way.fn is not processor.fn:
        legacy = overrides(type(processor)).process_message
        way = _Way(processor.fn, not legacy and processor.is_async, legacy)
        processor.__dict__["_cached_way"] = way
    return way


def _legacy_call(processor: Any) -> Callable[[Job], Any]:
    return lambda job: processor.process_message(job.message)


def _prepare(processor: Processor, job: Job, *, asynchronous: bool = False) -> Callable[[Job], Any]:
    """Decode into ``job`` and answer with the call that runs it, or that raises why it cannot be decoded."""
    try:
        _, job.kwargs, job.context = processor.decode(job.message)
    except Exception as error:  # noqa: BLE001 - raised inside of the middleware, which may watch for it
        return _araise(error) if asynchronous else _raise(error)
    if asynchronous:
        return lambda decoded: processor.ainvoke(decoded.kwargs, decoded.context)
    return lambda decoded: processor.invoke(decoded.kwargs, decoded.context)


def _raise(error: Exception) -> Callable[[Job], Any]:
    def call(job: Job) -> Any:
        raise error

    return call


def _araise(error: Exception) -> Callable[[Job], Any]:
    async def call(job: Job) -> Any:
        raise error

    return call


def _what(job: Job) -> str:
    return f"{job.queue_name}.{job.name}" if job.name else job.queue_name
