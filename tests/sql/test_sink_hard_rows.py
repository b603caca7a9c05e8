"""Tables and rows that make trouble: generated columns, triggers, partitions, very wide rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.app.outlets import Entry
from sqs_workers.app.spec_resources import TableSinkSpec
from sqs_workers.app.table_sink import RowsToTable
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql import DatabaseError, RowRefused, TableSink
from sqs_workers.sql.errors import DatabaseErrorKind
from tests.sql.databases import Database


def run(database: Database, *statements: str) -> None:
    with database.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def count(database: Database, table: str) -> int:
    with database.engine.connect() as connection:
        return int(connection.scalar(sa.select(sa.func.count()).select_from(sa.table(table))) or 0)


def test_a_row_that_brings_a_generated_column_fails_alone(bare_database: Database) -> None:
    run(
        bare_database,
        "CREATE TABLE made (id INT PRIMARY KEY, n INT, twice INT GENERATED ALWAYS AS (n * 2) STORED)",
    )
    sink = TableSink(bare_database.engine, "made", keys=["id"])
    first, second, third = sink.write([{"id": 1, "n": 1}, {"id": 2, "n": 2, "twice": 4}, {"id": 3, "n": 3}])
    assert first is third is None
    assert isinstance(second, RowRefused)
    assert "twice" in str(second)
    assert count(bare_database, "made") == 2
    with pytest.raises(ConfigurationError, match="twice"):
        TableSink(bare_database.engine, "made", keys=["id"], update_columns=["twice"]).check()


TRIGGERS = {
    "postgresql": (
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.n < 0 THEN RAISE EXCEPTION 'negative'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION no()",
    ),
    "mysql": (
        "CREATE TRIGGER t BEFORE INSERT ON checked FOR EACH ROW "
        "IF NEW.n < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'negative'; END IF",
    ),
    "sqlite": (
        "CREATE TRIGGER t BEFORE INSERT ON checked WHEN NEW.n < 0 BEGIN SELECT RAISE(ABORT, 'negative'); END",
    ),
}


def test_a_row_that_a_trigger_refuses_fails_alone(bare_database: Database) -> None:
    run(
        bare_database,
        "CREATE TABLE checked (id INT PRIMARY KEY, n INT)",
        *TRIGGERS[bare_database.kind],
    )
    sink = TableSink(bare_database.engine, "checked", keys=["id"])
    errors = sink.write([{"id": number, "n": -1 if number == 3 else 1} for number in range(6)])
    assert [number for number, error in enumerate(errors) if error] == [3]
    assert count(bare_database, "checked") == 5


OWN_CODES = {
    "postgresql": (
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.n < 0 THEN RAISE EXCEPTION 'negative' USING ERRCODE = 'UE001'; END IF; "
        "ASSERT NEW.n < 100; RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION no()",
    ),
    "mysql": (
        "CREATE TRIGGER t BEFORE INSERT ON checked FOR EACH ROW "
        "IF NEW.n NOT BETWEEN 0 AND 99 THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001; END IF",
    ),
}


def test_a_row_that_a_trigger_refuses_with_a_code_of_its_own_fails_alone(bare_database: Database) -> None:
    if bare_database.kind == "sqlite":
        pytest.skip("a trigger of SQLite has no code of its own")
    run(bare_database, "CREATE TABLE checked (id INT PRIMARY KEY, n INT)", *OWN_CODES[bare_database.kind])
    sink = TableSink(bare_database.engine, "checked", keys=["id"])
    errors = sink.write([{"id": number, "n": n} for number, n in enumerate([1, -1, 1, 100, 1])])
    assert [isinstance(error, RowRefused) for error in errors] == [False, True, False, True, False]
    assert count(bare_database, "checked") == 3


def test_a_table_that_rolls_everything_back_has_nothing_reported_as_written(bare_database: Database) -> None:
    if bare_database.kind != "sqlite":
        pytest.skip("only a trigger of SQLite can")
    run(
        bare_database,
        "CREATE TABLE checked (id INT PRIMARY KEY, n INT)",
        "CREATE TRIGGER t BEFORE INSERT ON checked WHEN NEW.n < 0 BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    )
    sink = TableSink(bare_database.engine, "checked", keys=["id"])
    with pytest.raises(ConfigurationError, match="ABORT"):
        sink.write([{"id": number, "n": -1 if number == 5 else 1} for number in range(8)])
    assert count(bare_database, "checked") == 0


MOMENT = {"postgresql": "timestamp", "mysql": "DATETIME", "sqlite": "TEXT"}
BEYOND = [
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-5))),
]


@pytest.mark.parametrize("moment", BEYOND, ids=str)
def test_a_moment_that_utc_does_not_have_fails_alone(bare_database: Database, moment: datetime) -> None:
    run(bare_database, f"CREATE TABLE moments (id INT PRIMARY KEY, at {MOMENT[bare_database.kind]})")
    sink = TableSink(bare_database.engine, "moments", keys=["id"])
    errors = sink.write([{"id": 1, "at": datetime(2026, 1, 1)}, {"id": 2, "at": moment}])
    assert [isinstance(error, RowRefused) for error in errors] == [False, True]


def test_an_error_that_may_be_the_statements_is_a_rows_if_another_row_passes(bare_database: Database) -> None:
    if bare_database.kind != "postgresql":
        pytest.skip("only PostgreSQL has codes that are both")
    run(bare_database, "CREATE TABLE texts (id INT PRIMARY KEY, n INT, words tsvector)")
    sink = TableSink(bare_database.engine, "texts", keys=["id"])
    rows: list[dict[str, Any]] = [{"id": 1, "words": "a"}, {"id": 2, "words": "'"}, {"id": 3, "words": "b"}]
    assert [isinstance(error, RowRefused) for error in sink.write(rows)] == [False, True, False]
    assert count(bare_database, "texts") == 2
    with pytest.raises(DatabaseError, match="42601"):
        sink.write([rows[1]])
    wrong = TableSink(bare_database.engine, "texts", keys=["id"], update_expr={"n": "1 +"})
    with pytest.raises(DatabaseError) as caught:
        wrong.write(rows)
    assert caught.value.kind is DatabaseErrorKind.SETUP


def test_a_key_too_long_for_its_index_fails_alone(bare_database: Database) -> None:
    if bare_database.kind != "postgresql":
        pytest.skip("only PostgreSQL limits an index entry and not the column")
    run(bare_database, "CREATE TABLE wide (id TEXT PRIMARY KEY, body TEXT)")
    sink = TableSink(bare_database.engine, "wide", keys=["id"])
    # Random enough not to be compressed below the limit of 2,704 bytes.
    long = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(3000))
    errors = sink.write([{"id": "a", "body": "x"}, {"id": long, "body": "x"}, {"id": "b", "body": "x"}])
    assert [error is None for error in errors] == [True, False, True]


def test_rows_of_a_megabyte_are_cut_into_statements_that_fit(bare_database: Database) -> None:
    run(bare_database, f"CREATE TABLE wide (id INT PRIMARY KEY, body {long_text(bare_database)})")
    sink = TableSink(bare_database.engine, "wide", keys=["id"])
    body = "🐘" * (250 * 1024)
    assert sink.write([{"id": number, "body": body} for number in range(20)]) == [None] * 20
    assert count(bare_database, "wide") == 20


def test_a_row_that_no_packet_can_carry_is_refused_and_no_outage(bare_database: Database) -> None:
    if bare_database.kind != "mysql":
        pytest.skip("the others take statements of any size")
    run(bare_database, f"CREATE TABLE wide (id INT PRIMARY KEY, body {long_text(bare_database)})")
    sink = TableSink(bare_database.engine, "wide", keys=["id"])
    with bare_database.engine.connect() as connection:
        packet = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar() or 0)
    errors = sink.write([{"id": 1, "body": "x"}, {"id": 2, "body": "'" * packet}, {"id": 3, "body": "x"}])
    assert [error is None for error in errors] == [True, False, True]
    assert count(bare_database, "wide") == 2


def long_text(database: Database) -> str:
    return "LONGTEXT" if database.kind == "mysql" else "TEXT"


@pytest.mark.parametrize("mode", ["upsert", "insert", "insert_ignore"])
def test_an_empty_batch_writes_nothing(bare_database: Database, mode: str) -> None:
    run(bare_database, "CREATE TABLE few (id INT PRIMARY KEY)")
    assert TableSink(bare_database.engine, "few", mode=mode, keys=["id"]).write([]) == []


def test_reserved_words_and_a_schema_may_name_everything(bare_database: Database) -> None:
    quoted = bare_database.engine.dialect.identifier_preparer.quote_identifier
    schema = None if bare_database.kind == "sqlite" else bare_database.name
    run(
        bare_database,
        f"CREATE TABLE {quoted('select')} ({quoted('order')} INT PRIMARY KEY, {quoted('from')} INT, "
        f"{quoted('Group')} INT)",
    )
    sink = TableSink(bare_database.engine, "select", keys=["order"], schema=schema)
    for value in (1, 2):
        assert sink.write([{"order": 1, "from": value, "Group": value}]) == [None]
    table = sa.Table("select", sa.MetaData(), sa.Column("from"), sa.Column("Group"), schema=schema)
    with bare_database.engine.connect() as connection:
        assert connection.execute(sa.select(table)).all() == [(2, 2)]


def test_a_column_that_is_left_out_takes_its_default_and_none_is_null(bare_database: Database) -> None:
    run(bare_database, "CREATE TABLE filled (id INT PRIMARY KEY, n INT DEFAULT 7)")
    sink = TableSink(bare_database.engine, "filled", keys=["id"])
    rows: list[dict[str, Any]] = [{"id": 1}, {"id": 2, "n": None}, {"n": 3, "id": 3}, {"id": 1}]
    assert sink.write(rows) == [None] * 4
    with bare_database.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT id, n FROM filled ORDER BY id").all()
    assert [tuple(row) for row in found] == [(1, 7), (2, None), (3, 3)]


def test_a_row_that_the_commit_would_refuse_fails_alone(bare_database: Database) -> None:
    if bare_database.kind != "postgresql":
        pytest.skip("only PostgreSQL can be asked before the commit")
    run(
        bare_database,
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO parents VALUES (1)",
    )
    sink = TableSink(bare_database.engine, "children", keys=["id"])
    errors = sink.write([{"id": number, "parent": 9 if number == 2 else 1} for number in range(4)])
    assert [number for number, error in enumerate(errors) if error is not None] == [2]
    assert isinstance(errors[2], RowRefused)
    assert count(bare_database, "children") == 3


def test_a_message_with_a_row_that_the_commit_would_refuse_fails_alone(bare_database: Database) -> None:
    """And where that cannot be found out, the error quotes no values."""
    if bare_database.kind == "mysql":
        pytest.skip("MySQL defers no constraint")
    run(
        bare_database,
        "CREATE TABLE parents (id VARCHAR(9) PRIMARY KEY)",
        "CREATE TABLE children (id INT PRIMARY KEY,"
        " parent VARCHAR(9) REFERENCES parents(id) DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO parents VALUES ('a')",
    )
    if bare_database.kind == "sqlite":
        sa.event.listen(bare_database.engine, "connect", lambda c, _: c.execute("PRAGMA foreign_keys=ON"))
        bare_database.engine.dispose()
    spec = TableSinkSpec(connector="db", table="children", keys=("id",))
    sink = RowsToTable("children", spec, bare_database.engine)
    entries = [
        Entry(str(number), ({"id": number, "parent": "a"}, {"id": number + 5, "parent": parent}))
        for number, parent in enumerate(["a", "s3cret", "a"])
    ]
    if bare_database.kind == "postgresql":
        assert [type(error) for error in sink.write(entries)] == [type(None), RowRefused, type(None)]
        assert count(bare_database, "children") == 4
    else:
        with pytest.raises(DatabaseError) as caught:
            sink.write(entries)
        assert caught.value.kind is DatabaseErrorKind.DATA
        assert "s3cret" not in str(caught.value)
        assert count(bare_database, "children") == 0


def test_rows_that_need_each_other_at_the_commit_alone_are_written(bare_database: Database) -> None:
    """Also beside a row that is refused."""
    if bare_database.kind != "postgresql":
        pytest.skip("only PostgreSQL defers in a way that is told")
    run(
        bare_database,
        "CREATE TABLE pairs (id INT PRIMARY KEY, n SMALLINT,"
        " other INT REFERENCES pairs DEFERRABLE INITIALLY DEFERRED)",
    )
    sink = TableSink(bare_database.engine, "pairs", keys=["id"])
    rows = [{"id": 1, "other": 2}, {"id": 2, "n": 1, "other": 1}, {"id": 3, "n": 10**6, "other": 1}]
    assert [error is None for error in sink.write(rows)] == [True, True, False]
    assert count(bare_database, "pairs") == 2
