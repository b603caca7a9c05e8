"""The sink: rows into a table, so that a row that comes twice is there once.

::

    sink = TableSink(engine, "events", mode="upsert", keys=["event_id"],
                     update_columns=["payload", "status"], update_expr={"updated_at": "NOW()"})
    sink.check()                       # at start: refuses what cannot work
    errors = sink.write(rows)          # one transaction; None or an error for each row
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.connections import is_async
from sqs_workers.sql.errors import RowRefused, is_retryable, translate, translated
from sqs_workers.sql.sink_table import SinkOptions, SinkTable, inspect_table
from sqs_workers.sql.sink_writing import Care, Row, Writing, concerns_a_row
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.wholeness import refuse_autocommit

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["TableSink"]

MODES = ("upsert", "insert", "insert_ignore")
JSON_MODES = ("auto", "never")


class TableSink:
    """Writes rows to one table.

    :param engine: a SQLAlchemy engine, or an asynchronous one for :meth:`awrite`.
    :param table: name of the table, which exists.
    :param mode: ``upsert`` updates the row with the same keys, ``insert`` refuses a row whose key is taken,
        ``insert_ignore`` leaves the row that is there.
    :param keys: columns of a unique index; needed for ``upsert``.
    :param update_columns: columns that an upsert overwrites; others, such as ``created_at``, keep their
        value. By default all that a row brings.
    :param update_expr: column -> SQL that an upsert assigns, for instance ``{"updated_at": "NOW()"}``.
        Trusted configuration: never build it from a message.
    :param serialize_json: ``auto`` writes dicts and lists as JSON text (lists as they are into PostgreSQL's
        arrays), ``never`` leaves them to the driver.
    :param schema: schema of the table.
    :param attempts: how often the transaction is run if another one stands in its way; 5 by default.
    :raises ConfigurationError: the options contradict each other.
    """

    def __init__(
        self,
        engine: Any,
        table: str,
        *,
        mode: str = "upsert",
        keys: Iterable[str] = (),
        update_columns: Iterable[str] | None = None,
        update_expr: Mapping[str, str] | None = None,
        serialize_json: str = "auto",
        schema: str | None = None,
        attempts: int = 5,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if isinstance(keys, str) or isinstance(update_columns, str):
            raise ConfigurationError("keys and update_columns are lists of columns, not a string")
        self._options = SinkOptions(
            table=table,
            schema=schema,
            mode=mode,
            keys=tuple(keys),
            update_columns=None if update_columns is None else tuple(update_columns),
            update_expr=dict(update_expr or {}),
        )
        _check_options(self._options, serialize_json, attempts)
        self._engine = engine
        self._serialize_json = serialize_json == "auto"
        self._attempts = attempts
        self._clock = clock
        self._known: SinkTable | None = None

    def __repr__(self) -> str:
        return f"<TableSink {self._options.name} mode={self._options.mode}>"

    def check(self) -> None:
        """Look at the table; :meth:`write` does so at its first call.

        :raises ConfigurationError: there is no such table, a column is unknown, no unique index covers the
            keys, or the connection would cut values silently.
        :raises DatabaseError: the database failed.
        """
        name = self._options.name
        with translated(f"reading the columns of table {name!r}"), self._engine.connect() as connection:
            self._known = inspect_table(connection, self._options)

    def write_one(self, row: Row, *, connection: Any = None) -> None:
        """Write one row.

        :raises RowRefused: the table does not take it; permanent.
        :raises DatabaseError: the database failed; its ``kind`` says whether it is temporary.
        """
        (error,) = self.write([row], connection=connection)
        if error is not None:
            raise error

    def write(self, rows: Sequence[Row], *, connection: Any = None) -> list[RowRefused | None]:
        """Write ``rows`` in one transaction; ``None`` or an error for each, in their order.

        A row that the table refuses fails alone: the others are written. Of several rows with one key the
        last one wins; those before it are not looked at, whatever they hold, unless it is refused.

        :param connection: a SQLAlchemy ``Connection`` or ``Session`` in a transaction that you commit, for
            instance that of the inbox; by default a transaction of its own.
        :raises ConfigurationError: the connection commits every statement by itself.
        :raises DatabaseError: the database failed, and nothing was written.
        """
        if connection is not None:
            return self._translated(connection, rows)
        attempts = self._new_attempts()
        while True:
            try:
                with self._engine.begin() as own:
                    return self._write(own, rows, attempts.care)
            except Exception as error:  # noqa: BLE001 - what is raised instead quotes no values
                pause = attempts.pause_after(error)
            condition = threading.Condition()
            with condition:
                self._clock.wait(condition, pause)

    async def awrite(self, rows: Sequence[Row], *, connection: Any = None) -> list[RowRefused | None]:
        """:meth:`write` for an asynchronous engine."""
        if connection is not None:
            answer: list[RowRefused | None] = await connection.run_sync(self._translated, rows)
            return answer
        engine: AsyncEngine = self._engine
        if not is_async(self._engine):
            raise ConfigurationError(f"the sink of table {self._options.name!r} has no asynchronous engine")
        attempts = self._new_attempts()
        while True:
            try:
                async with engine.begin() as own:
                    return await own.run_sync(self._write, rows, attempts.care)
            except Exception as error:  # noqa: BLE001 - what is raised instead quotes no values
                pause = attempts.pause_after(error)
            await asyncio.sleep(pause)

    def _new_attempts(self) -> _Attempts:
        return _Attempts(self._attempts, f"writing to table {self._options.name!r}")

    def _translated(self, connection: Any, rows: Sequence[Row]) -> list[RowRefused | None]:
        with translated(f"writing to table {self._options.name!r}"):
            return self._write(connection, rows, Care.EACH_ROW)

    def _write(self, connection: Any, rows: Sequence[Row], care: Care) -> list[RowRefused | None]:
        if not isinstance(connection, sa.Connection):
            # An ORM session, or what the inbox yields.
            inner = getattr(connection, "connection", None)
            connection = inner() if callable(inner) else inner
        if not isinstance(connection, sa.Connection):
            raise ConfigurationError("a sink writes through SQLAlchemy: give it a Connection or a Session")
        refuse_autocommit(connection)
        if self._known is None:
            self._known = inspect_table(connection, self._options)
        writing = Writing(
            connection,
            self._known,
            self._options,
            rows,
            serialize_json=self._serialize_json,
            care=care,
        )
        return writing.run()


class _Attempts:
    """What comes after an attempt that failed.

    :param limit: attempts while other transactions stand in the way.
    :ivar care: of the next attempt.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._made = 0
        self.care = Care.NONE

    def pause_after(self, error: Exception) -> float:
        """Seconds before the next attempt: short, growing, and different for each of those who collided.

        :raises SQSError: there is no next attempt.
        """
        if self.care is not Care.CONSTRAINTS and concerns_a_row(error):
            self.care = Care(self.care + 1)
            self._made = 0
            return 0.0
        self._made += 1
        if self._made >= self._limit or not is_retryable(error):
            raise translate(error, self._what) from None
        return random.uniform(0.005, 0.02 * 2 ** min(self._made, 5))  # noqa: S311


def _check_options(options: SinkOptions, serialize_json: str, attempts: int) -> None:
    if options.mode not in MODES:
        raise ConfigurationError(f"mode must be one of {', '.join(MODES)}, not {options.mode!r}")
    if serialize_json not in JSON_MODES:
        raise ConfigurationError(
            f"serialize_json must be one of {', '.join(JSON_MODES)}, not {serialize_json!r}"
        )
    if attempts < 1:
        raise ConfigurationError(f"attempts must be 1 or more, not {attempts!r}")
    if options.mode == "upsert" and not options.keys:
        raise ConfigurationError("mode 'upsert' needs keys: the columns of a unique index")
    updates = {*(options.update_columns or ()), *options.update_expr}
    if options.mode != "upsert" and updates:
        raise ConfigurationError(
            f"mode {options.mode!r} updates nothing: leave out update_columns, update_expr"
        )
    if updates & set(options.keys):
        raise ConfigurationError("a key cannot be updated: take it out of update_columns and update_expr")
