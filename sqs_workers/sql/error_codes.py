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
}

SQLSTATES: dict[str, DatabaseErrorKind] = {
    "40001": _CONFLICT,  # serialization failure
    "40P01": _CONFLICT,  # deadlock detected
    "40003": _UNAVAILABLE,  # statement completion unknown
    "55P03": _CONFLICT,  # lock not available, lock timeout
    "25006": _UNAVAILABLE,  # read-only transaction: a failover has left us on a replica
    "25P03": _UNAVAILABLE,  # idle-in-transaction timeout: the connection is gone
    "42804": _DATA,  # the type of the value is not that of the column
    "42846": _DATA,  # no cast between them
    "54000": _DATA,  # a row, or its entry in an index, is too big
    "P0001": _DATA,  # a trigger refuses the row: RAISE EXCEPTION
}

MYSQL: dict[int, DatabaseErrorKind] = {
    **dict.fromkeys(
        (
            1020,  # record has changed since last read (MariaDB with innodb_snapshot_isolation)
            1205,  # lock wait timeout
            1213,  # deadlock
            1613,  # XA: deadlock
            1614,  # XA: rolled back, deadlock
            3572,  # NOWAIT: the row is locked
            4052,  # MariaDB: lock wait aborted
        ),
        _CONFLICT,
    ),
    **dict.fromkeys(
        (
            1021,  # disk full
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
            1203,  # user has too many connections
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
            4031,  # MySQL: disconnected for inactivity
        ),
        _UNAVAILABLE,
    ),
    **dict.fromkeys(
        (
            1048,  # column cannot be null
            1062,  # duplicate entry
            1118,  # row too big
            1153,  # packet too large
            1216,  # foreign key, child
            1217,  # foreign key, parent
            1264,  # out of range
            1265,  # data truncated
            1292,  # incorrect value
            1300,  # invalid character string
            1364,  # no default value
            1366,  # incorrect value for the column
            1367,  # illegal value
            1369,  # WITH CHECK OPTION violation
            1406,  # data too long
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
            1859,  # duplicate unknown
            3140,  # MySQL: invalid JSON text
            3156,  # MySQL: invalid JSON value for CAST
            3819,  # MySQL: check constraint
            3903,  # MySQL: invalid JSON value
            4025,  # MariaDB: constraint failed
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
            1142,  # command denied on the table
            1143,  # command denied on the column
            1146,  # no such table
            1227,  # privilege missing
            1370,  # routine denied
            1698,  # access denied
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
