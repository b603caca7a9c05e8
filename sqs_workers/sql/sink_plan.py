"""The order in which rows are written: few statements, and the last row of a key wins."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

__all__ = ["Plan"]


class Plan:
    """Which rows are written together.

    Rows of one statement have the same columns and, if ``unique``, different keys: of several rows with one
    key the last is written and the others are kept in :attr:`superseded`, for the case that the last is
    refused. A row with other columns does not replace an earlier one with its key; it comes in a later step.

    :param locks: the database locks rows one by one, in the order in which they are written.
    """

    def __init__(self, *, unique: bool, locks: bool = True) -> None:
        self._unique = unique
        self._locks = locks
        self._columns_of: dict[Any, tuple[str, ...]] = {}
        self._steps: list[dict[tuple[str, ...], dict[Any, int]]] = [{}]
        self.superseded: dict[int, int] = {}
        """Row that is written -> row with its key before it."""

    def add(self, index: int, columns: tuple[str, ...], key: Any) -> None:
        if not self._unique:
            self._steps[-1].setdefault(columns, {})[index] = index
            return
        alike = _folded(key)
        if self._columns_of.get(alike, columns) != columns:
            self._steps.append({})
            self._columns_of = {}
        self._columns_of[alike] = columns
        group = self._steps[-1].setdefault(columns, {})
        if key in group:
            self.superseded[index] = group[key]
        group[key] = index

    def add_all(self, indexes: Sequence[int], columns: tuple[str, ...], keys: Iterable[Any]) -> None:
        """:meth:`add` for all rows of a plan at once, which have the same columns.

        :raises TypeError: a key is a list or dict; nothing was added.
        """
        if not self._unique:
            self._steps[-1][columns] = dict(zip(indexes, indexes, strict=True))
            return
        of_rows = list(keys)
        group = dict(zip(of_rows, indexes, strict=True))
        if len(group) < len(of_rows):
            last: dict[Any, int] = {}
            for index, key in zip(indexes, of_rows, strict=True):
                if key in last:
                    self.superseded[index] = last[key]
                last[key] = index
        self._steps[-1][columns] = group

    def groups(self) -> Iterator[tuple[tuple[str, ...], Sequence[int]]]:
        """Columns and rows, in the order in which they have to be written."""
        for step in self._steps:
            for columns, rows in step.items():
                yield columns, _in_order(rows) if self._unique and self._locks else sorted(rows.values())


def _in_order(rows: Mapping[Any, int]) -> list[int]:
    """Rows by their keys, for two workers with some keys in common should lock them in the same order.

    Keys that may be one in the table's eyes stay in the order of arrival: the last wins.
    """
    if len(set(_folded_all(rows))) == len(rows):
        return [rows[key] for key in _sorted(rows)]
    groups: dict[Any, list[int]] = {}
    for key, index in sorted(rows.items(), key=itemgetter(1)):
        groups.setdefault(_folded(key), []).append(index)
    return [index for key in _sorted(groups) for index in groups[key]]


def _sorted(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=repr)


def _folded_all(keys: Collection[Any]) -> Iterable[Any]:
    if set(map(type, keys)) == {str} and "".join(keys).isascii():
        return map(str.lower, map(str.rstrip, keys))
    return map(_folded, keys)


def _folded(key: Any) -> Any:
    """What is left of a key under a collation that cares for neither case, accents nor blanks at the end."""
    if isinstance(key, str):
        if not key.isascii():
            plain = unicodedata.normalize("NFKD", key)
            key = "".join(c for c in plain if not unicodedata.combining(c)).casefold()
        return key.rstrip().lower()
    return tuple(map(_folded, key)) if isinstance(key, tuple) else key
