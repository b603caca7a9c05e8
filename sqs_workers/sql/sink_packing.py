"""Cutting rows into statements of bounded size.

Rows of one source are alike: the same columns, one or two types in a column. So they are looked at column by
column, some dozens of rows at a time, and one by one only where there is something to find out about a row:
which of them does not fit, and how many bytes a long one has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from sqs_workers.sql.sink_values import PLAIN, SHORT

__all__ = ["Chunk", "Packing"]

MAX_ROWS = 1000
MAX_BYTES = 4 * 1024 * 1024
WINDOW = 100
"""Rows that are looked at together; no more than these have their values made before their turn comes."""

_UTF8 = 4
"""Bytes of a character at most."""
_OTHER = 40
"""Bytes of a number, a date or NULL in a statement of MySQL, as :attr:`Packing.max_bytes` counts them."""


@dataclass
class Chunk:
    """Rows of one statement.

    :ivar rows: indexes of the rows.
    :ivar parameters: their values, one after another.
    """

    columns: tuple[str, ...]
    rows: list[int] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)

    def halves(self) -> tuple[Chunk, Chunk]:
        """The same rows in two chunks; this one is of no use afterwards."""
        middle = len(self.rows) // 2
        cut = middle * len(self.columns)
        return (
            Chunk(self.columns, self.rows[:middle], self.parameters[:cut]),
            Chunk(self.columns, self.rows[middle:], self.parameters[cut:]),
        )


@dataclass(frozen=True)
class Packing:
    """How rows of the same columns are cut into statements.

    :ivar rows: all rows of the batch.
    :ivar convert: a column and its values -> values as the driver takes them. Raises an ``error``.
    :ivar error: what ``convert`` raises for a value that no column takes.
    :ivar refuse: told of a row that is left out, and of the error, or ``None`` if it is too big.
    :ivar max_bytes: of the values in one statement; a row with more is left out.
    """

    rows: Sequence[Any]
    columns: tuple[str, ...]
    convert: Callable[[str, Sequence[Any]], Sequence[Any]]
    error: type[Exception]
    refuse: Callable[[int, Exception | None], object]
    max_parameters: int
    max_bytes: int

    def chunks(self, indexes: Sequence[int]) -> Iterator[Chunk]:
        """Statements for the rows ``indexes``, in their order; values are made when their turn comes."""
        most = max(1, min(MAX_ROWS, self.max_parameters // max(len(self.columns), 1)))
        limit = min(self.max_bytes, MAX_BYTES)
        window = min(WINDOW, most)
        chunk, size = Chunk(self.columns), 0
        for start in range(0, len(indexes), window):
            for rows, parameters, bytes_ in self._pieces(indexes[start : start + window], limit):
                if chunk.rows and (len(chunk.rows) + len(rows) > most or size + bytes_ > limit):
                    yield chunk
                    chunk, size = Chunk(self.columns), 0
                chunk.rows.extend(rows)
                chunk.parameters.extend(parameters)
                size += bytes_
        if chunk.rows:
            yield chunk

    def _pieces(
        self, indexes: Sequence[int], limit: int
    ) -> Iterable[tuple[Sequence[int], Iterable[Any], int]]:
        """Rows that stay together, their values, and the bytes of those at most."""
        rows = [self.rows[index] for index in indexes]
        by_column = [list(map(itemgetter(column), rows)) for column in self.columns]
        types = [set(map(type, values)) for values in by_column]
        try:
            for number, column in enumerate(self.columns):
                if not types[number] <= PLAIN:
                    converted = self.convert(column, by_column[number])
                    by_column[number], types[number] = list(converted), set(map(type, converted))
        except self.error:
            # One of them: which?
            return self._singly(indexes)
        size = sum(map(_bytes_at_most, by_column, types))
        by_row = zip(*by_column, strict=True)
        if size * (MAX_ROWS // WINDOW) <= limit:
            return ((indexes, chain.from_iterable(by_row), size),)
        return self._measured(zip(indexes, by_row, strict=True))

    def _singly(self, indexes: Sequence[int]) -> Iterator[tuple[Sequence[int], Iterable[Any], int]]:
        for index in indexes:
            row = self.rows[index]
            try:
                values = [
                    row[column] if type(row[column]) in PLAIN else self.convert(column, [row[column]])[0]
                    for column in self.columns
                ]
            except self.error as error:
                self.refuse(index, error)
            else:
                yield from self._measured([(index, values)])

    def _measured(
        self, rows: Iterable[tuple[int, Sequence[Any]]]
    ) -> Iterator[tuple[Sequence[int], Iterable[Any], int]]:
        for index, values in rows:
            size = sum(map(_bytes, values))
            if size > self.max_bytes:
                self.refuse(index, None)
            else:
                yield (index,), values, size


def _bytes_at_most(values: Sequence[Any], types: set[type]) -> int:
    if types <= SHORT:
        return _OTHER * len(values)
    if types == {str}:
        return _UTF8 * sum(map(len, values)) + _OTHER * len(values)
    return sum(map(_bytes, values))


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return _OTHER + (len(value) if value.isascii() else len(value.encode("utf-8", "replace")))
    return _OTHER + len(value) if isinstance(value, bytes) else _OTHER
