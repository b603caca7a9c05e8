"""Rows into a table: all rows of a message, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.app.outlets import Entry
from sqs_workers.exceptions import SQSError
from sqs_workers.sql.errors import RowRefused, is_temporary, translate
from sqs_workers.sql.sink import TableSink
from sqs_workers.sql.sink_writing import Row, check_at_once, concerns_a_row

if TYPE_CHECKING:
    from sqs_workers.app.spec_resources import AnyTableSink
    from sqs_workers.sql.sqla import sa

__all__ = ["RowsToTable", "SinkUnavailableError"]


class SinkUnavailableError(SQSError):
    """A sink cannot be reached at the moment; nothing is wrong with the message."""


class RowsToTable:
    """The sink of a table.

    :param name: name in the file.
    :param engine: SQLAlchemy engine of the database.
    """

    def __init__(self, name: str, spec: AnyTableSink, engine: sa.Engine) -> None:
        self.name = name
        self._engine = engine
        self._table = TableSink(
            engine,
            spec.table,
            mode=spec.mode,
            keys=spec.keys,
            update_columns=spec.update_columns,
            update_expr=spec.update_expr,
            serialize_json=spec.serialize_json,
            schema=spec.schema,
        )

    def check(self) -> None:
        """Look at the table.

        :raises ConfigurationError: the table cannot take the rows; the error says what to do.
        :raises DatabaseError: the database failed.
        """
        self._table.check()

    def write(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        try:
            if all(len(entry.rows) == 1 for entry in entries):
                return self._table.write([entry.rows[0] for entry in entries])
            return self._write_whole(entries)
        except Exception as error:  # noqa: BLE001 - what a commit raises quotes values
            failure = translate(error, f"writing to {self.name}")
            if is_temporary(error):
                raise SinkUnavailableError(str(failure)) from None
            raise failure from None

    def write_in(self, connection: Any, entry: Entry) -> None:
        """Write in somebody else's transaction, which a refused row ends.

        :raises RowRefused: the table does not take a row.
        """
        for error in self._table.write(entry.rows, connection=connection):
            if error is not None:
                raise error

    def _write_whole(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        """One transaction; a message with a row that is refused is left out, and the others are written
        anew."""
        errors: list[BaseException | None] = [None] * len(entries)
        deferred = True
        while True:
            chosen = [index for index, error in enumerate(errors) if error is None]
            rows = [(index, row) for index in chosen for row in entries[index].rows]
            if not rows:
                return errors
            try:
                refused = self._write_all_or_tell(rows, deferred=deferred)
            except Exception as error:
                if not deferred or not concerns_a_row(error):
                    raise
                # Found at the commit, which does not say whose row it was.
                deferred = False
                continue
            if not refused:
                return errors
            for index, refusal in reversed(refused):
                errors[index] = refusal

    def _write_all_or_tell(
        self, rows: Sequence[tuple[int, Row]], *, deferred: bool
    ) -> list[tuple[int, RowRefused]]:
        """Those that the table refuses; then nothing was written.

        :param deferred: leave deferred constraints to the commit.
        """
        with self._engine.connect() as connection, connection.begin() as transaction:
            if not deferred:
                check_at_once(connection)
            answers = self._table.write([row for _, row in rows], connection=connection)
            refused = [
                (index, error) for (index, _), error in zip(rows, answers, strict=True) if error is not None
            ]
            if refused:
                transaction.rollback()
            return refused
