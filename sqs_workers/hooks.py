"""Events of a worker's life, and the registry of those who watch them.

A hook gets one frozen dataclass. A hook that raises is logged and never breaks a message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqs_workers.exceptions import ConfigurationError

__all__ = [
    "Event",
    "HookRegistry",
    "JobDeadLettered",
    "JobDiscarded",
    "JobFailed",
    "JobPostponed",
    "JobRetried",
    "JobStarted",
    "JobSucceeded",
    "LeaseLost",
    "MessageEvent",
    "MessageReceived",
    "MessageReleased",
    "MessageSettled",
    "PollFailed",
    "VisibilityExtended",
    "WorkerStarted",
    "WorkerStopped",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a worker.

    :ivar queue_name: name of the queue as ``env.queue(...)`` takes it.
    """

    queue_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent(Event):
    """Something that happened to one message.

    :ivar message_id: id that SQS gave the message.
    :ivar job_name: name of the job; empty if unknown or on a raw queue.
    :ivar receive_count: which attempt it is, counted by SQS from 1.
    """

    message_id: str
    job_name: str = ""
    receive_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(MessageEvent):
    """A receive brought the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(MessageEvent):
    """The handler is about to be called.

    :ivar waited: seconds between receipt and now.
    """

    waited: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSucceeded(MessageEvent):
    """The handler returned.

    :ivar duration: seconds that it ran.
    """

    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(MessageEvent):
    """The handler raised, timed out, or the message could not be decoded.

    :ivar duration: seconds that it ran.
    :ivar error: the exception.
    :ivar permanent: whether no retry will be made.
    """

    duration: float
    error: BaseException
    permanent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPostponed(MessageEvent):
    """The job is not due yet: a new message carries it on, and this one is acknowledged.

    :ivar until: when it is due, in seconds since the Unix epoch.
    """

    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRetried(MessageEvent):
    """The message will become visible again.

    :ivar delay: seconds until then.
    :ivar requested: the handler raised ``RetryJob``; ``False`` after a failure.
    """

    delay: int
    requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeadLettered(MessageEvent):
    """The message was copied to a dead-letter queue by the failure policy.

    :ivar target: name of the dead-letter queue.
    :ivar reason: why, for instance ``permanent error`` or ``attempts used up``.
    :ivar error_type: class name of the exception.
    """

    target: str
    reason: str
    error_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(MessageEvent):
    """The message was deleted by the failure policy without having succeeded.

    :ivar reason: why, for instance ``permanent error`` or ``attempts used up``.
    :ivar error_type: class name of the exception.
    """

    reason: str
    error_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReleased(MessageEvent):
    """The message was given back unrun.

    :ivar reason: for instance ``stopping``.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityExtended(MessageEvent):
    """The heartbeat extended the visibility.

    :ivar seconds: how long the message stays hidden from now.
    """

    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(MessageEvent):
    """The visibility could not be extended: another worker may get the message too.

    :ivar code: SQS's error code, or the name of the exception.
    """

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSettled(MessageEvent):
    """SQS took the acknowledgement or the change of visibility, or the message was left.

    :ivar action: ``delete``, ``change_visibility``, ``leave`` or ``move``.
    :ivar ok: ``False`` if SQS refused it to the end.
    """

    action: str
    ok: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed(Event):
    """A receive failed and will be tried again.

    :ivar kind: ``throttled``, ``network``, ``server``, ``credentials``, ``denied``, ``missing`` or ``other``.
    :ivar error: the exception.
    :ivar delay: seconds until the next try.
    """

    kind: str
    error: BaseException
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Event):
    """The worker begins to poll the queue.

    :ivar concurrency: jobs that may run at once.
    """

    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(Event):
    """The worker has settled everything it could and returns.

    :ivar reason: for instance ``SIGTERM`` or the repr of the shutdown policy.
    :ivar duration: seconds from the request to stop until now.
    :ivar abandoned: what was left behind, as text.
    """

    reason: str
    duration: float
    abandoned: tuple[str, ...] = ()


EventT = TypeVar("EventT", bound=Event)


class HookRegistry:
    """Who watches which events. Safe to add to while a worker runs."""

    __slots__ = ("_by_type",)

    def __init__(self) -> None:
        self._by_type: dict[type[Event], tuple[Callable[[Any], object], ...]] = {}

    def add(self, event_type: type[EventT], hook: Callable[[EventT], object]) -> Callable[[EventT], object]:
        """Call ``hook`` with each event of ``event_type`` and its subclasses; returns the hook."""
        cls: Any = event_type
        if not (isinstance(cls, type) and issubclass(cls, Event)):
            raise ConfigurationError(
                f"a hook needs the class of its events (sqs_workers.hooks.JobFailed, for instance), not "
                f"{event_type!r}"
            )
        for cls in _with_subclasses(event_type):
            self._by_type[cls] = (*self._by_type.get(cls, ()), hook)
        return hook

    def remove(self, event_type: type[EventT], hook: Callable[[EventT], object]) -> None:
        """Undo :meth:`add`; unknown hooks are ignored."""
        for cls in _with_subclasses(event_type):
            self._by_type[cls] = tuple(other for other in self._by_type.get(cls, ()) if other != hook)

    def wants(self, event_type: type[Event]) -> bool:
        """Whether anybody watches ``event_type``: lets the hot path skip building the event."""
        return bool(self._by_type.get(event_type))

    def emit(self, event: Event) -> None:
        """Call the hooks of this event; one that raises is logged and the others still run."""
        for hook in self._by_type.get(type(event), ()):
            try:
                hook(event)
            except BaseException as error:
                # Ctrl-C comes to the main thread alone. Elsewhere it is a hook's own doing, like any other.
                if (
                    isinstance(error, KeyboardInterrupt)
                    and threading.current_thread() is threading.main_thread()
                ):
                    raise
                logger.exception(
                    "Hook %r failed on %s",
                    hook,
                    type(event).__name__,
                    extra={"queue_name": event.queue_name},
                )


def _with_subclasses(event_type: type[Event]) -> list[type[Event]]:
    found = [event_type]
    for subclass in event_type.__subclasses__():
        found.extend(_with_subclasses(subclass))
    return found
