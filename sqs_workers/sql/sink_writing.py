"""Writing rows within one transaction, and finding those that the table refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from sqs_workers.exceptions import SQSError
from sqs_workers.sql.errors import DatabaseErrorKind, RowRefused, classify, describe
from sqs_workers.sql.sink_plan import Chunk, Plan, chunks
from sqs_workers.sql.sink_table import SinkOptions, SinkTable
from sqs_workers.sql.sink_values import PLAIN, Unsuitable, convert
from sqs_workers.sql.sqla import sa

__all__ = ["Row", "Writing", "concerns_a_row"]

Row = Mapping[str, Any]

# PostgreSQL: one statement cannot update a row twice, as keys do that are equal in the table's eyes alone.
_TWICE_IN_ONE_STATEMENT = "21000"


def concerns_a_row(error: BaseException) -> bool:
    """Whether the error says something against a row, not against the database or the statement."""
    if classify(error) is DatabaseErrorKind.DATA:
        return True
    if describe(error)[1] == _TWICE_IN_ONE_STATEMENT:
        return True
    # What drivers and Python raise for values that they cannot write.
    innermost = getattr(error, "orig", None) or error
    return isinstance(innermost, (TypeError, ValueError, OverflowError)) and not isinstance(error, SQSError)


class Writing:
    """One transaction of a sink.

    :param careful: find the rows that the table refuses; otherwise the first one raises.
    """

    def __init__(
        self,
        connection: sa.Connection,
        table: SinkTable,
        options: SinkOptions,
        rows: Sequence[Row],
        *,
        serialize_json: bool,
        careful: bool,
    ) -> None:
        self._connection = connection
        self._table = table
        self._options = options
        self._rows = rows
        self._serialize_json = serialize_json
        self._careful = careful
        # PostgreSQL ends the whole transaction at an error, the others take back the statement alone.
        self._savepoints = careful and table.syntax.family == "postgresql"
        # Rows of one source name their columns in one order: looked at once.
        self._columns: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._wrong: dict[tuple[str, ...], str] = {}
        self._errors: list[RowRefused | None] = [None] * len(rows)

    def run(self) -> list[RowRefused | None]:
        """Write all rows; ``None`` or an error for each."""
        before: dict[int, int] = {}
        waiting: Sequence[int] = range(len(self._rows))
        while waiting:
            plan = Plan(unique=self._options.mode == "upsert")
            for index in waiting:
                self._place(index, plan)
            before.update(plan.superseded)
            written: list[int] = []
            for columns, indexes in plan.groups():
                for chunk in self._chunks(columns, indexes):
                    self._send(chunk)
                written.extend(indexes)
            # Where the last row of a key is refused, the one before it counts.
            waiting = sorted(
                before[index] for index in written if self._errors[index] is not None and index in before
            )
        return self._errors

    def _place(self, index: int, plan: Plan) -> None:
        row, keys = self._rows[index], self._options.keys
        names = tuple(row)
        columns = self._columns.get(names)
        if columns is None:
            columns = self._columns[names] = tuple(sorted(names, key=str))
            self._wrong[columns] = self._wrong_columns(columns)
        key = tuple([row.get(name) for name in keys])
        if wrong := self._wrong[columns]:
            self._refuse(index, wrong)
        elif None in key:
            self._refuse(index, f"needs a value in {', '.join(keys)}, its key")
        elif not names:
            self._refuse(index, "takes no row without columns")
        else:
            try:
                plan.add(index, columns, key)
            except TypeError:
                self._refuse(index, f"takes no list or dict as its key ({', '.join(keys)})")

    def _wrong_columns(self, columns: tuple[str, ...]) -> str:
        unknown = [repr(str(name)) for name in columns if name not in self._table.kinds]
        if unknown:
            return f"has no column {', '.join(unknown)}"
        generated = [name for name in columns if name in self._table.generated]
        return f"makes {', '.join(generated)} by itself: a row must not bring it" if generated else ""

    def _chunks(self, columns: tuple[str, ...], indexes: Sequence[int]) -> Iterator[Chunk]:
        rows, table = self._rows, self._table

        def values(index: int) -> list[Any] | None:
            row = rows[index]
            found = [row[column] for column in columns]
            # Most rows hold nothing but what every driver takes.
            return found if PLAIN.issuperset(map(type, found)) else self._converted(index, columns, found)

        def too_big(index: int) -> None:
            # MySQL would close the connection, which looks like an outage.
            self._refuse(index, "does not take it: one statement cannot carry it (MySQL: max_allowed_packet)")

        return chunks(columns, indexes, values, table.syntax.max_parameters, table.max_bytes, too_big)

    def _converted(self, index: int, columns: tuple[str, ...], values: list[Any]) -> list[Any] | None:
        family, kinds = self._table.syntax.family, self._table.kinds
        try:
            return [
                convert(value, family=family, column_kind=kinds[column], serialize_json=self._serialize_json)
                for column, value in zip(columns, values, strict=True)
            ]
        except Unsuitable as error:
            self._refuse(index, f"does not take it: {error}")
            return None

    def _send(self, chunk: Chunk) -> None:
        try:
            with self._connection.begin_nested() if self._savepoints else nullcontext():
                self._connection.exec_driver_sql(
                    self._table.statement(chunk.columns, len(chunk.rows)), tuple(chunk.parameters)
                )
        except Exception as error:
            if not self._careful or not concerns_a_row(error):
                raise
            if len(chunk.rows) == 1:
                name, code = describe(error)
                self._refuse(chunk.rows[0], f"does not take it: {name} {code}".rstrip(), code)
                return
        else:
            return
        for half in chunk.halves():
            self._send(half)

    def _refuse(self, index: int, why: str, code: str = "") -> None:
        self._errors[index] = RowRefused(f"table {self._options.name!r} {why}", code)
