"""A queue of named jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeVar, overload

from typing_extensions import ParamSpec

from sqs_workers.async_task import NO_OPTIONS, AsyncTask, JobOptions
from sqs_workers.codecs import get_codec
from sqs_workers.exceptions import ConfigurationError, NoProcessorError, SerializationError
from sqs_workers.messages import OUTGOING_SINK, string_attribute
from sqs_workers.outcome import Failed
from sqs_workers.processors import DEFAULT_CONTEXT_VAR
from sqs_workers.queues.checks import check_policies
from sqs_workers.queues.declaring import DeclaresPeriodic, refuse_sync_wrapping
from sqs_workers.queues.departures import check_job_attributes, make_message, takes_schedule, with_delay
from sqs_workers.queues.events import Events, Unmatched, events_of
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.results import outcome_of_result
from sqs_workers.queues.settings import JobSettings, check_common, exception_classes

if TYPE_CHECKING:
    from datetime import timedelta

    from sqs_workers.failure_policies import FailurePolicy
    from sqs_workers.messages import Message, OutgoingMessage
    from sqs_workers.outcome import Outcome

__all__ = ["JobQueue"]

logger = logging.getLogger("sqs_workers.queue")

P = ParamSpec("P")
R = TypeVar("R")


class RunsOnce(Protocol):
    """What a queue asks of an inbox."""

    def handler(
        self, event_id: str | Callable[[Mapping[str, Any]], str] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function, which takes a transaction first, run once for each event."""
        ...


@dataclass(eq=False)
class JobQueue(DeclaresPeriodic, GenericQueue):
    """A queue of named jobs; each name has a processor.

    ::

        queue = sqs.queue("emails")

        @queue.processor("send_email")
        def send_email(to, subject, body): ...

        send_email.delay(to="user@example.com", subject="Hello", body="world")
    """

    processors: dict[str, Any] = field(default_factory=dict)

    @overload
    def processor(
        self,
        job_name: str,
        pass_context: bool = False,
        context_var: str = DEFAULT_CONTEXT_VAR,
        *,
        timeout: float | None = None,
        max_attempts: int | None = None,
        backoff_policy: Any = None,
        failure_policy: FailurePolicy | None = None,
        permanent_errors: Any = (),
        inbox: None = None,
        event_id: None = None,
    ) -> Callable[[Callable[P, R]], AsyncTask[P, R]]: ...

    @overload
    def processor(
        self,
        job_name: str,
        pass_context: bool = False,
        context_var: str = DEFAULT_CONTEXT_VAR,
        *,
        timeout: float | None = None,
        max_attempts: int | None = None,
        backoff_policy: Any = None,
        failure_policy: FailurePolicy | None = None,
        permanent_errors: Any = (),
        inbox: RunsOnce,
        event_id: str | Callable[[Mapping[str, Any]], str] | None = None,
    ) -> Callable[[Callable[Concatenate[Any, P], R]], AsyncTask[P, R]]: ...

    def processor(
        self,
        job_name: str,
        pass_context: bool = False,
        context_var: str = DEFAULT_CONTEXT_VAR,
        *,
        timeout: float | None = None,
        max_attempts: int | None = None,
        backoff_policy: Any = None,
        failure_policy: FailurePolicy | None = None,
        permanent_errors: Any = (),
        inbox: RunsOnce | None = None,
        event_id: str | Callable[[Mapping[str, Any]], str] | None = None,
    ) -> Callable[[Callable[..., R]], AsyncTask[..., R]]:
        """Decorator: the function runs the jobs of this name.

        :param job_name: the name that messages carry.
        :param pass_context: give the sender's context to the function.
        :param context_var: as which parameter.
        :param timeout: seconds that the job may run.
        :param max_attempts: attempts until the failure policy applies.
        :param backoff_policy: when a failed job is tried again.
        :param failure_policy: what happens to a job that has failed for good.
        :param permanent_errors: exception classes that no retry can help.
        :param inbox: an :class:`~sqs_workers.sql.inbox.Inbox`: the function gets its transaction as first
            argument, and runs once for each event. Senders leave that argument out.
        :param event_id: name of the argument that is the event's id, or a function of the arguments; by
            default the stable id of the outbox or else the message id.
        :raises ConfigurationError: ``event_id`` without ``inbox``.
        """
        if callable(job_name):
            raise ConfigurationError(
                f"processor of queue {self.name!r} takes the job's name: "
                f"@queue.processor({getattr(job_name, '__name__', 'name')!r})"
            )
        if inbox is None and event_id is not None:
            raise ConfigurationError(f"processor {job_name!r}: event_id= needs inbox=")

        def connect(function: Callable[..., R]) -> AsyncTask[..., R]:
            if inbox is not None:
                function = inbox.handler(event_id)(function)
            return self.connect_processor(
                job_name,
                function,
                pass_context,
                context_var,
                timeout=timeout,
                max_attempts=max_attempts,
                backoff_policy=backoff_policy,
                failure_policy=failure_policy,
                permanent_errors=permanent_errors,
            )

        return connect

    def connect_processor(
        self,
        job_name: str,
        processor: Callable[P, R],
        pass_context: bool = False,
        context_var: str = DEFAULT_CONTEXT_VAR,
        *,
        timeout: float | None = None,
        max_attempts: int | None = None,
        backoff_policy: Any = None,
        failure_policy: FailurePolicy | None = None,
        permanent_errors: Any = (),
    ) -> AsyncTask[P, R]:
        """Let ``processor`` run the jobs of this name; see :meth:`processor`.

        :raises ConfigurationError: a setting is out of range, or the function cannot be run on this queue.
        """
        where = f"{self.name}.{job_name}"
        check_common(max_attempts, timeout, where)
        check_policies({"backoff_policy": backoff_policy, "failure_policy": failure_policy}, where)
        name: Any = job_name
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"the name of a job of queue {self.name!r} must be text, not {job_name!r}"
            )
        if not callable(processor):
            raise ConfigurationError(f"the processor of {where} must be a function, not {processor!r}")
        self.refuse_async_batches(processor, where)
        made = self.env.processor_maker(
            queue=self, fn=processor, pass_context=pass_context, context_var=context_var, job_name=job_name
        )
        refuse_sync_wrapping(made, where)
        self._settings_by_job()[job_name] = JobSettings(
            failure_policy=failure_policy,
            max_attempts=max_attempts,
            timeout=timeout,
            permanent_errors=exception_classes(permanent_errors, where),
            backoff_policy=backoff_policy,
        )
        self.__dict__.pop("_policies", None)
        self.processors[job_name] = made
        logger.debug(
            "Connect %s to processor %r",
            where,
            processor,
            extra={"queue_name": self.name, "job_name": job_name},
        )
        return AsyncTask(self, job_name, processor, injected=context_var if pass_context else None)

    def events(self, unmatched: Unmatched | None = None) -> Events:
        """Processors of events by type.

        :param unmatched: what becomes of the others: ``leave`` (the default), ``discard``, ``fail``, or a
            function that gets them.
        :raises QueueConflictError: another answer was given before.
        """
        return events_of(self, unmatched)

    def get_processor(self, job_name: str | None) -> Any:
        """The processor of a job, or ``None``."""
        return self.processors.get(job_name)  # type: ignore[arg-type]

    def copy_processors(self, dst_queue: JobQueue) -> None:
        """Let another queue run the same jobs: the dead-letter queue of this one, for instance."""
        for job_name, processor in self.processors.items():
            dst_queue.processors[job_name] = processor.copy(queue=dst_queue)
        dst_queue._settings_by_job().update(self._settings_by_job())
        dst_queue.__dict__.pop("_policies", None)
        if "_events" in self.__dict__:
            self.events().copy_to(dst_queue)

    # Sending

    def add_job(
        self,
        job_name: str,
        _content_type: str | None = None,
        _delay_seconds: float | timedelta | None = None,
        _deduplication_id: str | None = None,
        _group_id: str | None = None,
        **job_kwargs: Any,
    ) -> str | None:
        """Send a job.

        :param job_name: name of the job.
        :param _content_type: name of the codec; by default that of the environment.
        :param _delay_seconds: up to 366 days; on a FIFO queue by the environment's scheduler alone.
        :param _deduplication_id: FIFO queues only.
        :param _group_id: message group; ``default`` on a FIFO queue.
        :returns: the message id; ``None`` in a batch.
        :raises SerializationError: the codec cannot carry an argument.
        :raises InvalidMessageError: SQS would refuse the message.
        """
        options = JobOptions(_content_type or None, _delay_seconds, _deduplication_id, _group_id)
        return self._send_job(job_name, job_kwargs, options)

    def add_raw_job(
        self,
        job_name: str,
        message_body: str,
        job_context: str,
        content_type: str,
        delay_seconds: float | timedelta | None,
        deduplication_id: str | None,
        group_id: str | None,
    ) -> str | None:
        """Send a job whose arguments and context are encoded already; see :meth:`add_job`."""
        options = JobOptions(content_type, delay_seconds, deduplication_id, group_id)
        return self.send_message(self._message(job_name, message_body, job_context, options))

    def enqueue(
        self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions = NO_OPTIONS
    ) -> str | None:
        """Send a job; unlike :meth:`add_job` it takes arguments of any name."""
        options = with_delay(options, self.env.clock)
        if getattr(self.add_job, "__func__", None) is JobQueue.add_job:
            return self._send_job(job_name, job_kwargs, options)
        return self.add_job(
            job_name,
            _content_type=options.content_type or self.env.codec,
            _delay_seconds=options.delay_seconds,
            _deduplication_id=options.deduplication_id,
            _group_id=options.group_id,
            **job_kwargs,
        )

    async def aenqueue(
        self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions = NO_OPTIONS
    ) -> str | None:
        """As :meth:`enqueue`, without blocking the event loop."""
        import asyncio

        if OUTGOING_SINK.get() is not None:
            return self.enqueue(job_name, job_kwargs, options)
        if self.env.route is not None or getattr(self.add_job, "__func__", None) is not JobQueue.add_job:
            return await asyncio.to_thread(self.enqueue, job_name, job_kwargs, options)
        message = self.job_message(job_name, job_kwargs, options)
        if takes_schedule(self, message):
            return await asyncio.to_thread(self.send_message, message)
        batch = self.sender.current_batch()
        if batch is None:
            return await asyncio.to_thread(self.sender.send_now, message)
        # The batch is this task's; only its calls go to a thread.
        batch.put(message)
        await asyncio.to_thread(batch.flush_full)
        return None

    def job_message(
        self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions = NO_OPTIONS
    ) -> OutgoingMessage:
        """The message of a job, checked and not sent."""
        options = with_delay(options, self.env.clock)
        content_type = options.content_type or self.env.codec
        body, context = self._encode(job_name, job_kwargs, content_type)
        return self._message(job_name, body, context, options)

    def _send_job(self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions) -> str | None:
        content_type = options.content_type or self.env.codec
        body, context = self._encode(job_name, job_kwargs, content_type)
        if getattr(self.add_raw_job, "__func__", None) is JobQueue.add_raw_job:
            return self.send_message(self._message(job_name, body, context, options))
        return self.add_raw_job(
            job_name,
            body,
            context,
            content_type,
            options.delay_seconds,
            options.deduplication_id,
            options.group_id,
        )

    def _encode(self, job_name: str, job_kwargs: dict[str, Any], content_type: str) -> tuple[str, str]:
        codec = get_codec(content_type)
        try:
            return codec.serialize(job_kwargs), codec.serialize(self.env.context.to_dict())
        except SerializationError as error:
            raise SerializationError(
                f"job {self.name}.{job_name}: {error}", argument=error.argument
            ) from error
        except Exception as error:
            raise SerializationError(
                f"job {self.name}.{job_name}: codec {content_type!r} failed: {type(error).__name__}: {error}"
            ) from error

    def _message(self, job_name: str, body: str, context: str, options: JobOptions) -> OutgoingMessage:
        where = f"job {job_name!r} for queue {self.name!r}"
        attributes: Mapping[str, Mapping[str, Any]] = {
            "ContentType": string_attribute(options.content_type or self.env.codec),
            "JobContext": string_attribute(context),
            "JobName": string_attribute(job_name),
        }
        check_job_attributes(attributes, where)
        return make_message(
            self,
            body,
            attributes,
            where,
            delay_seconds=options.delay_seconds,
            deduplication_id=options.deduplication_id,
            group_id=options.group_id,
            job_name=job_name,
            inline=options.inline,
        )

    # Processing

    def process_message_fallback(self, job_name: str | None) -> Any:
        """What becomes of a message whose job has no processor: it is tried again later."""
        logger.error(
            "Could not find an SQS processor for %s.%s. Has it been registered correctly?",
            self.name,
            job_name,
            extra={"queue_name": self.name, "job_name": job_name},
        )
        return False

    def unknown_job(self, message: Message, job_name: str | None) -> Outcome:
        """The outcome of a message whose job has no processor."""
        result = self.process_message_fallback(job_name)
        if result is False:
            return Failed(NoProcessorError(f"no processor is registered for {self.name}.{job_name}"))
        return outcome_of_result(result, [message], f"{self.name}.{job_name}")

    @property
    def has_processors(self) -> bool:
        return bool(self.processors or self.event_routes) or self.overrides_process_message

    @property
    def has_async_processors(self) -> bool:
        runners = (*self.processors.values(), *self.event_routes)
        return any(getattr(runner, "is_async", False) for runner in runners)

    def _settings_by_job(self) -> dict[str, JobSettings]:
        settings: dict[str, JobSettings] = self.__dict__.setdefault("_job_settings_by_name", {})
        return settings

    def _job_settings(self, job_name: str) -> JobSettings | None:
        return self._settings_by_job().get(job_name)

    def _make_handler(self) -> Any:
        from sqs_workers.queues.event_handler import EnvelopeHandler
        from sqs_workers.queues.handlers import JobHandler

        wrapped = self.settings.envelope is not None or "_events" in self.__dict__
        return EnvelopeHandler(self) if wrapped else JobHandler(self)
