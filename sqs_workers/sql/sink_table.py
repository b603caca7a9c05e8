"""The table of a sink as the database knows it, and the refusal of what cannot work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.dialects import UpsertSyntax
from sqs_workers.sql.sqla import mysql, postgresql, sa

__all__ = ["SinkOptions", "SinkTable", "inspect_table"]


@dataclass(frozen=True)
class SinkOptions:
    """What the user asked for."""

    table: str
    schema: str | None
    mode: str
    keys: tuple[str, ...]
    update_columns: tuple[str, ...] | None
    update_expr: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


class SinkTable:
    """What a sink has to know of its table.

    :ivar kinds: column -> ``array``, ``aware`` or ``other``.
    :ivar unique: sets of columns that are unique.
    :ivar generated: columns to which the database alone gives a value.
    :ivar max_bytes: of one statement, with a margin for quoting.
    :ivar exact: different texts in the columns of the keys are different keys.
    """

    def __init__(
        self,
        options: SinkOptions,
        syntax: UpsertSyntax,
        kinds: Mapping[str, str],
        unique: Iterable[frozenset[str]],
        generated: Iterable[str],
        max_bytes: int,
        exact: bool,
    ) -> None:
        self._options = options
        self._table = sa.Table(options.table, sa.MetaData(), schema=options.schema)
        self._conflicts: dict[tuple[str, ...], str] = {}
        self._statements: dict[tuple[tuple[str, ...], int], str] = {}
        self.syntax = syntax
        self.kinds = kinds
        self.unique = tuple(unique)
        self.generated = frozenset(generated)
        self.max_bytes = max_bytes
        self.exact = exact

    def statement(self, columns: tuple[str, ...], rows: int) -> str:
        """Text of the statement that writes ``rows`` rows of ``columns``."""
        text = self._statements.get((columns, rows))
        if text is None:
            if len(self._statements) >= 64:
                self._statements.clear()
            text = self.syntax.insert(self._table, columns, rows, self._conflict(columns))
            self._statements[columns, rows] = text
        return text

    def _conflict(self, columns: tuple[str, ...]) -> str:
        if columns not in self._conflicts:
            self._conflicts[columns] = self._make_conflict(columns)
        return self._conflicts[columns]

    def _make_conflict(self, columns: tuple[str, ...]) -> str:
        options = self._options
        if options.mode == "insert":
            return ""
        if options.mode == "insert_ignore":
            return self.syntax.on_conflict_ignore(options.keys or columns)
        self._refuse_other_unique_indexes(columns)
        chosen = columns if options.update_columns is None else options.update_columns
        updated = [
            column
            for column in chosen
            if column in columns and column not in options.keys and column not in options.update_expr
        ]
        return self.syntax.on_conflict_update(options.keys, updated, options.update_expr)

    def _refuse_other_unique_indexes(self, columns: tuple[str, ...]) -> None:
        """On MySQL a row found by any unique index is updated: that of another event, perhaps."""
        if not self.syntax.any_unique_index_counts:
            return
        for unique in self.unique:
            if unique != frozenset(self._options.keys) and unique <= set(columns):
                raise ConfigurationError(
                    f"table {self._options.name!r} has another unique index over "
                    f"{', '.join(sorted(unique))}: MySQL's ON DUPLICATE KEY UPDATE would update the row that "
                    f"it finds instead of the one with the same {', '.join(self._options.keys)}. Leave these "
                    "columns out of the rows, drop the index, or use mode 'insert' or 'insert_ignore'"
                )


def inspect_table(connection: sa.Connection, options: SinkOptions) -> SinkTable:
    """Read what the database knows of the table.

    :raises ConfigurationError: the sink could not work; the error says what to do.
    """
    inspector = sa.inspect(connection)
    if not inspector.has_table(options.table, schema=options.schema):
        raise ConfigurationError(
            f"there is no table {options.name!r} in this database: create it, or correct `table` or `schema`"
        )
    columns = inspector.get_columns(options.table, schema=options.schema)
    names = [str(column["name"]) for column in columns]
    _refuse_unknown(options, names)
    unique = _unique_sets(inspector, options)
    if options.mode == "upsert" and frozenset(options.keys) not in unique:
        keys = ", ".join(options.keys)
        raise ConfigurationError(
            f"table {options.name!r} has no unique index over exactly ({keys}), without which an upsert "
            f"finds no row to update: CREATE UNIQUE INDEX {options.table}_{'_'.join(options.keys)} "
            f"ON {options.name} ({keys})"
        )
    _refuse_unfit_indexes(connection, options)
    generated = [str(column["name"]) for column in columns if _is_generated(column)]
    _refuse_generated(options, generated)
    packet = _refuse_lax_mode(connection, options, columns)
    kinds = {str(column["name"]): _kind(column["type"]) for column in columns}
    # Quoting doubles a byte at worst.
    max_bytes = (packet - 64 * 1024) // 2
    exact = connection.dialect.name == "postgresql" and all(
        _is_exact(column["type"]) for column in columns if column["name"] in options.keys
    )
    return SinkTable(options, UpsertSyntax(connection.dialect), kinds, unique, generated, max_bytes, exact)


def _is_generated(column: Any) -> bool:
    return "computed" in column or bool((column.get("identity") or {}).get("always"))


def _refuse_generated(options: SinkOptions, generated: Sequence[str]) -> None:
    written = {*(options.update_columns or ()), *options.update_expr} & set(generated)
    if written:
        raise ConfigurationError(
            f"table {options.name!r} makes {', '.join(sorted(written))} by itself: take it out of "
            "update_columns and update_expr"
        )


def _refuse_unknown(options: SinkOptions, names: Sequence[str]) -> None:
    for option, wanted in (
        ("keys", options.keys),
        ("update_columns", options.update_columns or ()),
        ("update_expr", tuple(options.update_expr)),
    ):
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise ConfigurationError(
                f"{option} names {', '.join(map(repr, unknown))}, which table {options.name!r} does not "
                f"have; its columns are {', '.join(names)}"
            )


def _unique_sets(inspector: Any, options: SinkOptions) -> set[frozenset[str]]:
    table, schema = options.table, options.schema
    found = {frozenset(inspector.get_pk_constraint(table, schema=schema)["constrained_columns"])}
    found |= {frozenset(c["column_names"]) for c in inspector.get_unique_constraints(table, schema=schema)}
    for index in inspector.get_indexes(table, schema=schema):
        partial = any(key.endswith("_where") for key in index.get("dialect_options", {}))
        if index["unique"] and not partial and None not in index["column_names"]:
            found.add(frozenset(index["column_names"]))
    return found - {frozenset()}


def _refuse_unfit_indexes(connection: sa.Connection, options: SinkOptions) -> None:
    """Refuse unique indexes by which the database finds no row, or that of another key."""
    where = {"table": options.table, "schema": options.schema}
    if connection.dialect.name == "postgresql":
        found, why = _DEFERRABLE, "is deferrable, and ON CONFLICT takes none that is: make it NOT DEFERRABLE"
    elif connection.dialect.name in ("mysql", "mariadb"):
        found, why = (
            _BY_PREFIX,
            "compares the beginning of a value alone, and so takes other keys for the same",
        )
    else:
        return
    for index, columns in connection.execute(sa.text(found), where):
        keys = set(columns.split(",")) == set(options.keys)
        if (options.mode == "upsert" and keys) or options.mode == "insert_ignore":
            raise ConfigurationError(
                f"the unique index {index!r} of table {options.name!r} {why}. Or use mode 'insert'"
            )


def _refuse_without_transactions(connection: sa.Connection, options: SinkOptions) -> None:
    """On MySQL a statement that fails leaves some of its rows in such a table, or cuts their values."""
    where = {"table": options.table, "schema": options.schema}
    for (engine,) in connection.execute(sa.text(_WITHOUT_TRANSACTIONS), where):
        raise ConfigurationError(
            f"table {options.name!r} has the storage engine {engine}, which has no transactions, so that rows "
            f"would be written in part and others cut: ALTER TABLE {options.name} ENGINE = InnoDB"
        )


_DEFERRABLE = """
SELECT c.relname, string_agg(a.attname, ',')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = to_regclass(coalesce(quote_ident(:schema) || '.', '') || quote_ident(:table))
AND i.indisunique AND NOT i.indimmediate GROUP BY c.relname
"""
_BY_PREFIX = """
SELECT index_name, GROUP_CONCAT(column_name) FROM information_schema.statistics
WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name = :table AND non_unique = 0
GROUP BY index_name HAVING MAX(sub_part) IS NOT NULL
"""
_WITHOUT_TRANSACTIONS = """
SELECT e.engine FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine
WHERE t.table_schema = COALESCE(:schema, DATABASE()) AND t.table_name = :table AND e.transactions = 'NO'
"""


def _refuse_lax_mode(connection: sa.Connection, options: SinkOptions, columns: Sequence[Any]) -> int:
    """Bytes that one statement may have."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return 2**30
    mode, offset, packet = connection.exec_driver_sql(
        "SELECT @@SESSION.sql_mode, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()), @@max_allowed_packet"
    ).one()
    if "STRICT_TRANS_TABLES" not in mode and "STRICT_ALL_TABLES" not in mode:
        raise ConfigurationError(
            f"sql_mode of this connection is not strict, so that values that do not fit table "
            f"{options.name!r} would be cut without an error: add STRICT_TRANS_TABLES to sql_mode"
        )
    _refuse_without_transactions(connection, options)
    zoned = [column["name"] for column in columns if isinstance(column["type"], mysql.TIMESTAMP)]
    if zoned and abs(int(offset)) > 1:
        raise ConfigurationError(
            f"table {options.name!r} has TIMESTAMP columns ({', '.join(zoned)}) and the time zone of this "
            "connection is not UTC, so that moments would be shifted: set time_zone to '+00:00' "
            "(connect_args={'init_command': \"SET time_zone = '+00:00'\"}), or use DATETIME"
        )
    return int(packet)


def _is_exact(type_: Any) -> bool:
    """Whether PostgreSQL compares texts byte by byte, as it does unless a column asks for something else."""
    base = getattr(type_, "data_type", type_)
    named = getattr(type_, "collation", None) or getattr(base, "collation", None)
    return named is None and not isinstance(base, postgresql.CITEXT)


def _kind(type_: Any) -> str:
    if isinstance(type_, sa.ARRAY):
        return "array"
    return "aware" if getattr(type_, "timezone", False) else "other"
