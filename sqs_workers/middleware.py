"""Code that wraps every job.

A middleware gets the job and what comes next, and decides whether, when and in what to call it::

    def in_transaction(job, call_next):
        with engine.begin():
            return call_next(job)

What the handler raises passes through it; not calling ``call_next`` skips the job, which then counts as
succeeded.
``job.kwargs`` and ``job.context`` are decoded; if they cannot be, ``call_next`` raises the reason.

Jobs that are ``async def`` need middleware that is ``async def``; :class:`Both` joins the two forms of one::

    SQSEnv(middleware=[Both(in_transaction, in_async_transaction)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.job import Job
from sqs_workers.signatures import is_async_callable

__all__ = ["AsyncMiddleware", "Both", "Middleware", "async_forms", "sync_forms", "wrap"]

Middleware: TypeAlias = Callable[[Job, Callable[[Job], Any]], Any]
AsyncMiddleware: TypeAlias = Callable[[Job, Callable[[Job], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True)
class Both:
    """One middleware in two forms.

    :param sync: wraps plain functions.
    :param asynchronous: wraps ``async def`` functions.
    """

    sync: Middleware
    asynchronous: AsyncMiddleware

    def __call__(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        return self.sync(job, call_next)


def sync_forms(middleware: Sequence[Any], what: str) -> tuple[Any, ...]:
    """The forms that wrap plain functions.

    :raises ConfigurationError: one has no such form; it would be skipped in silence.
    """
    for item in middleware:
        if not isinstance(item, Both) and is_async_callable(item):
            raise ConfigurationError(
                f"middleware {item!r} is async and {what} is a plain function: join it with a plain form in "
                "sqs_workers.middleware.Both, or make the job async"
            )
    return tuple(item.sync if isinstance(item, Both) else item for item in middleware)


def async_forms(middleware: Sequence[Any], what: str) -> tuple[Any, ...]:
    """The forms that wrap ``async def`` functions.

    :raises ConfigurationError: one has no such form; it would block the event loop or be skipped in silence.
    """
    for item in middleware:
        if not isinstance(item, Both) and not is_async_callable(item):
            raise ConfigurationError(
                f"middleware {item!r} is a plain function and {what} is async: join it with an async form in "
                "sqs_workers.middleware.Both"
            )
    return tuple(item.asynchronous if isinstance(item, Both) else item for item in middleware)


def wrap(middleware: Sequence[Any], call: Callable[[Job], Any]) -> Callable[[Job], Any]:
    """``call`` inside of all middleware; the first is the outermost."""
    for item in reversed(middleware):
        call = _Link(item, call)
    return call


class _Link:
    __slots__ = ("_call_next", "_middleware")

    def __init__(self, middleware: Any, call_next: Callable[[Job], Any]) -> None:
        self._middleware = middleware
        self._call_next = call_next

    def __call__(self, job: Job) -> Any:
        return self._middleware(job, self._call_next)
