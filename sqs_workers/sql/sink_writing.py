"""Writing rows within one transaction, and finding those that the table refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import IntEnum
from operator import itemgetter
from typing import Any

from sqs_workers.exceptions import ConfigurationError, SQSError
from sqs_workers.sql.errors import DatabaseErrorKind, RowRefused, classify, describe
from sqs_workers.sql.sink_packing import Chunk, Packing
from sqs_workers.sql.sink_plan import Plan
from sqs_workers.sql.sink_table import SinkOptions, SinkTable
from sqs_workers.sql.sink_values import Unsuitable, can_be_written, convert
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.wholeness import ended

__all__ = ["Care", "Row", "Writing", "check_at_once", "concerns_a_row"]

Row = Mapping[str, Any]

# PostgreSQL: one statement cannot update a row twice, as keys do that are equal in the table's eyes alone.
_TWICE_IN_ONE_STATEMENT = "21000"

# PostgreSQL: feature not supported, syntax error. Said of statements, and of values, too: NaN for an integer, a
# path for an ltree, words for a tsvector.
_OF_STATEMENT_OR_VALUE = ("0A000", "42601")


def concerns_a_row(error: BaseException) -> bool:
    """Whether the error may say something against a row, and not against the database or the statement."""
    if classify(error) is DatabaseErrorKind.DATA:
        return True
    if describe(error)[1] in (_TWICE_IN_ONE_STATEMENT, *_OF_STATEMENT_OR_VALUE):
        return True
    # What drivers and Python raise for values that they cannot write.
    innermost = getattr(error, "orig", None) or error
    return isinstance(innermost, (TypeError, ValueError, OverflowError)) and not isinstance(error, SQSError)


def check_at_once(connection: sa.Connection) -> None:
    """Check deferred constraints after each statement of this transaction, not at its commit.

    Only PostgreSQL can.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")


class Care(IntEnum):
    """What a transaction does about rows that the table refuses."""

    NONE = 0
    """The first one raises."""
    EACH_ROW = 1
    """They are found."""
    CONSTRAINTS = 2
    """Those, too, that the commit would refuse. Only for a transaction of the sink's own."""


class Writing:
    """One transaction of a sink."""

    def __init__(
        self,
        connection: sa.Connection,
        table: SinkTable,
        options: SinkOptions,
        rows: Sequence[Row],
        *,
        serialize_json: bool,
        care: Care,
    ) -> None:
        self._connection = connection
        self._table = table
        self._options = options
        self._rows = rows
        self._serialize_json = serialize_json
        self._careful = care is not Care.NONE
        # PostgreSQL ends the whole transaction at an error, the others take back the statement alone.
        self._savepoints = self._careful and table.syntax.family == "postgresql"
        # Rows of one source name their columns in one order: looked at once.
        self._columns: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._wrong: dict[tuple[str, ...], str] = {}
        self._errors: list[RowRefused | None] = [None] * len(rows)
        self._written = False
        self._doubt: Exception | None = None
        if care is Care.CONSTRAINTS:
            check_at_once(connection)

    def run(self) -> list[RowRefused | None]:
        """Write all rows; ``None`` or an error for each."""
        before: dict[int, int] = {}
        waiting: Sequence[int] = range(len(self._rows))
        while waiting:
            plan = Plan(
                unique=self._options.mode == "upsert",
                locks=self._table.syntax.family != "sqlite",
                exact=self._table.exact,
            )
            if not self._place_all(waiting, plan):
                for index in waiting:
                    self._place(index, plan)
            written: list[int] = []
            groups = plan.groups()
            before.update(plan.superseded)
            for columns, indexes in groups:
                for chunk in self._chunks(columns, indexes):
                    self._send(chunk)
                written.extend(indexes)
            # Where the last row of a key is refused, the one before it counts.
            waiting = sorted(
                before[index] for index in written if self._errors[index] is not None and index in before
            )
        if self._doubt is not None and not self._written:
            raise self._doubt
        return self._errors

    def _place_all(self, waiting: Sequence[int], plan: Plan) -> bool:
        """Put all rows into the plan, if they have the same columns and nothing is wrong with any of them."""
        rows, keys = [self._rows[index] for index in waiting], self._options.keys
        if not all(issubclass(type_, Mapping) for type_ in set(map(type, rows))):
            return False
        columns, *others = {self._in_order(names) for names in set(map(tuple, rows))}
        if others or not columns or self._wrong[columns] or not set(keys) <= set(columns):
            return False
        by_column = [list(map(itemgetter(name), rows)) for name in keys]
        try:
            if any(None in set(values) for values in by_column):
                return False
            plan.add_all(waiting, columns, by_column[0] if len(keys) == 1 else zip(*by_column, strict=True))
        except TypeError:
            # A list or dict, somewhere in a key.
            return False
        return True

    def _in_order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        columns = self._columns.get(names)
        if columns is None:
            columns = self._columns[names] = tuple(sorted(names, key=str))
            self._wrong[columns] = self._wrong_columns(columns)
        return columns

    def _place(self, index: int, plan: Plan) -> None:
        row: Any = self._rows[index]
        keys = self._options.keys
        if not isinstance(row, Mapping):
            self._refuse(index, f"takes a row as a mapping of columns, not as {type(row).__name__}")
            return
        names = tuple(row)
        columns = self._in_order(names)
        key = tuple([row.get(name) for name in keys])
        if wrong := self._wrong[columns]:
            self._refuse(index, wrong)
        elif None in key:
            self._refuse(index, f"needs a value in {', '.join(keys)}, its key")
        elif not names:
            self._refuse(index, "takes no row without columns")
        else:
            try:
                plan.add(index, columns, key[0] if len(key) == 1 else key)
            except TypeError:
                self._refuse(index, f"takes no list or dict as its key ({', '.join(keys)})")

    def _wrong_columns(self, columns: tuple[str, ...]) -> str:
        unknown = [repr(str(name)) for name in columns if name not in self._table.kinds]
        if unknown:
            return f"has no column {', '.join(unknown)}"
        generated = [name for name in columns if name in self._table.generated]
        return f"makes {', '.join(generated)} by itself: a row must not bring it" if generated else ""

    def _chunks(self, columns: tuple[str, ...], indexes: Sequence[int]) -> Iterator[Chunk]:
        table = self._table
        packing = Packing(
            self._rows,
            columns,
            self._convert,
            Unsuitable,
            self._leave_out,
            table.syntax.max_parameters,
            table.max_bytes,
        )
        return packing.chunks(indexes)

    def _convert(self, column: str, values: Sequence[Any]) -> list[Any]:
        family, kind = self._table.syntax.family, self._table.kinds[column]
        return [
            convert(value, family=family, column_kind=kind, serialize_json=self._serialize_json)
            for value in values
        ]

    def _leave_out(self, index: int, error: Exception | None) -> None:
        # MySQL would close the connection of one that is too big, which looks like an outage.
        why = error or "one statement cannot carry it (MySQL: max_allowed_packet)"
        self._refuse(index, f"does not take it: {why}")

    def _execute(self, chunk: Chunk) -> None:
        """One statement, or several of the same text that the driver sends in one go."""
        table, parameters = self._table, chunk.parameters
        rows, width = len(chunk.rows), len(chunk.columns)
        piece = table.syntax.pipelined_rows
        alike = rows - rows % piece if piece and rows >= 2 * piece and can_be_written(parameters) else 0
        if alike:
            step = piece * width
            self._connection.exec_driver_sql(
                table.statement(chunk.columns, piece),
                [tuple(parameters[start : start + step]) for start in range(0, alike * width, step)],
            )
        if rows > alike:
            self._connection.exec_driver_sql(
                table.statement(chunk.columns, rows - alike), tuple(parameters[alike * width :])
            )

    def _send(self, chunk: Chunk) -> None:
        try:
            with self._connection.begin_nested() if self._savepoints else nullcontext():
                self._execute(chunk)
        except Exception as error:
            if not self._careful or not concerns_a_row(error):
                raise
            self._refuse_ended()
            if len(chunk.rows) == 1:
                name, code = describe(error)
                if code in _OF_STATEMENT_OR_VALUE:
                    # Of the value, if the statement is good for another one.
                    self._doubt = error
                self._refuse(chunk.rows[0], f"does not take it: {name} {code}".rstrip(), code)
                return
        else:
            self._written = True
            return
        for half in chunk.halves():
            self._send(half)

    def _refuse_ended(self) -> None:
        if self._table.syntax.family == "sqlite" and ended(self._connection):
            raise ConfigurationError(
                f"a row made a trigger or constraint of table {self._options.name!r} roll back the whole "
                "transaction, other rows and all: let it ABORT the statement, not ROLLBACK"
            )

    def _refuse(self, index: int, why: str, code: str = "") -> None:
        self._errors[index] = RowRefused(f"table {self._options.name!r} {why}", code)
