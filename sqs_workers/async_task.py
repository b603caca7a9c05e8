"""Functions registered as processors: called later, somewhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypedDict, cast

from typing_extensions import NotRequired, ParamSpec, TypeVar

from sqs_workers.delays import check_eta
from sqs_workers.signatures import HandlerSignature

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.sending import BatchBlock

__all__ = [
    "AsyncTask",
    "AsyncTaskDelayArgs",
    "BakedAsyncTask",
    "JobOptions",
    "TaskOptions",
    "TaskQueue",
]

P = ParamSpec("P")
R = TypeVar("R", default=Any)


class AsyncTaskDelayArgs(TypedDict):
    """Options that ``delay`` takes beside the arguments of the function.

    A function may declare them for the type checker::

        def send(to: str, **_delay_args: Unpack[AsyncTaskDelayArgs]) -> None: ...

    They never reach the function. :meth:`AsyncTask.options` is the typed way that needs no declaration.
    """

    _content_type: NotRequired[str]
    _delay_seconds: NotRequired[float]
    _deduplication_id: NotRequired[str]
    _group_id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How a job is sent.

    :param content_type: name of the codec; ``None`` for that of the environment.
    :param delay_seconds: seconds (or a ``timedelta``) until the job is due, 366 days at most; ``None`` leaves
        it to the queue. On a FIFO queue by the environment's scheduler alone.
    :param deduplication_id: FIFO queues only.
    :param group_id: message group, ``default`` on a FIFO queue.
    :param eta: when the job is due, instead of ``delay_seconds``.
    :param inline: keep the body in the message, and never in a store.
    """

    content_type: str | None = None
    delay_seconds: float | timedelta | None = None
    deduplication_id: str | None = None
    group_id: str | None = None
    eta: datetime | None = None
    inline: bool = False


NO_OPTIONS = JobOptions()

_OPTION_FIELDS = {
    "_content_type": "content_type",
    "_delay_seconds": "delay_seconds",
    "_deduplication_id": "deduplication_id",
    "_group_id": "group_id",
}
_OPTION_NAMES = frozenset(_OPTION_FIELDS)


class TaskQueue(Protocol):
    """What a task needs of its queue."""

    @property
    def name(self) -> str:
        """Name as ``env.queue(...)`` takes it."""
        ...

    @property
    def takes_batches(self) -> bool:
        """Whether handlers of the queue get lists of jobs."""
        ...

    def enqueue(self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions) -> str | None:
        """Send a job; returns the message id, or ``None`` in a batch."""
        ...

    async def aenqueue(self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions) -> str | None:
        """Send a job without blocking the event loop."""
        ...

    def job_message(self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions) -> OutgoingMessage:
        """The message of a job, checked and not sent."""
        ...

    def add_batch(self, *, flush_on_error: bool = False, pack_groups: bool = False) -> BatchBlock:
        """Collect the jobs of a ``with`` block."""
        ...


class AsyncTask(Generic[P, R]):
    """A function that runs in a worker.

    Made by ``@queue.processor(...)``. :meth:`delay` puts a job on the queue, :meth:`run` calls the function
    here and now. Calling the task itself is an error: it would be mistaken for one of the two.

    :ivar queue: the queue that its jobs go to.
    :ivar job_name: the name that messages carry.
    :ivar processor: the function; also ``__wrapped__``.
    """

    def __init__(
        self,
        queue: TaskQueue,
        job_name: str,
        processor: Callable[P, R],
        *,
        injected: str | None = None,
    ) -> None:
        self.queue: Any = queue
        self.job_name = job_name
        self.processor = processor
        self._target = queue
        self._arguments = HandlerSignature(processor, injected)
        self.__wrapped__ = processor
        self.__doc__ = processor.__doc__
        self.__name__: str = getattr(processor, "__name__", job_name)
        self.__qualname__: str = getattr(processor, "__qualname__", self.__name__)
        self.__module__: str = getattr(processor, "__module__", None) or __name__
        if self._arguments.signature is not None:
            self.__signature__ = self._arguments.signature

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        raise RuntimeError(
            f"Async task {self._target.name}.{self.job_name} called synchronously (probably, by mistake). "
            "Use either AsyncTask.run(...) to run the task synchronously or AsyncTask.delay(...) to add "
            "it to the queue"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._target.name}.{self.job_name}>"

    def run(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now, whatever the queue.

        On a queue that takes batches the function gets a list of this one job.

        :raises TypeError: the arguments do not fit.
        """
        if self._target.takes_batches:
            _only_keywords(args)
            return cast("Callable[..., R]", self.processor)([kwargs])
        return self.processor(*args, **kwargs)

    def batch(self, *, flush_on_error: bool = False, pack_groups: bool = False) -> BatchBlock:
        """Collect the jobs that a block adds to the queue and send them in as few calls as possible.

        ``with task.batch():``, or ``async with task.batch():``, which does not hold up the event loop.

        :param flush_on_error: also send what still waits when the block raised; by default it is forgotten.
        :param pack_groups: on a FIFO queue, let a call carry several messages of a group: fewer calls, but
            their order is lost if SQS refuses one of them and takes the next.
        :raises SQSBatchError: with every job that SQS did not take.
        """
        # Only what is asked for: a queue of the user's may have an add_batch() without options.
        options = {"flush_on_error": flush_on_error, "pack_groups": pack_groups}
        return self._target.add_batch(**{name: True for name, value in options.items() if value})

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Put a job on the queue.

        :returns: the message id; ``None`` in a batch.
        :raises TypeError: the arguments do not fit the function.
        :raises SerializationError: the codec cannot carry an argument.
        :raises InvalidMessageError: an option, or the size of the message, is not allowed.
        """
        options = NO_OPTIONS if _OPTION_NAMES.isdisjoint(kwargs) else _pop_options(kwargs)
        return self._target.enqueue(self.job_name, self._bind(args, kwargs), options)

    async def adelay(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As :meth:`delay`, without blocking the event loop."""
        options = NO_OPTIONS if _OPTION_NAMES.isdisjoint(kwargs) else _pop_options(kwargs)
        return await self._target.aenqueue(self.job_name, self._bind(args, kwargs), options)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> tuple[str, OutgoingMessage]:
        """Name of the queue and the message that :meth:`delay` would send, checked and not sent.

        :raises TypeError: the arguments do not fit the function.
        :raises SerializationError: the codec cannot carry an argument.
        :raises InvalidMessageError: an option, or the size of the message, is not allowed.
        """
        options = NO_OPTIONS if _OPTION_NAMES.isdisjoint(kwargs) else _pop_options(kwargs)
        message = self._target.job_message(self.job_name, self._bind(args, kwargs), options)
        return self._target.name, message

    def bake(self, /, *args: P.args, **kwargs: P.kwargs) -> BakedAsyncTask:
        """The task together with its arguments, to be sent later.

        :raises TypeError: the arguments do not fit the function.
        """
        self._bind(args, {name: value for name, value in kwargs.items() if name not in _OPTION_NAMES})
        return BakedAsyncTask(self, args, kwargs)

    def options(
        self,
        *,
        delay: float | timedelta | None = None,
        eta: datetime | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
        codec: str | None = None,
    ) -> TaskOptions[P]:
        """How the next job is sent: ``task.options(delay=60).delay(...)``.

        :param delay: seconds (or a ``timedelta``) until the job is due, 366 days at most. Above 900 seconds a
            schedule sends the message (``SQSEnv(scheduler=...)``), or messages follow one another. On a
            FIFO queue only a schedule can.
        :param eta: when the job is due, instead of ``delay``: a datetime with a time zone. A time that has
            passed means now.
        :param group_id: message group.
        :param deduplication_id: FIFO queues only.
        :param codec: name of the codec.
        :raises InvalidMessageError: ``eta`` has no time zone, or is given beside ``delay``.
        """
        if eta is not None:
            eta = check_eta(eta, delay)
        return TaskOptions(self, JobOptions(codec, delay, deduplication_id, group_id, eta))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self._target.takes_batches:
            # The function's own signature is that of a list.
            _only_keywords(args)
            return kwargs
        return self._arguments.bind(args, kwargs)


class TaskOptions(Generic[P]):
    """A task with options for its next job."""

    def __init__(self, task: AsyncTask[P, Any], options: JobOptions) -> None:
        self._task = task
        self._options = options

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As :meth:`AsyncTask.delay`."""
        task = self._task
        return task._target.enqueue(task.job_name, task._bind(args, kwargs), self._options)

    async def adelay(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As :meth:`AsyncTask.adelay`."""
        task = self._task
        return await task._target.aenqueue(task.job_name, task._bind(args, kwargs), self._options)

    def prepare(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[str, OutgoingMessage]:
        """As :meth:`AsyncTask.prepare`."""
        task = self._task
        return task._target.name, task._target.job_message(
            task.job_name, task._bind(args, kwargs), self._options
        )

    def __repr__(self) -> str:
        return f"<{self._task!r} with {self._options}>"


class BakedAsyncTask:
    """A task together with its arguments."""

    def __init__(
        self, async_task: AsyncTask[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.async_task = async_task
        self.args = args
        self.kwargs = kwargs

    def __call__(self) -> NoReturn:
        self.async_task(*self.args, **self.kwargs)

    def delay(self) -> str | None:
        """Put the job on the queue; returns the message id, or ``None`` in a batch."""
        return self.async_task.delay(*self.args, **self.kwargs)

    async def adelay(self) -> str | None:
        """As :meth:`delay`, without blocking the event loop."""
        return await self.async_task.adelay(*self.args, **self.kwargs)

    def __repr__(self) -> str:
        # The arguments stay out of logs.
        return f"BakedAsyncTask({self.async_task!r}, ...)"


def _pop_options(kwargs: dict[str, Any]) -> JobOptions:
    return JobOptions(**{field: kwargs.pop(name) for name, field in _OPTION_FIELDS.items() if name in kwargs})


def _only_keywords(args: tuple[Any, ...]) -> None:
    if args:
        raise TypeError("Must use keyword arguments only for batch read queues")
