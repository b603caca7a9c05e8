"""The tables of inbox, outbox, idempotent calls and schedules, as SQLAlchemy metadata.

``metadata`` holds them under their usual names, for Alembic's ``target_metadata``; :class:`Tables` makes
others. A later version only ever adds tables, indexes and columns that may be empty or have a default, so
that workers of two versions run side by side; :func:`create_tables` adds what is missing and changes
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.errors import translated
from sqs_workers.sql.sqla import mysql, sa, sa_schema

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

__all__ = ["DEFAULT_TABLES", "Tables", "create_tables", "ddl", "metadata"]

_MYSQL = ("mysql", "mariadb")

# What has to be equal byte by byte must not be compared by a collation that ignores case.
_BINARY = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}

_TABLE_OPTIONS: Any = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def _exact(length: int) -> Any:
    return sa.String(length).with_variant(mysql.VARCHAR(length, **_BINARY), *_MYSQL)


def _moment() -> Any:
    """UTC; with a time zone on PostgreSQL, without on the others, to the microsecond."""
    return sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), *_MYSQL)


def _long_text() -> Any:
    # MySQL's TEXT ends at 64 KiB, a message at 1 MiB.
    return sa.Text().with_variant(mysql.LONGTEXT(**_BINARY), *_MYSQL)


def _row_id() -> Any:
    # SQLite numbers rows of an INTEGER key alone.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Tables:
    """The tables, under names and in a schema of your choice.

    :param processed_events: name of the inbox's table.
    :param outbox_messages: name of the outbox's table.
    :param idempotent_calls: name of the table of idempotent calls.
    :param schedule_slots: name of the table of a beat's lease.
    :param schema: schema (PostgreSQL), database (MySQL) or attached database (SQLite); ``None`` for the
        connection's own.
    :param metadata: SQLAlchemy metadata to which the tables are added; a new one by default.
    :raises ConfigurationError: two tables have the same name.
    """

    def __init__(
        self,
        *,
        processed_events: str = "processed_events",
        outbox_messages: str = "outbox_messages",
        idempotent_calls: str = "idempotent_calls",
        schedule_slots: str = "schedule_slots",
        schema: str | None = None,
        metadata: sa.MetaData | None = None,
    ) -> None:
        if len({processed_events, outbox_messages, idempotent_calls, schedule_slots}) != 4:
            raise ConfigurationError(
                "the tables of inbox, outbox, idempotent calls and schedules need different names"
            )
        self.metadata = sa.MetaData() if metadata is None else metadata
        self.processed_events = _processed_events(processed_events, schema, self.metadata)
        self.outbox_messages = _outbox_messages(outbox_messages, schema, self.metadata)
        self.idempotent_calls = _idempotent_calls(idempotent_calls, schema, self.metadata)
        self.schedule_slots = _schedule_slots(schedule_slots, schema, self.metadata)

    @property
    def all(self) -> tuple[sa.Table, ...]:
        """The tables, in the order in which they are created."""
        return (self.processed_events, self.outbox_messages, self.idempotent_calls, self.schedule_slots)

    def __repr__(self) -> str:
        return f"<Tables {', '.join(table.fullname for table in self.all)}>"


def _processed_events(name: str, schema: str | None, metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("consumer", _exact(100), nullable=False),
        sa.Column("event_id", _exact(255), nullable=False),
        sa.Column("payload_hash", sa.String(80), nullable=False),
        sa.Column("processed_at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("consumer", "event_id", name=f"pk_{name}"),
        sa.Index(f"ix_{name}_processed_at", "processed_at"),
        schema=schema,
        **_TABLE_OPTIONS,
    )


def _outbox_messages(name: str, schema: str | None, metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("id", _row_id(), primary_key=True, autoincrement=True),
        sa.Column("outbox_id", _exact(36), nullable=False),
        sa.Column("state", _exact(10), nullable=False, server_default="pending"),
        sa.Column("queue_name", _exact(255), nullable=False),
        sa.Column("group_id", _exact(128)),
        sa.Column("deduplication_id", _exact(128)),
        sa.Column("job_name", _exact(255), nullable=False, server_default=""),
        sa.Column("body", _long_text(), nullable=False),
        sa.Column("attributes", _long_text(), nullable=False),
        sa.Column("delay_seconds", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("created_at", _moment(), nullable=False),
        sa.Column("not_before", _moment()),
        sa.Column("leased_until", _moment()),
        sa.Column("lease", _exact(36)),
        sa.Column("settled_at", _moment()),
        sa.Column("message_id", _exact(100)),
        sa.Column("reason", sa.String(500)),
        sa.UniqueConstraint("outbox_id", name=f"uq_{name}_outbox_id"),
        sa.Index(f"ix_{name}_state", "state", "id"),
        sa.Index(f"ix_{name}_group", "queue_name", "group_id", "state", "id"),
        sa.Index(f"ix_{name}_settled_at", "settled_at"),
        schema=schema,
        **_TABLE_OPTIONS,
    )


def _idempotent_calls(name: str, schema: str | None, metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("operation", _exact(100), nullable=False),
        sa.Column("call_key", _exact(255), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("request_hash", sa.String(80), nullable=False),
        sa.Column("answer", _long_text()),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("owner", _exact(36)),
        sa.Column("leased_until", _moment()),
        sa.Column("created_at", _moment(), nullable=False),
        sa.Column("updated_at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "call_key", name=f"pk_{name}"),
        sa.Index(f"ix_{name}_state", "operation", "state", "updated_at"),
        schema=schema,
        **_TABLE_OPTIONS,
    )


def _schedule_slots(name: str, schema: str | None, metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("lease", _exact(100), nullable=False),
        sa.Column("schedule", _exact(64), nullable=False),
        sa.Column("last_slot", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("lease", "schedule", name=f"pk_{name}"),
        schema=schema,
        **_TABLE_OPTIONS,
    )


metadata = sa.MetaData()
DEFAULT_TABLES = Tables(metadata=metadata)


def create_tables(engine: sa.Engine, tables: Tables = DEFAULT_TABLES) -> list[str]:
    """Create what is missing: tables, columns, indexes. Existing rows stay as they are.

    Several processes may call it at once.

    :returns: what was added, for instance ``table outbox_messages``; empty if nothing was missing.
    :raises DatabaseError: the database refused.
    """
    added: list[str] = []
    with translated("creating the tables"), engine.begin() as connection, _exclusively(connection):
        for table in tables.all:
            if not sa.inspect(connection).has_table(table.name, schema=table.schema):
                table.create(connection)
                added.append(f"table {table.fullname}")
            else:
                added.extend(_complete(connection, table))
    return added


def ddl(dialect: str | Dialect, tables: Tables = DEFAULT_TABLES) -> str:
    """The statements that create the tables, as text for a migration.

    :param dialect: ``postgresql``, ``mysql``, ``mariadb``, ``sqlite``, or a SQLAlchemy dialect.
    :raises ConfigurationError: there is no dialect of this name.
    """
    if isinstance(dialect, str):
        try:
            target = sa.make_url(f"{dialect}://").get_dialect()()
        except (sa.exc.NoSuchModuleError, sa.exc.ArgumentError):
            raise ConfigurationError(
                f"no dialect {dialect!r}: use postgresql, mysql, mariadb or sqlite"
            ) from None
    else:
        target = dialect
    statements: list[str] = []
    for table in tables.all:
        statements.append(str(sa_schema.CreateTable(table).compile(dialect=target)).strip())
        statements.extend(
            str(sa_schema.CreateIndex(index).compile(dialect=target)).strip()
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        )
    return ";\n\n".join(statements) + ";\n"


def _complete(connection: sa.Connection, table: sa.Table) -> list[str]:
    """Add the columns and indexes that an older version did not have."""
    inspector = sa.inspect(connection)
    preparer = connection.dialect.identifier_preparer
    present = {column["name"] for column in inspector.get_columns(table.name, schema=table.schema)}
    added: list[str] = []
    for column in table.columns:
        if column.name in present:
            continue
        definition = sa_schema.CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {definition}")
        added.append(f"column {table.fullname}.{column.name}")
    indexes = {index["name"] for index in inspector.get_indexes(table.name, schema=table.schema)}
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        if index.name not in indexes:
            index.create(connection)
            added.append(f"index {index.name}")
    return added


class _exclusively:  # noqa: N801
    """One at a time: ``CREATE TABLE IF NOT EXISTS`` alone fails when two run it at the same moment."""

    _NAME = "sqs_workers.create_tables"
    _NUMBER = 7_305_128_001_941

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name

    def __enter__(self) -> None:
        if self._dialect == "postgresql":
            # Released with the transaction.
            self._connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self._NUMBER)))
        elif self._dialect in _MYSQL:
            self._connection.execute(sa.select(sa.func.get_lock(self._NAME, 60)))
        elif self._dialect == "sqlite":
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        if self._dialect in _MYSQL:
            self._connection.execute(sa.select(sa.func.release_lock(self._NAME)))
