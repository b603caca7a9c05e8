"""What the error codes of PostgreSQL, MySQL, MariaDB and SQLite mean for the one who has to go on.

PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html
MySQL: https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
MariaDB: https://mariadb.com/kb/en/mariadb-error-code-reference/
SQLite: https://www.sqlite.org/rescode.html
"""

from __future__ import annotations

from enum import Enum

__all__ = ["MYSQL", "SQLITE", "SQLSTATES", "SQLSTATE_CLASSES", "DatabaseErrorKind"]


class DatabaseErrorKind(str, Enum):
    """Why the database refused."""

    CONFLICT = "conflict"
    """Another transaction stood in the way: the whole transaction is to be run again."""
    UNAVAILABLE = "unavailable"
    """No connection, overload, shutdown, a failover: wait and go on. What was asked may have happened."""
    DATA = "data"
    """A value that does not fit or breaks a constraint: the same row is refused again."""
    SETUP = "setup"
    """A missing table or column, no permission, a statement that is wrong: somebody must change it."""
    OTHER = "other"
    """Anything else."""

    @property
    def temporary(self) -> bool:
        """Whether trying again later may help without anybody changing anything."""
        return self in (DatabaseErrorKind.CONFLICT, DatabaseErrorKind.UNAVAILABLE)


_CONFLICT = DatabaseErrorKind.CONFLICT
_UNAVAILABLE = DatabaseErrorKind.UNAVAILABLE
_DATA = DatabaseErrorKind.DATA
_SETUP = DatabaseErrorKind.SETUP

SQLSTATE_CLASSES: dict[str, DatabaseErrorKind] = {
    "08": _UNAVAILABLE,  # connection exception
    "53": _UNAVAILABLE,  # insufficient resources: too many connections, disk full, out of memory
    "57": _UNAVAILABLE,  # operator intervention: shutdown, crash, statement timeout
    "58": _UNAVAILABLE,  # system error: input and output
    "40": _CONFLICT,  # transaction rollback
    "22": _DATA,  # data exception
    "23": _DATA,  # integrity constraint violation
    "44": _DATA,  # WITH CHECK OPTION violation
    "28": _SETUP,  # invalid authorization
    "3D": _SETUP,  # no such database
    "3F": _SETUP,  # no such schema
    "42": _SETUP,  # syntax error, missing object, missing permission
    "0A": _SETUP,  # feature not supported
    "P0": _DATA,  # a function or trigger in PL/pgSQL refuses the row
}

OTHER_SQLSTATE_CLASSES = frozenset(
    "00 01 02 03 09 0B 0F 0L 0P 0Z 10 20 21 24 25 26 27 2B 2D 2F 34 38 39 3B 54 55 72 F0 HV XX".split()  # noqa: SIM905
)
"""The rest of PostgreSQL's own. Whatever else comes, a user's function or trigger has chosen: it refuses the row."""

SQLSTATES: dict[str, DatabaseErrorKind] = {
    "40001": _CONFLICT,  # serialization failure
    "40P01": _CONFLICT,  # deadlock detected
    "40003": _UNAVAILABLE,  # statement completion unknown
    "55P03": _CONFLICT,  # lock not available, lock timeout
    "25006": _UNAVAILABLE,  # read-only transaction: a failover has left us on a replica
    "25P03": _UNAVAILABLE,  # idle-in-transaction timeout: the connection is gone
    "25P04": _UNAVAILABLE,  # transaction timeout: the connection is gone
    "42804": _DATA,  # the type of the value is not that of the column
    "42846": _DATA,  # no cast between them
    "54000": _DATA,  # a row, or its entry in an index, is too big
}

MYSQL: dict[int, DatabaseErrorKind] = {
    **dict.fromkeys(
        (
            1020,  # record has changed since last read (MariaDB with innodb_snapshot_isolation)
            1205,  # lock wait timeout
            1213,  # deadlock
            1412,  # the table was altered since the transaction began
            1613,  # XA: deadlock
            1614,  # XA: rolled back, deadlock
            3101,  # MySQL: a member of the group has changed the same row
            3572,  # NOWAIT: the row is locked
        ),
        _CONFLICT,
    ),
    **dict.fromkeys(
        (
            3,  # error writing a file: disk full
            1021,  # disk full
            1026,  # error writing a file
            1037,  # out of memory
            1038,  # out of sort memory
            1040,  # too many connections
            1041,  # out of resources
            1042,  # cannot resolve the host
            1043,  # bad handshake
            1047,  # unknown command: a Galera node that is not ready
            1053,  # server shutdown in progress
            1077,  # normal shutdown
            1079,  # shutdown complete
            1080,  # forcing close of thread
            1105,  # unknown error, sent by proxies that lost their server
            1114,  # table full
            1129,  # host blocked after many connection errors
            1158,  # network: read
            1159,  # network: read timeout
            1160,  # network: write
            1161,  # network: write timeout
            1184,  # aborted connection
            1180,  # error during the commit
            1203,  # user has too many connections
            1206,  # more locks than the server has room for
            1226,  # user has used up a resource
            1290,  # running with --read-only: a failover has left us on a replica
            1317,  # query interrupted
            1637,  # too many concurrent transactions
            1792,  # read-only transaction
            1836,  # running in read-only mode
            1927,  # MariaDB: connection was killed
            1969,  # MariaDB: max_statement_time exceeded
            2002,  # cannot connect through the socket
            2003,  # cannot connect
            2005,  # unknown host
            2006,  # server has gone away
            2012,  # error in the handshake
            2013,  # lost connection during a query
            2014,  # commands out of sync, after an interrupted answer
            2027,  # malformed packet
            2055,  # lost connection
            3024,  # MySQL: max_execution_time exceeded
            3169,  # MySQL: the session was killed
            4031,  # MySQL: disconnected for inactivity
            9001,  # ProxySQL: no server could be reached in time
        ),
        _UNAVAILABLE,
    ),
    **dict.fromkeys(
        (
            1048,  # column cannot be null
            1062,  # duplicate entry
            1118,  # row too big
            1138,  # NULL where none may be
            1153,  # packet too large
            1169,  # duplicate entry
            1216,  # foreign key, child
            1217,  # foreign key, parent
            1263,  # NULL where none may be
            1264,  # out of range
            1265,  # data truncated
            1292,  # incorrect value
            1300,  # invalid character string
            1364,  # no default value
            1365,  # division by zero
            1366,  # incorrect value for the column
            1367,  # illegal value
            1369,  # WITH CHECK OPTION violation
            1406,  # data too long
            1411,  # incorrect value for a function
            1416,  # not a geometry
            1451,  # foreign key, parent
            1452,  # foreign key, child
            1441,  # date out of range
            1525,  # incorrect value
            1526,  # no partition for the value
            1557,  # foreign key duplicate
            1586,  # duplicate entry
            1644,  # a trigger refuses the row: SIGNAL
            1690,  # out of range in an expression
            1713,  # too big for the undo log
            1748,  # no partition for the row
            1761,  # foreign key duplicate
            1762,  # foreign key duplicate
            1859,  # duplicate unknown
            1906,  # MariaDB: a value for a generated column
            1916,  # MariaDB: overflow when converting
            1918,  # MariaDB: illegal value when converting
            1977,  # MariaDB: characters that the column does not have
            3105,  # MySQL: a value for a generated column
            3140,  # MySQL: invalid JSON text
            3141,  # MySQL: invalid JSON text for a function
            3144,  # MySQL: JSON in another character set
            3156,  # MySQL: invalid JSON value for CAST
            3157,  # MySQL: JSON too deep
            3819,  # MySQL: check constraint
            3854,  # MySQL: characters that the column does not have
            3903,  # MySQL: invalid JSON value
            4025,  # MariaDB: constraint failed
            4078,  # MariaDB: the type of the value is not that of the column
        ),
        _DATA,
    ),
    **dict.fromkeys(
        (
            1044,  # access denied to the database
            1045,  # access denied to the user
            1049,  # unknown database
            1054,  # unknown column
            1064,  # syntax
            1099,  # the table is locked for reading
            1130,  # this host is not allowed
            1142,  # command denied on the table
            1143,  # command denied on the column
            1146,  # no such table
            1227,  # privilege missing
            1370,  # routine denied
            1698,  # access denied
            1820,  # the password has to be changed
            1862,  # the password has expired
            3118,  # MySQL: the account is locked
            4151,  # MariaDB: the account is locked
        ),
        _SETUP,
    ),
}

SQLITE: dict[int, DatabaseErrorKind] = {
    5: _CONFLICT,  # busy
    6: _CONFLICT,  # locked
    7: _UNAVAILABLE,  # out of memory
    9: _UNAVAILABLE,  # interrupted
    10: _UNAVAILABLE,  # input or output
    13: _UNAVAILABLE,  # disk full
    14: _UNAVAILABLE,  # cannot open
    15: _UNAVAILABLE,  # locking protocol
    18: _DATA,  # too big
    19: _DATA,  # constraint
    20: _DATA,  # type mismatch
    25: _DATA,  # parameter out of range
    3: _SETUP,  # permission
    8: _SETUP,  # read-only
    23: _SETUP,  # authorization
}
