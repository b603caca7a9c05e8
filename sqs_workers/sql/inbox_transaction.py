"""What the block of ``with inbox.once(...) as tx:`` works with."""

from __future__ import annotations

from types import TracebackType
from typing import Any

__all__ = ["AlreadyProcessed", "InboxTransaction"]


class AlreadyProcessed(BaseException):
    """Leaves the block of :meth:`Inbox.once` when the event was processed before; never seen outside of it.

    Not an ``Exception``, so that no ``except Exception`` of the block takes it for a failure.
    """

    def __init__(self, transaction: InboxTransaction) -> None:
        super().__init__("the event was processed before: the rest of the block is skipped")
        self.transaction = transaction


class InboxTransaction:
    """The transaction that holds the mark of an event; used like the connection (or session) itself.

    If the event was processed before, every use ends the block instead.

    :ivar fresh: whether the event is new to the consumer. Effects that do not go through the transaction
        stand behind ``if tx.fresh:``.
    """

    def __init__(self, connection: Any, *, fresh: bool) -> None:
        self.fresh = fresh
        self._connection = connection
        self._ended = False

    def __repr__(self) -> str:
        return f"<InboxTransaction fresh={self.fresh}>"

    @property
    def connection(self) -> Any:
        """The connection, or the session: for code that insists on the real one.

        :raises RuntimeError: the block has ended.
        """
        if self._ended:
            raise RuntimeError("the transaction of the inbox has ended: use it inside of its block")
        if not self.fresh:
            raise AlreadyProcessed(self)
        return self._connection

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.connection, name)

    def __enter__(self) -> InboxTransaction:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._ended = True
        return isinstance(error, AlreadyProcessed) and error.transaction is self
