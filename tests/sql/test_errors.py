"""What a database error means, by its code and by who raised it."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from sqs_workers.exceptions import MissingExtraError
from sqs_workers.sql import create_engine
from sqs_workers.sql.errors import (
    DatabaseErrorKind,
    classify,
    describe,
    is_retryable,
    is_temporary,
    translate,
)
from tests.sql.databases import Database

ROOT = Path(__file__).resolve().parent.parent.parent
CONFLICT, UNAVAILABLE = DatabaseErrorKind.CONFLICT, DatabaseErrorKind.UNAVAILABLE
DATA, SETUP, OTHER = DatabaseErrorKind.DATA, DatabaseErrorKind.SETUP, DatabaseErrorKind.OTHER


def postgres(state: str | None) -> psycopg.Error:
    error = psycopg.errors.lookup(state)("text") if state else psycopg.OperationalError("text")
    assert error.sqlstate == state
    return error


POSTGRES: dict[str | None, DatabaseErrorKind] = {
    None: UNAVAILABLE,
    "08000": UNAVAILABLE,
    "08006": UNAVAILABLE,
    "53300": UNAVAILABLE,
    "53100": UNAVAILABLE,
    "57014": UNAVAILABLE,
    "57P01": UNAVAILABLE,
    "57P03": UNAVAILABLE,
    "25006": UNAVAILABLE,
    "25P03": UNAVAILABLE,
    "25P04": UNAVAILABLE,
    "25P02": OTHER,
    "55000": OTHER,
    "XX000": OTHER,
    "P0001": DATA,
    "P0004": DATA,
    "40003": UNAVAILABLE,
    "40001": CONFLICT,
    "40P01": CONFLICT,
    "55P03": CONFLICT,
    "22001": DATA,
    "22003": DATA,
    "22P02": DATA,
    "23502": DATA,
    "23505": DATA,
    "23514": DATA,
    "42804": DATA,
    "42P01": SETUP,
    "42703": SETUP,
    "42501": SETUP,
    "28P01": SETUP,
    "3D000": SETUP,
}
MYSQL: dict[int, DatabaseErrorKind] = {
    1020: CONFLICT,
    1205: CONFLICT,
    1412: CONFLICT,
    3101: CONFLICT,
    1213: CONFLICT,
    1040: UNAVAILABLE,
    1053: UNAVAILABLE,
    1226: UNAVAILABLE,
    1290: UNAVAILABLE,
    1026: UNAVAILABLE,
    1206: UNAVAILABLE,
    9001: UNAVAILABLE,
    2002: UNAVAILABLE,
    2003: UNAVAILABLE,
    2006: UNAVAILABLE,
    2013: UNAVAILABLE,
    1048: DATA,
    1062: DATA,
    1264: DATA,
    1366: DATA,
    1406: DATA,
    1452: DATA,
    4025: DATA,
    4078: DATA,
    1045: SETUP,
    1054: SETUP,
    1064: SETUP,
    1146: SETUP,
}


def wrapped(error: Exception) -> Exception:
    return sa.exc.DBAPIError.instance("SELECT 1", {}, error, (psycopg.Error, pymysql.Error, sqlite3.Error))  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(("state", "kind"), POSTGRES.items())
def test_an_sqlstate_is_sorted_plain_and_wrapped(state: str | None, kind: DatabaseErrorKind) -> None:
    assert classify(postgres(state)) is kind
    assert classify(wrapped(postgres(state))) is kind


@pytest.mark.parametrize(("number", "kind"), MYSQL.items())
def test_an_error_number_of_mysql_is_sorted_plain_and_wrapped(number: int, kind: DatabaseErrorKind) -> None:
    error = pymysql.err.OperationalError(number, "text")
    assert classify(error) is kind
    assert classify(wrapped(error)) is kind
    assert describe(wrapped(error)) == ("OperationalError", str(number))


def test_errors_of_sqlite_are_sorted_by_code_and_without_one() -> None:
    for text, kind in (
        ("database is locked", CONFLICT),
        ("unable to open database file", UNAVAILABLE),
        ("no such table: x", SETUP),
    ):
        assert classify(sqlite3.OperationalError(text)) is kind
    assert classify(sqlite3.IntegrityError("UNIQUE constraint failed")) is DATA
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError) as caught:
            connection.execute("INSERT INTO t VALUES (1)")
    connection.close()
    assert classify(caught.value) is DATA


def test_a_lost_connection_is_temporary_whoever_reports_it() -> None:
    for error in (
        ConnectionRefusedError(),
        ConnectionResetError(),
        socket.gaierror(),
        pymysql.err.InterfaceError(0, ""),
        psycopg.InterfaceError("the connection is closed"),
        sa.exc.TimeoutError("QueuePool limit"),
        sa.exc.DBAPIError("SELECT 1", {}, ValueError(), connection_invalidated=True),  # type: ignore[arg-type]
    ):
        assert is_temporary(error), error
        assert not is_retryable(error), error


def test_an_error_raised_from_a_database_error_is_as_temporary_as_that() -> None:
    class Mine(Exception):
        pass

    mine = Mine()
    mine.__cause__ = postgres("40001")
    assert is_temporary(mine)
    assert is_retryable(mine)


def test_other_errors_say_nothing_about_a_database() -> None:
    for error in (ValueError(), KeyError("x"), TimeoutError(), OSError(), RuntimeError()):
        assert classify(error) is OTHER, error
        assert not is_temporary(error)


def test_a_translated_error_has_the_code_and_none_of_the_values() -> None:
    inner = psycopg.errors.lookup("23505")("DETAIL: Key (id)=(s3cret) already exists.")
    error = sa.exc.IntegrityError("INSERT INTO t VALUES (%s)", ("s3cret",), inner)
    translated = translate(error, "writing to table 't'")
    assert str(translated) == "writing to table 't' failed: UniqueViolation 23505 (data)"


def test_the_codes_of_the_real_databases_are_those_of_the_table(database: Database) -> None:
    engine = database.engine

    def provoke(statement: str) -> Exception:
        with pytest.raises(sa.exc.DBAPIError) as caught, engine.begin() as connection:
            connection.exec_driver_sql(statement)
        return caught.value

    insert = "INSERT INTO processed_events (consumer, event_id, payload_hash, processed_at) VALUES "
    assert classify(provoke("SELECT * FROM nowhere")) is SETUP
    assert classify(provoke(f"{insert} ('a', NULL, '', '2026-01-01')")) is DATA
    assert classify(provoke(f"{insert} ('a', 'b', '', '2026-01-01'), ('a', 'b', '', '2026-01-01')")) is DATA


def test_the_table_of_codes_can_be_had_without_sqlalchemy() -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from sqs_workers.sql.errors import is_temporary\n"
        "assert is_temporary(ConnectionResetError())\n"
        "from sqs_workers.exceptions import MissingExtraError\n"
        "import sqs_workers.sql\n"
        "try:\n    sqs_workers.sql.Inbox\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'sqs-workers[sql]'" in done.stdout


@pytest.mark.parametrize(
    ("dsn", "driver", "extra"), [("postgresql", "psycopg", "postgres"), ("mysql", "pymysql", "mysql")]
)
def test_a_missing_driver_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, dsn: str, driver: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(MissingExtraError, match=rf"sqs-workers\[{extra}\]") as caught:
        create_engine(f"{dsn}://user:s3cret@host/db")
    assert "s3cret" not in str(caught.value)


def test_an_engine_from_a_dsn_hides_values_and_speaks_utf8mb4(database: Database) -> None:
    engine: Any = create_engine(database.url.render_as_string(hide_password=False))
    try:
        assert engine.hide_parameters
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1
    finally:
        engine.dispose()
    assert create_engine("mysql://u@h/d").url.query["charset"] == "utf8mb4"
