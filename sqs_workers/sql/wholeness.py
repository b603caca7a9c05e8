"""Whether a connection is in one transaction from its first statement to its last.

What an inbox or an outbox promises is worth nothing if each statement commits for itself, or if the
transaction was rolled back on the way and nobody noticed:

- PostgreSQL answers ``COMMIT`` after a failed statement with a rollback, and without an error.
- MySQL rolls the whole transaction back at a deadlock and begins another one with the next statement.
- A handler may roll back, or commit, by itself.

All of that is read from the driver's own state, without asking the server (asyncpg keeps it to itself).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.errors import DatabaseError, DatabaseErrorKind, describe, is_retryable
from sqs_workers.sql.sqla import sa

__all__ = ["Watch", "ended", "refuse_autocommit"]

_IDLE, _IN_ERROR = 0, 3  # of libpq's PQtransactionStatus
_IN_TRANSACTION = 1  # of MySQL's server status
_ROLLED_BACK = "sqs_workers.rolled_back"
# At a lock that is not free MySQL takes back the statement alone.
_STATEMENT_ALONE = ("1205", "3572")


@dataclass(frozen=True)
class _State:
    """What a driver knows of its connection; ``None`` where it does not."""

    autocommit: bool = False
    in_transaction: bool | None = None
    failed: bool | None = False


def _postgresql(connection: Any, _adapter: Any) -> _State:
    status = int(connection.info.transaction_status)
    return _State(bool(connection.autocommit), status != _IDLE, status == _IN_ERROR)


def _asyncpg(connection: Any, adapter: Any) -> _State:
    return _State(bool(getattr(adapter, "autocommit", False)), connection.is_in_transaction(), None)


def _pymysql(connection: Any, _adapter: Any) -> _State:
    return _State(connection.get_autocommit(), bool(connection.server_status & _IN_TRANSACTION))


def _mysqlclient(connection: Any, _adapter: Any) -> _State:
    return _State(bool(connection.get_autocommit()))


def _sqlite(connection: Any, _adapter: Any) -> _State:
    # The attribute came with Python 3.12; -1 there means that isolation_level counts.
    autocommit = getattr(connection, "autocommit", -1)
    if autocommit == -1:
        autocommit = connection.isolation_level is None
    return _State(bool(autocommit), connection.in_transaction)


_STATES: dict[str, Any] = {
    "psycopg": _postgresql,
    "psycopg2": _postgresql,
    "asyncpg": _asyncpg,
    "pymysql": _pymysql,
    "MySQLdb": _mysqlclient,
    "sqlite3": _sqlite,
    "aiosqlite": _sqlite,
}


def _state(connection: Any) -> _State:
    adapter = driver = connection
    if isinstance(connection, sa.Connection):
        adapter = connection.connection.dbapi_connection
        # One that was detached from its pool has the first alone.
        driver = connection.connection.driver_connection or adapter
    for cls in type(driver).__mro__:
        read = _STATES.get(cls.__module__.partition(".")[0])
        if read is not None:
            found: _State = read(driver, adapter)
            return found
    return _State()


def refuse_autocommit(connection: Any) -> None:
    """Refuse a connection on which every statement would be a transaction of its own.

    :param connection: a SQLAlchemy ``Connection``, or one of a driver.
    :raises ConfigurationError: it commits by itself, and no transaction was begun on it.
    """
    state = _state(connection)
    if state.autocommit and not state.in_transaction:
        raise ConfigurationError(
            "this connection commits every statement by itself, so that nothing could be rolled back "
            "together: begin a transaction first (Django: `with transaction.atomic():`), or use an engine "
            "without isolation_level='AUTOCOMMIT', or a connection without autocommit"
        )


def ended(connection: Any) -> bool:
    """Whether the transaction has ended, as far as the driver knows."""
    return _state(connection).in_transaction is False


class Watch:
    """Notices that a transaction did not last. Made after its first statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._begun: Any = None
        if isinstance(connection, sa.Connection):
            self._begun = connection.get_transaction()
            _listen(connection.engine)

    def check(self) -> None:
        """Call it before the commit.

        :raises DatabaseError: the transaction has ended, or the database will not commit it.
        """
        connection, conflict = self._connection, False
        if isinstance(connection, sa.Connection):
            if connection.get_transaction() is not self._begun:
                raise _ended()
            conflict = connection.info.pop(_ROLLED_BACK, None) is self._begun
            if conflict and connection.dialect.name in ("mysql", "mariadb"):
                raise _failed(DatabaseErrorKind.CONFLICT)
        state = _state(connection)
        if state.failed or (state.failed is None and _fails(connection)):
            raise _failed(DatabaseErrorKind.CONFLICT if conflict else DatabaseErrorKind.OTHER)
        if state.in_transaction is False:
            raise _ended()


def _fails(connection: sa.Connection) -> bool:
    try:
        connection.exec_driver_sql("SELECT 1")
    except sa.exc.DBAPIError:
        return True
    return False


def _ended() -> DatabaseError:
    return DatabaseError(
        "the transaction was ended inside of its block, by a commit, a rollback or a statement that commits "
        "(DDL on MySQL): leave that to the block, and raise an error to roll back",
        kind=DatabaseErrorKind.OTHER,
    )


def _failed(kind: DatabaseErrorKind) -> DatabaseError:
    return DatabaseError(
        "a statement failed, its error was caught, and the database has given up the transaction: nothing "
        "would be committed. Let the error pass, or run the statement in a savepoint (begin_nested)",
        kind=kind,
    )


def _listen(engine: sa.Engine) -> None:
    if not sa.event.contains(engine, "handle_error", _note_rollback):
        sa.event.listen(engine, "handle_error", _note_rollback)


def _note_rollback(context: Any) -> None:
    error, connection = context.original_exception, context.connection
    if connection is None or connection.closed or connection.invalidated:
        return
    if is_retryable(error) and describe(error)[1] not in _STATEMENT_ALONE:
        connection.info[_ROLLED_BACK] = connection.get_transaction()
