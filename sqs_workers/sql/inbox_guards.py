"""What stands around the transaction of an inbox: whose error it is, and no waiting for oneself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.errors import PayloadConflict, hide_parameters, translate

__all__ = ["Errors", "alone"]

_HELD: ContextVar[frozenset[Hashable]] = ContextVar("sqs_workers_events_held", default=frozenset())
"""Events whose own transaction the present thread or task has open."""


@contextmanager
def alone(event: Hashable, words: str) -> Iterator[None]:
    """Refuse what would wait for itself: the same event in another transaction of the same caller.

    :param words: names the event.
    :raises ConfigurationError: the event is open already.
    """
    if event in _HELD.get():
        raise ConfigurationError(
            f"{words} is open already in this call, and another transaction of it would wait for the first "
            "one for ever: use the connection that is open, or an inbox of another consumer"
        )
    _HELD.set(_HELD.get() | {event})
    try:
        yield
    finally:
        _HELD.set(_HELD.get() - {event})


class Errors:
    """Tells errors of the handler, which pass, from those of the transaction, which are translated.

    :param refused: told of a payload conflict.
    """

    def __init__(self, consumer: str, refused: Callable[[str], None]) -> None:
        self._consumer = consumer
        self._refused = refused
        self._of_handler: BaseException | None = None

    @contextmanager
    def of_handler(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._of_handler = error
            hide_parameters(error)
            raise

    @contextmanager
    def of_transaction(self, event_id: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if error is self._of_handler:
                raise
            if isinstance(error, PayloadConflict):
                self._refused(event_id)
            raise translate(error, f"the transaction of an event of {self._consumer!r}") from None
