"""How a run through the inbox ended, and the check of how many rows a statement touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from sqs_workers.sql.errors import RowCountError

__all__ = ["InboxResult", "Ran", "Skipped", "expect_rows"]

T = TypeVar("T")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Ran(Generic[T]):
    """The handler ran, and its transaction is committed.

    :ivar value: what the handler returned.
    """

    value: T


@dataclass(frozen=True, slots=True)
class Skipped:
    """The event was processed before, with the same payload: acknowledge the message."""


InboxResult: TypeAlias = Ran[T] | Skipped


def expect_rows(result: ResultT, expected: int) -> ResultT:
    """Roll everything back, the mark included, if a statement touched another number of rows.

    On MySQL the number is that of the rows found, if the connection is SQLAlchemy's, and of the rows
    changed, if it is a plain one of PyMySQL without ``CLIENT.FOUND_ROWS``.

    :param result: what ``execute`` returned, or a cursor: anything with a ``rowcount``.
    :raises RowCountError: it touched another number of rows.
    """
    found = int(getattr(result, "rowcount", -1))
    if found != expected:
        raise RowCountError(expected, found)
    return result
