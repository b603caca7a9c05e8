"""The order in which rows are written: few statements, and the last row of a key wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Chunk", "Plan", "chunks"]

MAX_ROWS = 1000
MAX_BYTES = 4 * 1024 * 1024


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


class Plan:
    """Which rows are written together.

    Rows of one statement have the same columns and, if ``unique``, different keys: of several rows with one
    key the last is written and the others are kept in :attr:`superseded`, for the case that the last is
    refused. A row with other columns does not replace an earlier one with its key; it comes in a later step.
    """

    def __init__(self, *, unique: bool) -> None:
        self._unique = unique
        self._columns_of: dict[Any, tuple[str, ...]] = {}
        self._steps: list[dict[tuple[str, ...], dict[Any, int]]] = [{}]
        self.superseded: dict[int, int] = {}
        """Row that is written -> row with its key before it."""

    def add(self, index: int, columns: tuple[str, ...], key: Any) -> None:
        if not self._unique:
            self._steps[-1].setdefault(columns, {})[index] = index
            return
        if self._columns_of.get(key, columns) != columns:
            self._steps.append({})
            self._columns_of = {}
        self._columns_of[key] = columns
        group = self._steps[-1].setdefault(columns, {})
        if key in group:
            self.superseded[index] = group[key]
        group[key] = index

    def groups(self) -> Iterator[tuple[tuple[str, ...], Sequence[int]]]:
        """Columns and rows, in the order in which they have to be written."""
        for step in self._steps:
            for columns, rows in step.items():
                if self._unique:
                    # Two workers with some keys in common lock them in the same order.
                    yield columns, [rows[key] for key in _in_order(rows)]
                else:
                    yield columns, list(rows.values())


def _in_order(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=repr)


def _size(values: Iterable[Any]) -> int:
    """Bytes of what is long in ``values``: texts and bytes."""
    size = 0
    for value in values:
        if isinstance(value, str):
            # Asked of every value of every row: most are ASCII, which costs no encoding.
            size += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        elif isinstance(value, bytes):
            size += len(value)
    return size


def chunks(
    columns: tuple[str, ...],
    indexes: Sequence[int],
    values: Callable[[int], list[Any] | None],
    max_parameters: int,
    max_bytes: int,
    too_big: Callable[[int], object],
) -> Iterator[Chunk]:
    """Cut rows into statements; each row's values are made when its turn comes.

    :param values: values of a row, or ``None`` to leave it out.
    :param max_bytes: of the texts and bytes in one statement; a row with more is left out.
    :param too_big: told of such a row.
    """
    most = max(1, min(MAX_ROWS, max_parameters // max(len(columns), 1)))
    chunk, size = Chunk(columns), 0
    for index in indexes:
        row = values(index)
        if row is None:
            continue
        bytes_ = _size(row)
        if bytes_ > max_bytes:
            too_big(index)
            continue
        if chunk.rows and (len(chunk.rows) >= most or size + bytes_ > min(max_bytes, MAX_BYTES)):
            yield chunk
            chunk, size = Chunk(columns), 0
        chunk.rows.append(index)
        chunk.parameters.extend(row)
        size += bytes_
    if chunk.rows:
        yield chunk
