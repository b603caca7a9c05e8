"""The order in which rows are written: few statements, and the last row of a key wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias
from uuid import UUID

__all__ = ["Plan"]

Columns: TypeAlias = tuple[str, ...]


class Plan:
    """Which rows are written together.

    Rows of one statement have the same columns and, if ``unique``, different keys: of several rows with one
    key the last is written and the others are kept in :attr:`superseded`, for the case that the last is
    refused. A row with other columns does not replace an earlier one with its key; it comes in a later step.

    Different keys may be one to the table: by its collation, by rounding, by conversion. For keys of which
    it can be foreseen, rows are written in the order of their keys, for two workers with some keys in common
    should lock them in the same order. The others are written in the order of their arrival.

    :param locks: the database locks rows one by one, in the order in which they are written.
    :param exact: different texts are different keys to the table.
    """

    def __init__(self, *, unique: bool, locks: bool = True, exact: bool = False) -> None:
        self._unique = unique
        self._exact = exact
        self._locks = locks
        self._indexes: list[int] = []
        self._columns: list[Columns] = []
        self._keys: list[Any] = []
        self.superseded: dict[int, int] = {}
        """Row that is written -> row with its key before it. Filled by :meth:`groups`."""

    def add(self, index: int, columns: Columns, key: Any) -> None:
        """Add a row; rows are added in the order of their arrival.

        :raises TypeError: the key is a list or dict; nothing was added.
        """
        self.add_all((index,), columns, (key,))

    def add_all(self, indexes: Sequence[int], columns: Columns, keys: Iterable[Any]) -> None:
        """:meth:`add` for rows which have the same columns."""
        of_rows = list(keys)
        if self._unique:
            set(of_rows)
        self._indexes += indexes
        self._columns += [columns] * len(indexes)
        self._keys += of_rows

    def groups(self) -> list[tuple[Columns, Sequence[int]]]:
        """Columns and rows, in the order in which they have to be written."""
        if not self._unique:
            alike: dict[Columns, list[int]] = {}
            for index, columns in zip(self._indexes, self._columns, strict=True):
                alike.setdefault(columns, []).append(index)
            return list(alike.items())
        foreseen = _can_be_foreseen(self._keys, self._exact)
        return [
            (columns, _in_order(rows) if foreseen and self._locks else sorted(rows.values()))
            for step in self._steps(foreseen)
            for columns, rows in step.items()
        ]

    def _steps(self, foreseen: bool) -> Iterator[dict[Columns, dict[Any, int]]]:
        """What has to be written before the next: columns -> key -> row."""
        step: dict[Columns, dict[Any, int]] = {}
        columns_of: dict[Any, Columns] = {}
        several = len(set(self._columns)) > 1
        for index, columns, key in zip(self._indexes, self._columns, self._keys, strict=True):
            if several:
                alike = _folded(key) if foreseen else None
                if columns_of.get(alike, columns) != columns:
                    yield step
                    step, columns_of = {}, {}
                columns_of[alike] = columns
            group = step.setdefault(columns, {})
            if key in group:
                self.superseded[index] = group[key]
            group[key] = index
        yield step


def _can_be_foreseen(keys: Sequence[Any], exact: bool) -> bool:
    """Whether keys can be one to a table only if :func:`_folded` has them the same.

    What collations make of anything but printable ASCII differs too much: some know two emojis for one, or
    leave out what cannot be seen.
    """
    types = set(map(type, keys))
    if types == {str}:
        text = "" if exact else "".join(keys)
        return text.isascii() and text.isprintable()
    if types == {tuple}:
        alike = len(set(map(len, keys))) == 1
        return alike and all(_can_be_foreseen(part, exact) for part in zip(*keys, strict=True))
    return len(types) <= 1 and types <= {int, date, UUID}


def _in_order(rows: Mapping[Any, int]) -> list[int]:
    """Rows by their keys; those that may be one to the table stay in the order of arrival: the last wins."""
    return [index for _, index in sorted(zip(map(_folded, rows), rows.values(), strict=True))]


def _folded(key: Any) -> Any:
    """What is left of a key under a collation that cares for neither case nor blanks at the end."""
    if isinstance(key, str):
        return key.rstrip().lower()
    return tuple(map(_folded, key)) if isinstance(key, tuple) else key
