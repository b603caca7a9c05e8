"""Where the databases differ: inserting what may be there already, locking, limits.

===============  =========================================  =====================================
                 PostgreSQL, SQLite                         MySQL, MariaDB
===============  =========================================  =====================================
upsert           ``ON CONFLICT (keys) DO UPDATE SET``       ``ON DUPLICATE KEY UPDATE``, which any
                                                            unique index sets off
new value        ``excluded.column``                        ``VALUES(column)``; ``new.column`` from
                                                            MySQL 8.0.19 (``AS new``)
insert or leave  ``ON CONFLICT DO NOTHING``                 a plain ``INSERT``, error 1062 is the
                                                            answer; in a sink an update that
                                                            changes nothing. ``INSERT IGNORE`` would
                                                            also swallow values that do not fit
===============  =========================================  =====================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.sql.errors import describe
from sqs_workers.sql.sqla import postgresql, sa, sqlite

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

    from sqs_workers.sql.connections import Executor

__all__ = ["UpsertSyntax", "insert_if_absent", "placeholders", "skips_locked_rows"]

_DUPLICATE_ENTRY = "1062"

MAX_PARAMETERS = {"postgresql": 32_767, "mysql": 65_535, "sqlite": 32_766}
"""Parameters of one statement. https://www.postgresql.org/docs/current/limits.html (65,535; asyncpg takes half)
and https://www.sqlite.org/limits.html; PyMySQL writes them into the text."""

PIPELINED_ROWS = 16
"""psycopg parses a text and its parameters' types once for all statements of a pipeline, but each time for one
statement of more than 50 parameters; PostgreSQL, too, parses it once if it comes more than five times."""


def insert_if_absent(executor: Executor, table: sa.Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key exists; waits for another transaction that is inserting the same key."""
    if executor.dialect_name == "mysql":
        try:
            executor.execute(sa.insert(table).values(**values))
        except Exception as error:
            # InnoDB takes back the statement alone, and the transaction goes on.
            if describe(error)[1] != _DUPLICATE_ENTRY:
                raise
            return False
        return True
    insert = postgresql.insert if executor.dialect_name == "postgresql" else sqlite.insert
    touched, _ = executor.execute(insert(table).values(**values).on_conflict_do_nothing())
    return touched == 1


def skips_locked_rows(dialect: Dialect) -> bool:
    """Whether the database has ``FOR UPDATE SKIP LOCKED``: PostgreSQL, MySQL 8.0, MariaDB 10.6."""
    if dialect.name == "postgresql":
        return True
    if dialect.name not in ("mysql", "mariadb"):
        return False
    version: tuple[Any, ...] = dialect.server_version_info or (0,)
    if getattr(dialect, "is_mariadb", False):
        version = getattr(dialect, "_mariadb_normalized_version_info", None) or version
        return bool(tuple(version[:2]) >= (10, 6))
    return bool(version[0] >= 8)


def placeholders(paramstyle: str, first: int, count: int) -> list[str]:
    """Placeholders of ``count`` positional parameters, the first of them number ``first`` (from 1)."""
    if paramstyle in ("format", "pyformat"):
        return ["%s"] * count
    if paramstyle == "numeric_dollar":
        return [f"${number}" for number in range(first, first + count)]
    return ["?"] * count


class UpsertSyntax:
    """Texts of multi-row inserts for one dialect. Every identifier is quoted.

    :param dialect: of an engine that has connected once, so that its version is known.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._preparer = dialect.identifier_preparer
        self.paramstyle = dialect.paramstyle
        self.family = "mysql" if dialect.name == "mariadb" else dialect.name
        pipeline = getattr(dialect.dbapi, "Pipeline", None)
        self._pipelines = dialect.driver.startswith("psycopg") and bool(pipeline and pipeline.is_supported())
        version = dialect.server_version_info or (0,)
        self._row_alias = (
            self.family == "mysql"
            and not getattr(dialect, "is_mariadb", False)
            and tuple(version) >= (8, 0, 19)
        )

    @property
    def pipelined_rows(self) -> int:
        """Rows of one of many statements that the driver sends without waiting for answers; 0 if it waits."""
        return PIPELINED_ROWS if self._pipelines else 0

    @property
    def max_parameters(self) -> int:
        """Parameters that one statement may have."""
        return MAX_PARAMETERS.get(self.family, 999)

    @property
    def any_unique_index_counts(self) -> bool:
        """Whether an upsert updates a row found by another unique index than that of the keys."""
        return self.family == "mysql"

    def quote(self, name: str) -> str:
        return self._preparer.quote_identifier(name)

    def raw(self, expression: str) -> str:
        """A trusted expression as it has to stand in the text of a statement."""
        return expression.replace("%", "%%") if self.paramstyle in ("format", "pyformat") else expression

    def new_value(self, column: str) -> str:
        """The value that the insert brought, within the update of an upsert."""
        quoted = self.quote(column)
        if self.family != "mysql":
            return f"excluded.{quoted}"
        return f"new.{quoted}" if self._row_alias else f"VALUES({quoted})"

    def insert(self, table: sa.Table, columns: Sequence[str], rows: int, conflict: str) -> str:
        """``INSERT`` of ``rows`` rows."""
        names = ", ".join(self.quote(column) for column in columns)
        if self.paramstyle == "numeric_dollar":
            width = len(columns)
            values = ", ".join(
                f"({', '.join(placeholders(self.paramstyle, row * width + 1, width))})" for row in range(rows)
            )
        else:
            one = f"({', '.join(placeholders(self.paramstyle, 1, len(columns)))})"
            values = ", ".join([one] * rows)
        return f"INSERT INTO {self._preparer.format_table(table)} ({names}) VALUES {values}{conflict}"  # noqa: S608

    def on_conflict_ignore(self, keys: Sequence[str]) -> str:
        """What leaves rows alone that exist already."""
        if self.family != "mysql":
            return " ON CONFLICT DO NOTHING"
        column = self.quote(keys[0])
        return f" ON DUPLICATE KEY UPDATE {column} = {column}"

    def on_conflict_update(
        self, keys: Sequence[str], columns: Sequence[str], expressions: Mapping[str, str]
    ) -> str:
        """What updates rows that exist already.

        :param expressions: column -> trusted SQL.
        """
        assignments = [f"{self.quote(column)} = {self.new_value(column)}" for column in columns]
        assignments += [f"{self.quote(column)} = {self.raw(text)}" for column, text in expressions.items()]
        target = ", ".join(self.quote(key) for key in keys)
        if self.family == "mysql":
            alias = " AS new" if self._row_alias else ""
            changes = ", ".join(assignments) or f"{self.quote(keys[0])} = {self.quote(keys[0])}"
            return f"{alias} ON DUPLICATE KEY UPDATE {changes}"
        if not assignments:
            return f" ON CONFLICT ({target}) DO NOTHING"
        return f" ON CONFLICT ({target}) DO UPDATE SET {', '.join(assignments)}"
