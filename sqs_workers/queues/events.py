"""Processors of events, chosen by what the event says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, overload

from typing_extensions import NotRequired, Unpack

from sqs_workers.envelopes.filters import Condition, Matches, make_filter
from sqs_workers.envelopes.models import make_reader
from sqs_workers.envelopes.opened import IncomingEvent
from sqs_workers.exceptions import ConfigurationError, QueueConflictError, UndecodableMessageError
from sqs_workers.failure_policies import FailurePolicy
from sqs_workers.queues.checks import check_policy
from sqs_workers.queues.settings import JobSettings, check_common, exception_classes, merge_policies
from sqs_workers.signatures import is_async_callable

if TYPE_CHECKING:
    from sqs_workers.worker.contract import JobPolicies

__all__ = ["EventRoute", "Events", "RouteOptions", "Unmatched", "events_of"]

T = TypeVar("T")
R = TypeVar("R")
Handler: TypeAlias = Callable[[IncomingEvent[T]], R]
InboxHandler: TypeAlias = Callable[[Any, IncomingEvent[T]], R]
EventId: TypeAlias = "str | Callable[[IncomingEvent[Any]], str] | None"
Unmatched: TypeAlias = "Literal['leave', 'discard', 'fail'] | Callable[[IncomingEvent[Any]], Any]"

_WORDS = ("leave", "discard", "fail")


class RecordsEvents(Protocol):
    """What a processor of events asks of an inbox."""

    def run(self, event_id: str, payload: object, handler: Callable[[Any], Any]) -> Any:
        """Run ``handler`` in a transaction that records the event, unless it is recorded."""
        ...

    def arun(self, event_id: str, payload: object, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for a coroutine function."""
        ...


class RouteOptions(TypedDict):
    """Options of a processor of events."""

    source: NotRequired[Condition | None]
    """Condition on ``event.source``; see :mod:`sqs_workers.envelopes.filters`."""
    subject: NotRequired[Condition | None]
    """Condition on ``event.subject``."""
    attributes: NotRequired[Mapping[str, Condition] | None]
    """Conditions on message attributes."""
    name: NotRequired[str | None]
    """For logs and hooks; by default the type, or the name of the function."""
    timeout: NotRequired[float | None]
    """Seconds that the function may run."""
    max_attempts: NotRequired[int | None]
    """Attempts until the failure policy applies."""
    backoff_policy: NotRequired[Any]
    """When a failed event is tried again."""
    failure_policy: NotRequired[FailurePolicy | None]
    """What happens to an event that has failed for good."""
    permanent_errors: NotRequired[Any]
    """Exception classes that no retry can help."""


@dataclass(frozen=True, eq=False)
class EventRoute:
    """Which events a function takes, and how it is called.

    :param name: for logs, hooks and metrics, where jobs have theirs.
    :param conditions: attribute of the event -> condition; all have to hold.
    :param attributes: message attribute -> condition; all have to hold.
    :param read: makes ``event.data`` an instance of the model.
    """

    name: str
    fn: Callable[..., Any]
    is_async: bool
    settings: JobSettings
    conditions: Mapping[str, Matches]
    attributes: Mapping[str, Matches]
    read: Callable[[Any], Any] | None = None
    inbox: RecordsEvents | None = None
    event_id: EventId = None

    def matches(self, event: IncomingEvent[Any]) -> bool:
        """Whether the event is for this function."""
        return all(holds(getattr(event, name) or None) for name, holds in self.conditions.items()) and all(
            holds(event.attributes.get(name)) for name, holds in self.attributes.items()
        )

    @property
    def takes_all(self) -> bool:
        """Whether there is no condition."""
        return not self.conditions and not self.attributes

    def call(self, event: IncomingEvent[Any]) -> Any:
        """Call the function; through the inbox, if it has one."""
        ready = self._prepared(event)
        if self.inbox is None:
            return self.fn(ready)
        return self.inbox.run(ready.event_id, ready.payload, lambda tx: self.fn(tx, ready))

    async def acall(self, event: IncomingEvent[Any]) -> Any:
        """As :meth:`call`, for an ``async def`` function."""
        ready = self._prepared(event)
        if self.inbox is None:
            return await self.fn(ready)
        return await self.inbox.arun(ready.event_id, ready.payload, lambda tx: self.fn(tx, ready))

    def _prepared(self, event: IncomingEvent[Any]) -> IncomingEvent[Any]:
        if isinstance(self.event_id, str):
            event = replace(event, event_id=_member(event, self.event_id))
        elif self.event_id is not None:
            event = replace(event, event_id=self.event_id(event))
        return event if self.read is None else replace(event, data=self.read(event.data))


def _member(event: IncomingEvent[Any], name: str) -> str:
    value = event.data.get(name) if isinstance(event.data, dict) else None
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise UndecodableMessageError(f"the event has no {name!r}, which is to be its id")
    return str(value)


class Events:
    """The events of a queue and the functions that process them.

    ::

        events = sqs.queue("orders", envelope="auto").events()

        @events.on("order.paid", source="shop", model=OrderPaid)
        def paid(event: IncomingEvent[OrderPaid]): ...

    The first function whose conditions all hold gets the event.
    """

    def __init__(self, queue: Any, unmatched: Unmatched = "leave") -> None:
        self._queue = queue
        self._policies: dict[tuple[int, int], tuple[EventRoute, JobPolicies]] = {}
        self.routes: list[EventRoute] = []
        self.unmatched = unmatched
        self._fallback: EventRoute | None = None
        if unmatched not in _WORDS:
            if not callable(unmatched):
                raise ConfigurationError(
                    f"unmatched of queue {queue.name!r} must be {', '.join(map(repr, _WORDS))} or a function, "
                    f"not {unmatched!r}"
                )
            self._fallback = EventRoute(
                "unmatched", unmatched, is_async_callable(unmatched), JobSettings(), {}, {}
            )

    def __repr__(self) -> str:
        return f"<Events of {self._queue.name}: {len(self.routes)} processor(s)>"

    @overload
    def on(
        self,
        event_type: str | Sequence[str] | None = None,
        /,
        *,
        model: type[T],
        inbox: None = None,
        event_id: EventId = None,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Handler[T, R]], Handler[T, R]]: ...

    @overload
    def on(
        self,
        event_type: str | Sequence[str] | None = None,
        /,
        *,
        model: type[T],
        inbox: RecordsEvents,
        event_id: EventId = None,
        **options: Unpack[RouteOptions],
    ) -> Callable[[InboxHandler[T, R]], InboxHandler[T, R]]: ...

    @overload
    def on(
        self,
        event_type: str | Sequence[str] | None = None,
        /,
        *,
        model: None = None,
        inbox: RecordsEvents | None = None,
        event_id: EventId = None,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Callable[..., R]], Callable[..., R]]: ...

    def on(
        self,
        event_type: str | Sequence[str] | None = None,
        /,
        *,
        model: Any = None,
        inbox: RecordsEvents | None = None,
        event_id: EventId = None,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Decorator: the function gets the events that meet all conditions. It stays what it was.

        :param event_type: the event's type, or several; ``order.*`` stands for all that begin with
            ``order.``.
        :param model: a dataclass, TypedDict or pydantic model that ``event.data`` becomes.
        :param inbox: an :class:`~sqs_workers.sql.inbox.Inbox`: the function gets its transaction as first
            argument, and runs once for each event id.
        :param event_id: the member of the data that is the event's id, or a function of the event; by default
            ``event.event_id``.
        :param options: see :class:`RouteOptions`.
        :raises ConfigurationError: an option that cannot work, or a function that no event would reach.
        """
        given: dict[str, Any] = dict(options)
        unknown = given.keys() - RouteOptions.__annotations__.keys()
        if unknown:
            raise ConfigurationError(
                f"a processor of events of queue {self._queue.name!r} has no option "
                f"{', '.join(sorted(unknown))}; known are {', '.join(sorted(RouteOptions.__annotations__))}"
            )
        names: Any = event_type
        where = f"a processor of events of queue {self._queue.name!r}"
        if callable(names):
            raise ConfigurationError(
                f'{where} is declared by a call: @events.on("order.paid"), or @events.on()'
            )
        check_policy("inbox", inbox, where)
        conditions = {} if names is None else {"type": _type_filter(names)}
        for key in ("source", "subject"):
            if given.get(key) is not None:
                conditions[key] = make_filter(given[key])
        attributes = {key: make_filter(value) for key, value in (given.get("attributes") or {}).items()}
        reader = None if model is None else make_reader(model)

        def connect(function: Callable[..., R]) -> Callable[..., R]:
            name = given.get("name") or (names if isinstance(names, str) else _name_of(function))
            settings = _settings(given, f"{self._queue.name}.{name}")
            is_async = is_async_callable(function)
            self._add(
                EventRoute(
                    name, function, is_async, settings, conditions, attributes, reader, inbox, event_id
                )
            )
            return function

        return connect

    def _add(self, route: EventRoute) -> None:
        where = f"{self._queue.name}.{route.name}"
        if not callable(route.fn):
            raise ConfigurationError(f"the processor of {where} must be a function, not {route.fn!r}")
        _check_takes(route, where)
        earlier = next((other for other in self.routes if other.takes_all), None)
        if earlier is not None:
            raise ConfigurationError(
                f"no event would reach {where}: {earlier.name!r}, declared before, takes all. Declare it last"
            )
        self.routes.append(route)

    @property
    def all_routes(self) -> tuple[EventRoute, ...]:
        """All processors, that of unmatched events included."""
        return tuple(self.routes) if self._fallback is None else (*self.routes, self._fallback)

    def find(self, event: IncomingEvent[Any]) -> EventRoute | None:
        """The processor of an event, or ``None``."""
        return next((route for route in self.routes if route.matches(event)), self._fallback)

    def policies(self, route: EventRoute) -> JobPolicies:
        """Policies of a processor: its own, else the queue's, else the environment's."""
        queue = self._queue
        key = id(route), id(queue.backoff_policy)
        found = self._policies.get(key)
        if found is None:
            scopes = [route.settings, queue.settings, queue.env.settings]
            found = self._policies[key] = route, merge_policies(queue.backoff_policy, scopes)
        return found[1]

    def copy_to(self, queue: Any) -> None:
        """Let another queue process the same events."""
        other = events_of(queue, None)
        for route in self.routes:
            if route not in other.routes:
                other._add(route)


def _check_takes(route: EventRoute, where: str) -> None:
    """Refuse a function that no event could be given to."""
    given = ("event",) if route.inbox is None else ("transaction", "event")
    try:
        signature = inspect.signature(route.fn)
    except (TypeError, ValueError):
        # Some callables written in C do not tell.
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise ConfigurationError(
            f"the processor of {where} is called with {' and '.join(given)}, and cannot be: {error}"
        ) from None


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "event"))


def _settings(given: Mapping[str, Any], where: str) -> JobSettings:
    check_common(given.get("max_attempts"), given.get("timeout"), where)
    return JobSettings(
        failure_policy=given.get("failure_policy"),
        max_attempts=given.get("max_attempts"),
        timeout=given.get("timeout"),
        permanent_errors=exception_classes(given.get("permanent_errors") or (), where),
        backoff_policy=given.get("backoff_policy"),
    )


def _type_filter(event_type: Any) -> Matches:
    several = isinstance(event_type, Iterable) and not isinstance(event_type, str)
    names = list(event_type) if several else [event_type]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"the type of an event is a text, or several, not {event_type!r:.80}")
    if "*" in names:
        return lambda value: value is not None
    return make_filter([{"prefix": name[:-1]} if name.endswith("*") else name for name in names])


def events_of(queue: Any, unmatched: Unmatched | None) -> Events:
    """The events of a queue, made at the first call.

    :raises QueueConflictError: ``unmatched`` was something else before.
    """
    events: Events | None = queue.__dict__.get("_events")
    if events is None:
        events = queue.__dict__["_events"] = Events(queue, "leave" if unmatched is None else unmatched)
        # A handler made before knows nothing of events.
        queue.__dict__.pop("_handler", None)
    elif unmatched is not None and unmatched != events.unmatched:
        raise QueueConflictError(f"unmatched of queue {queue.name!r} was {events.unmatched!r} before")
    return events
