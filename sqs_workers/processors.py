"""What happens between a message and the function that runs it.

Derive from :class:`Processor` to do something around every job::

    class CustomProcessor(Processor):
        def process(self, job_kwargs, job_context):
            print(f"Processing {self.queue_name}.{self.job_name}")
            super().process(job_kwargs, job_context)

    sqs = SQSEnv(processor_maker=CustomProcessor)
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from sqs_workers.codecs import Codec, JSONCodec, get_codec
from sqs_workers.context import JobContext, SQSContext
from sqs_workers.exceptions import UndecodableMessageError, UnknownCodecError
from sqs_workers.outcome import Outcome, Postponed, Succeeded
from sqs_workers.reporting import outcome_of_error
from sqs_workers.retry import RetryJob
from sqs_workers.signatures import HandlerSignature, is_async_callable

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = [
    "DEFAULT_CONTEXT_VAR",
    "ProcessingResult",
    "Processor",
    "RetryJob",
    "call_handler",
    "get_job_content_type",
    "get_job_context",
]

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT_VAR = "context"
"""Parameter that gets the sender's context when a processor is registered with ``pass_context=True``."""


@dataclass(frozen=True)
class ProcessingResult:
    """What became of a message, for those who override ``process_message``. False unless it succeeded.

    :param success: acknowledge the message.
    :param backoff_policy: when to try again; ``None`` for the queue's policy.
    :param outcome: the same in the words of the worker; derived from the other two if it is not given.
    """

    success: bool
    backoff_policy: Any = None
    outcome: Outcome | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.success


@dataclass(eq=False)
class Processor:
    """Decodes the messages of one job and calls its function.

    :param queue: the queue that the messages come from.
    :param fn: the function.
    :param job_name: the name that messages carry.
    :param pass_context: give the sender's context to the function.
    :param context_var: as which parameter.
    """

    queue: Any
    fn: Callable[..., Any] | None = None
    job_name: str = ""
    pass_context: bool = False
    context_var: str = DEFAULT_CONTEXT_VAR

    @classmethod
    def maker(cls, **kwargs: Any) -> Callable[..., Self]:
        """A ``processor_maker`` that fills in some of the parameters."""
        return partial(cls, **kwargs)

    @property
    def queue_name(self) -> str:
        """Name of the queue as ``env.queue(...)`` takes it."""
        name: str = self.queue.name
        return name

    def process_message(self, message: Any) -> bool | ProcessingResult:
        """Decode a message and run its job; exceptions are logged.

        :returns: ``True``, or a :class:`ProcessingResult` that is false.
        """
        return as_legacy_result(self._guard([message], lambda: self._decode_and_process(message)))

    def process_messages(self, messages: Sequence[Any]) -> bool | ProcessingResult:
        """Decode messages and run them as one batch; exceptions are logged and stand for all of them.

        :returns: ``True``, or a :class:`ProcessingResult` that is false.
        """
        return as_legacy_result(self._guard(messages, lambda: self.process_batch(messages)))

    if TYPE_CHECKING:

        def process(self, job_kwargs: dict[str, Any], job_context: Any) -> Any:
            """Call the function; see below."""

        async def aprocess(self, job_kwargs: dict[str, Any], job_context: Any) -> Any:
            """As :meth:`process`, for an ``async def`` function."""

    else:
        # The default of the context is for super().process(job_kwargs) of the oldest applications. Were it part
        # of the type, every override without one would be refused.

        def process(self, job_kwargs: dict[str, Any], job_context: Any = None) -> Any:
            """Call the function. Arguments that it does not know are left out.

            :param job_kwargs: the arguments; not changed.
            :param job_context: the sender's context.
            :raises ArgumentsError: a required argument is missing.
            """
            if self.pass_context:
                job_kwargs = {**job_kwargs, self.context_var: job_context}
            return self._call(job_kwargs)

        async def aprocess(self, job_kwargs: dict[str, Any], job_context: Any = None) -> Any:
            """As :meth:`process`, for an ``async def`` function."""
            if self.pass_context:
                job_kwargs = {**job_kwargs, self.context_var: job_context}
            result = self._call(job_kwargs)
            return await result if inspect.isawaitable(result) else result

    def process_batch(self, messages: Sequence[Any]) -> Any:
        """Call the function with a list of the arguments of all messages."""
        return self.call_batch([self.batch_item(*self.decode(message)[1:]) for message in messages])

    def batch_item(self, job_kwargs: dict[str, Any], job_context: Any) -> dict[str, Any]:
        """One item of the list that a batch handler gets."""
        return {**job_kwargs, self.context_var: job_context} if self.pass_context else job_kwargs

    def call_batch(self, items: list[dict[str, Any]]) -> Any:
        """Call the function with a list of arguments."""
        assert self.fn is not None
        return self.fn(items)

    def copy(self, **kwargs: Any) -> Self:
        """The same processor with some parameters changed, for another queue for instance."""
        return replace(self, **kwargs)

    @staticmethod
    def deserialize_message(message: Any) -> tuple[str, dict[str, Any], Any]:
        """Content type, arguments and context of a message.

        :raises UnknownCodecError: the message names no codec that is known.
        """
        content_type = get_job_content_type(message)
        if content_type is None:
            raise UndecodableMessageError(
                f"message {message.message_id} has no attribute ContentType: it was not sent as a job"
            )
        codec = get_codec(content_type)
        return content_type, codec.deserialize(message.body), get_job_context(message, codec)

    def decode(self, message: Any) -> tuple[str, dict[str, Any], Any]:
        """As :meth:`deserialize_message`, within what the worker accepts.

        :raises UndecodableMessageError: the message cannot be read, or its codec is not accepted.
        """
        check_accepted = getattr(self.queue, "check_accepted", None)
        if check_accepted is not None:
            check_accepted(get_job_content_type(message))
        try:
            content_type, job_kwargs, job_context = self.deserialize_message(message)
        except UndecodableMessageError:
            raise
        except UnknownCodecError as error:
            raise UndecodableMessageError(f"message {message.message_id}: {error}") from error
        except Exception as error:
            raise UndecodableMessageError(
                f"message {message.message_id} of {self.queue.name}.{self.job_name} cannot be decoded: "
                f"{type(error).__name__}"
            ) from error
        if not isinstance(job_kwargs, dict):
            raise UndecodableMessageError(
                f"message {message.message_id} of {self.queue.name}.{self.job_name} carries no named "
                f"arguments but a {type(job_kwargs).__name__}"
            )
        return content_type, job_kwargs, job_context

    @property
    def is_async(self) -> bool:
        """Whether the function is ``async def``."""
        cached = self.__dict__.get("_cached_signature")
        if cached is not None and cached[0].fn is self.fn:
            asynchronous: bool = cached[1]
            return asynchronous
        return self.fn is not None and self._signature()[1]

    def _signature(self) -> tuple[HandlerSignature, bool]:
        # Not in __init__: subclasses may have one of their own, and tests may replace fn.
        cached = self.__dict__.get("_cached_signature")
        if cached is None or cached[0].fn is not self.fn:
            assert self.fn is not None
            injected = self.context_var if self.pass_context else None
            cached = HandlerSignature(self.fn, injected), is_async_callable(self.fn)
            self.__dict__["_cached_signature"] = cached
            self.__dict__["_named_drops"] = set()
        result: tuple[HandlerSignature, bool] = cached
        return result

    def _call(self, arguments: dict[str, Any]) -> Any:
        assert self.fn is not None
        cached = self.__dict__.get("_cached_signature")
        if cached is None or cached[0].fn is not self.fn:
            cached = self._signature()
        args, kwargs, dropped = cached[0].for_call(arguments)
        if dropped:
            # The context is offered to every function and need not be taken.
            news = set(dropped) - self.__dict__["_named_drops"] - {self.context_var}
            if news and not self.__dict__["_named_drops"]:
                logger.warning(
                    "Job %s.%s was sent with arguments that its function does not know; they are left "
                    "out: %s",
                    self.queue.name,
                    self.job_name,
                    ", ".join(sorted(news)),
                    extra={"queue_name": self.queue.name, "job_name": self.job_name},
                )
                self.__dict__["_named_drops"] |= news
        return self.fn(*args, **kwargs)

    def _decode_and_process(self, message: Any) -> Any:
        _, job_kwargs, job_context = self.decode(message)
        if not self.is_async:
            return self.invoke(job_kwargs, job_context)
        from sqs_workers.queues.aio import run_to_end

        return run_to_end(lambda: self.ainvoke(job_kwargs, job_context))

    def invoke(self, job_kwargs: dict[str, Any], job_context: Any) -> Any:
        """Call :meth:`process` as the subclass declares it, with or without the context."""
        if overrides(type(self)).process_without_context:
            without_context: Any = self.process
            return without_context(job_kwargs)
        return self.process(job_kwargs, job_context)

    async def ainvoke(self, job_kwargs: dict[str, Any], job_context: Any) -> Any:
        """Await :meth:`aprocess`, or :meth:`process` of a subclass that made it ``async``."""
        own = overrides(type(self))
        if own.process and not own.aprocess:
            return await self.invoke(job_kwargs, job_context)
        return await self.aprocess(job_kwargs, job_context)

    def _guard(self, messages: Sequence[Message], call: Callable[[], Any]) -> Outcome:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the one place where a job's exceptions end
            permanent = getattr(self.queue, "permanent_errors_of", lambda name: ())(self.job_name)
            return outcome_of_error(
                error, messages, queue_name=self.queue.name, job_name=self.job_name, permanent=permanent
            )
        return Succeeded()


@dataclass(frozen=True)
class Overrides:
    """Which methods of :class:`Processor` a subclass has made its own."""

    process: bool
    aprocess: bool
    process_without_context: bool
    process_message: bool
    process_messages: bool
    process_batch: bool
    deserialize_message: bool


_NOTHING: dict[str, Any] = {}
_OVERRIDES: dict[type, Overrides] = {}


def overrides(cls: type) -> Overrides:
    """What a subclass of :class:`Processor` overrides, looked up once a class."""
    found = _OVERRIDES.get(cls)
    if found is None:
        found = _OVERRIDES[cls] = _find_overrides(cls)
    return found


def _find_overrides(cls: type) -> Overrides:
    def own(name: str) -> bool:
        return getattr(cls, name, None) is not getattr(Processor, name)

    return Overrides(
        process=own("process"),
        aprocess=own("aprocess"),
        process_without_context=own("process") and not _takes_two(cls),
        process_message=own("process_message"),
        process_messages=own("process_messages"),
        process_batch=own("process_batch"),
        deserialize_message=own("deserialize_message"),
    )


def _takes_two(cls: Any) -> bool:
    try:
        inspect.signature(cls.process).bind(None, {}, None)
    except TypeError:
        return False
    return True


def as_legacy_result(outcome: Outcome) -> bool | ProcessingResult:
    """An outcome as ``process_message`` returns it."""
    return True if isinstance(outcome, (Succeeded, Postponed)) else ProcessingResult(False, None, outcome)


def get_job_content_type(job_message: Any) -> str | None:
    """Name of the codec that a message names, or ``None``."""
    attribute = (job_message.message_attributes or _NOTHING).get("ContentType") or _NOTHING
    content_type: str | None = attribute.get("StringValue")
    return content_type


def get_job_context(job_message: Any, codec: Codec) -> SQSContext:
    """The sender's context; empty if the message has none."""
    attribute = (job_message.message_attributes or _NOTHING).get("JobContext") or _NOTHING
    serialized = attribute.get("StringValue")
    if not serialized or (serialized == "{}" and type(codec) is JSONCodec):
        return JobContext()
    return JobContext.from_dict(codec.deserialize(serialized))


def call_handler(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call ``fn`` without the keyword arguments that it does not know."""
    if args:
        return fn(*args, **kwargs)
    positional, named, _ = HandlerSignature(fn).for_call(kwargs)
    return fn(*positional, **named)
