"""One way to run a statement on whatever the caller uses: SQLAlchemy, its ORM, Django, or a plain driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.errors import is_temporary
from sqs_workers.sql.sqla import mysql, postgresql, sa, sqlite

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.sql import Executable

__all__ = ["Executor", "close_lost", "executor_of", "is_async", "open_beside_pool", "transaction"]


class Executor(Protocol):
    """Runs statements in a transaction that somebody else began and will end."""

    @property
    def connection(self) -> Any:
        """The SQLAlchemy connection, or the driver's."""
        ...

    @property
    def dialect_name(self) -> str:
        """``postgresql``, ``mysql`` (for MariaDB, too) or ``sqlite``."""
        ...

    def execute(self, statement: Executable) -> tuple[int, Sequence[Sequence[Any]]]:
        """Rows touched, and the rows that came back."""
        ...


class _SqlAlchemyExecutor:
    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.dialect_name = _family(connection.dialect.name)

    def execute(self, statement: Executable) -> tuple[int, Sequence[Sequence[Any]]]:
        # SQLAlchemy looks at the row count of an INSERT on request only.
        result = self.connection.execute(statement, execution_options={"preserve_rowcount": True})
        return result.rowcount, result.all() if result.returns_rows else ()


class _DriverExecutor:
    """Compiles with SQLAlchemy and runs with the driver, in the caller's transaction."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.connection = connection
        self._dialect = dialect
        self.dialect_name = _family(dialect.name)

    def execute(self, statement: Executable) -> tuple[int, Sequence[Sequence[Any]]]:
        compiled: Any = statement.compile(  # type: ignore[attr-defined]
            dialect=self._dialect, compile_kwargs={"render_postcompile": True}
        )
        values = dict(compiled.construct_params())
        for name, parameter in compiled.binds.items():
            process = parameter.type.dialect_impl(self._dialect).bind_processor(self._dialect)
            if process is not None and name in values:
                values[name] = process(values[name])
        parameters: Any = values
        if compiled.positional:
            parameters = tuple(values[name] for name in compiled.positiontup)
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(str(compiled), parameters)
            return cursor.rowcount, cursor.fetchall() if cursor.description else ()


# Modules of connection classes -> the dialect that writes the SQL and the parameters for them.
_DRIVERS: dict[str, Any] = {
    "psycopg": lambda: _load(postgresql, "psycopg"),
    "psycopg2": lambda: _load(postgresql, "psycopg2"),
    "pymysql": lambda: _load(mysql, "pymysql"),
    "MySQLdb": lambda: _load(mysql, "mysqldb"),
    "sqlite3": lambda: _load(sqlite, "pysqlite"),
}
_dialects: dict[str, Dialect] = {}


def _load(package: Any, driver: str) -> Dialect:
    dialect: Dialect = sa.make_url(f"{package.__name__.rpartition('.')[2]}+{driver}://").get_dialect()()
    return dialect


def _dialect_of_driver(connection: Any) -> Dialect | None:
    for cls in type(connection).__mro__:
        driver = cls.__module__.partition(".")[0]
        if driver in _DRIVERS:
            if driver not in _dialects:
                _dialects[driver] = _DRIVERS[driver]()
            return _dialects[driver]
    return None


def _family(dialect_name: str) -> str:
    return "mysql" if dialect_name == "mariadb" else dialect_name


def executor_of(connection: Any) -> Executor:
    """Runs statements on ``connection``.

    :param connection: a SQLAlchemy ``Connection`` or ORM ``Session``, what :meth:`Inbox.once` yields,
        Django's ``django.db.connection``, or a connection of psycopg, PyMySQL, mysqlclient or sqlite3.
    :raises ConfigurationError: it is none of them, or an asynchronous one.
    """
    if isinstance(connection, sa.Connection):
        return _SqlAlchemyExecutor(connection)
    if isinstance(connection, sa.Engine):
        raise ConfigurationError(
            "an engine is no transaction: use the connection of `with engine.begin() as connection:`"
        )
    if is_async(connection):
        raise ConfigurationError(
            f"{type(connection).__name__} is asynchronous: use the methods whose names begin with 'a'"
        )
    dialect = _dialect_of_driver(connection)
    if dialect is not None:
        return _DriverExecutor(connection, dialect)
    if hasattr(connection, "ensure_connection"):
        # Django's wrapper opens the driver's connection when it is first needed.
        connection.ensure_connection()
        return executor_of(connection.connection)
    inner = getattr(connection, "connection", None)
    if callable(inner):
        return executor_of(inner())
    if inner is not None:
        return executor_of(inner)
    raise ConfigurationError(
        f"{type(connection).__name__} is no connection: give a SQLAlchemy Connection or Session, Django's "
        "connection, or one of psycopg, PyMySQL or sqlite3"
    )


def is_async(target: Any) -> bool:
    """Whether ``target`` is an asynchronous engine, connection or session, or a factory of one."""
    classes = type(target).__mro__
    if any(cls.__module__.startswith("sqlalchemy.ext.asyncio") for cls in classes):
        return True
    return any(cls.__module__ == "psycopg.connection_async" for cls in classes)


def open_beside_pool(engine: sa.Engine, isolation_level: str) -> sa.Connection:
    """A connection that the pool no longer counts: whoever opens it closes it, with :func:`close_lost`."""
    connection = engine.connect()
    try:
        connection.execution_options(isolation_level=isolation_level)
        connection.detach()
    except BaseException:
        close_lost(connection)
        raise
    return connection


def close_lost(connection: sa.Connection) -> None:
    """Close a connection that stands beside its pool and that the server may have ended already."""
    try:
        connection.close()
    except Exception as error:
        # The rollback that comes before has nobody to go to.
        if not is_temporary(error):
            raise


@contextmanager
def transaction(source: Any) -> Iterator[Any]:
    """A transaction of ``source``: committed at the end of the block, rolled back if the block raises.

    :param source: a SQLAlchemy engine (yields a ``Connection``), a ``sessionmaker`` (yields a ``Session``),
        or a callable that opens a connection of a driver (yields it, and closes it at the end).
    :raises ConfigurationError: it is asynchronous.
    """
    if is_async(source):
        raise ConfigurationError("this engine is asynchronous: use the methods whose names begin with 'a'")
    if isinstance(source, sa.Engine):
        with source.begin() as connection:
            yield connection
    elif hasattr(source, "begin"):
        with source.begin() as session:
            yield session
    else:
        with closing(source()) as connection:
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
