"""What a database error means, and the errors that this package raises in place of it.

Works on errors of SQLAlchemy, psycopg, asyncpg, PyMySQL, mysqlclient and sqlite3 by their codes, and imports
none of them.

Errors of a driver quote the values of the statement, and SQLAlchemy adds its parameters. What is raised here
instead carries the code, the table and the kind alone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sqs_workers.exceptions import PermanentError, SQSError
from sqs_workers.sql.error_codes import (
    MYSQL,
    OTHER_SQLSTATE_CLASSES,
    SQLITE,
    SQLSTATE_CLASSES,
    SQLSTATES,
    DatabaseErrorKind,
)

__all__ = [
    "DatabaseError",
    "DatabaseErrorKind",
    "DatabaseUnavailable",
    "PayloadConflict",
    "RowCountError",
    "RowRefused",
    "classify",
    "describe",
    "hide_parameters",
    "is_retryable",
    "is_temporary",
    "translate",
    "translated",
]


class DatabaseError(SQSError):
    """The database failed, without the values that the driver's error would quote.

    :ivar kind: what the failure means.
    :ivar code: SQLSTATE, or error number as text; empty if there is none.
    """

    def __init__(self, message: str, *, kind: DatabaseErrorKind, code: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code


class DatabaseUnavailable(DatabaseError):
    """No connection, overload, a shutdown or a failover: for ``PauseOn(errors=(DatabaseUnavailable,))``."""


class PayloadConflict(PermanentError):
    """An event id came with another payload than the first time.

    :ivar consumer: the consumer of the inbox, or the operation of an idempotent call.
    :ivar event_id: the id, as it is stored.
    """

    def __init__(self, consumer: str, event_id: str) -> None:
        super().__init__(
            f"event {event_id!r} was processed by {consumer!r} with another payload. Nothing was written. "
            "Two events share an id, or the sender changed one: find out which of them is right"
        )
        self.consumer = consumer
        self.event_id = event_id

    def __reduce__(self) -> tuple[type[PayloadConflict], tuple[str, str]]:
        return type(self), (self.consumer, self.event_id)


class RowCountError(SQSError):
    """A statement touched another number of rows than it must.

    :ivar expected: rows that it must touch.
    :ivar found: rows that it touched.
    """

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the statement touched {found} row(s) instead of {expected}: the transaction is rolled back"
        )
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type[RowCountError], tuple[int, int]]:
        return type(self), (self.expected, self.found)


class RowRefused(PermanentError):
    """A row that the table does not take: the same row is refused again.

    :ivar code: SQLSTATE, or error number as text; empty if the row was refused before it was sent.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def classify(error: BaseException) -> DatabaseErrorKind:
    """What ``error`` means; ``OTHER`` for errors that are none of a database."""
    for candidate in _chain(error):
        if isinstance(candidate, DatabaseError):
            return candidate.kind
        if isinstance(candidate, PermanentError):
            return DatabaseErrorKind.DATA
        kind = _by_code(candidate) or _by_class(candidate)
        if kind is not None:
            return kind
    return DatabaseErrorKind.OTHER


def is_temporary(error: BaseException) -> bool:
    """Whether ``error`` comes from a database that may answer later: no connection, overload, a deadlock.

    For a worker's pause: ``True`` says nothing against the job or its message.
    """
    return classify(error).temporary


def is_retryable(error: BaseException) -> bool:
    """Whether the database rolled the transaction back because of another one: run it again at once."""
    return classify(error) is DatabaseErrorKind.CONFLICT


def describe(error: BaseException) -> tuple[str, str]:
    """Class name of the driver's error, and its code, without its text."""
    innermost = error
    for candidate in _chain(error):
        innermost = candidate
        code = _code(candidate)
        if code is not None:
            return type(candidate).__name__, str(code)
    return type(innermost).__name__, ""


def translate(error: BaseException, what: str) -> SQSError:
    """An error to raise in place of ``error``, with neither its text nor its parameters.

    :param what: what failed, for instance ``writing to table 'events'``.
    """
    if isinstance(error, SQSError):
        return error
    kind = classify(error)
    name, code = describe(error)
    cls = DatabaseUnavailable if kind is DatabaseErrorKind.UNAVAILABLE else DatabaseError
    return cls(f"{what} failed: {name} {code}".rstrip() + f" ({kind.value})", kind=kind, code=code)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise :func:`translate`'s error in place of whatever the block raises.

    :param what: what failed, for instance ``writing to table 'events'``.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a driver raises may quote the values
        raise translate(error, what) from None


def hide_parameters(error: BaseException) -> None:
    """Keep the parameters of a statement out of the text of SQLAlchemy's error."""
    for candidate in _chain(error):
        if hasattr(candidate, "hide_parameters"):
            candidate.hide_parameters = True


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error``, and the errors of drivers that it wraps, from outside to inside."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        original = getattr(current, "orig", None)
        # asyncpg's own error is the cause of the one that SQLAlchemy's adapter makes of it.
        current = original if isinstance(original, BaseException) else current.__cause__


def _code(error: BaseException) -> str | int | None:
    if _driver(error) in ("pymysql", "MySQLdb"):
        # Their SQLSTATE says less than the number; 0 stands for a connection that is closed already.
        number = error.args[0] if error.args else None
        return number if isinstance(number, int) and number else None
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state) == 5:
            return state
    number = getattr(error, "sqlite_errorcode", None)
    return number if isinstance(number, int) else None


def _by_code(error: BaseException) -> DatabaseErrorKind | None:
    if getattr(error, "connection_invalidated", False):
        return DatabaseErrorKind.UNAVAILABLE
    code = _code(error)
    if code is None:
        return None
    if isinstance(code, str):
        return SQLSTATES.get(code) or _by_sqlstate_class(code[:2])
    if _driver(error) == "sqlite3":
        # The low byte is the primary result code.
        return SQLITE.get(code & 0xFF)
    if code not in MYSQL and getattr(error, "sqlstate", None) == _SIGNAL:
        return DatabaseErrorKind.DATA
    return MYSQL.get(code) or _by_class(error) or DatabaseErrorKind.OTHER


# MySQL's for "unhandled user-defined exception": a trigger refuses the row with a number of its own.
_SIGNAL = "45000"


def _by_sqlstate_class(prefix: str) -> DatabaseErrorKind:
    if prefix in OTHER_SQLSTATE_CLASSES:
        return DatabaseErrorKind.OTHER
    return SQLSTATE_CLASSES.get(prefix, DatabaseErrorKind.DATA)


_DRIVERS = ("psycopg", "psycopg2", "psycopg_pool", "asyncpg", "pymysql", "MySQLdb", "sqlite3", "sqlalchemy")


def _by_class(error: BaseException) -> DatabaseErrorKind | None:
    if isinstance(error, (ConnectionError, socket.gaierror)):
        return DatabaseErrorKind.UNAVAILABLE
    driver = _driver(error)
    names = {cls.__name__ for cls in type(error).__mro__}
    if driver == "sqlalchemy":
        # The pool's timeout; everything else that counts wraps an error of a driver.
        return DatabaseErrorKind.UNAVAILABLE if "TimeoutError" in names else None
    if driver not in _DRIVERS:
        return None
    if driver == "sqlite3":
        return _sqlite_by_text(error, names)
    if names & {"IntegrityError", "DataError"}:
        return DatabaseErrorKind.DATA
    if "ProgrammingError" in names and driver in ("psycopg", "pymysql"):
        # Without a code it was raised by the driver itself: a value that it cannot adapt.
        return DatabaseErrorKind.DATA if _code(error) is None else DatabaseErrorKind.SETUP
    # Without a code these are refused, lost and closed connections.
    if names & {"OperationalError", "InterfaceError"} and _code(error) is None:
        return DatabaseErrorKind.UNAVAILABLE
    return None


def _sqlite_by_text(error: BaseException, names: set[str]) -> DatabaseErrorKind | None:
    """Before Python 3.11, and for what the module itself refuses, sqlite3 gives no code."""
    text = str(error)
    if names & {"IntegrityError", "DataError"}:
        return DatabaseErrorKind.DATA
    if "is locked" in text:
        return DatabaseErrorKind.CONFLICT
    if "unable to open" in text or "disk" in text:
        return DatabaseErrorKind.UNAVAILABLE
    if "binding parameter" in text or "not supported" in text:
        return DatabaseErrorKind.DATA
    return DatabaseErrorKind.SETUP if "no such" in text or "has no column" in text else None


def _driver(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]
