"""The sink: rows that come twice are there once, and a bad row fails alone."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import Session

from sqs_workers.exceptions import ConfigurationError, PermanentError
from sqs_workers.sql import DatabaseError, Inbox, RowRefused, Skipped, TableSink
from tests.sql.databases import Database

metadata = sa.MetaData()
PRECISE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("event_id", sa.String(40), nullable=False, unique=True),
    sa.Column("payload", sa.JSON),
    sa.Column("status", sa.String(10), nullable=False, server_default="received"),
    sa.Column("amount", sa.Numeric(10, 2)),
    sa.Column("created_at", sa.String(40), server_default="first"),
    sa.Column("updated_at", sa.String(40)),
    sa.Column('odd "name%s', sa.Integer),
    sa.CheckConstraint("amount IS NULL OR amount >= 0", name="not_negative"),
    mysql_engine="InnoDB",
)


@pytest.fixture
def place(database: Database) -> Database:
    metadata.create_all(database.engine)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(events))
    return database


def make_sink(place: Database, **options: Any) -> TableSink:
    return TableSink(
        place.engine,
        "events",
        **{
            "keys": ["event_id"],
            "update_columns": ["payload", "status"],
            "update_expr": {"updated_at": "'100% updated'"},
            **options,
        },
    )


def rows_of(place: Database, *columns: str) -> list[tuple[Any, ...]]:
    with place.engine.connect() as connection:
        chosen = [events.c[name] for name in columns]
        return [tuple(row) for row in connection.execute(sa.select(*chosen).order_by(events.c.event_id))]


def test_a_row_that_comes_again_updates_the_columns_named_and_no_others(place: Database) -> None:
    sink = make_sink(place)
    sink.write_one({"event_id": "e1", "payload": {"n": 1}, "status": "a", "created_at": "original"})
    assert rows_of(place, "status", "created_at", "updated_at") == [("a", "original", None)]
    sink.write_one({"event_id": "e1", "payload": {"n": 2}, "status": "b", "created_at": "changed"})
    assert rows_of(place, "status", "created_at", "updated_at") == [("b", "original", "100% updated")]
    assert rows_of(place, "payload") == [({"n": 2},)]


def test_without_update_columns_everything_that_a_row_brings_is_updated(place: Database) -> None:
    sink = make_sink(place, update_columns=None, update_expr=None)
    sink.write([{"event_id": "e1", "status": "a", "amount": 1}])
    sink.write([{"event_id": "e1", "status": "b"}])
    assert rows_of(place, "status", "amount") == [("b", Decimal("1.00"))]


def test_the_last_row_of_a_key_wins_within_a_batch(place: Database) -> None:
    sink = make_sink(place)
    rows = [{"event_id": f"e{n % 3}", "status": f"s{n}"} for n in range(9)]
    assert sink.write(rows) == [None] * 9
    assert rows_of(place, "event_id", "status") == [("e0", "s6"), ("e1", "s7"), ("e2", "s8")]


def test_rows_with_other_columns_are_written_in_the_order_of_arrival(place: Database) -> None:
    sink = make_sink(place, update_columns=None, update_expr=None)
    sink.write(
        [
            {"event_id": "e1", "status": "a", "amount": 1},
            {"event_id": "e2", "status": "x"},
            {"event_id": "e1", "status": "b"},
            {"event_id": "e1", "amount": 3},
        ]
    )
    assert rows_of(place, "event_id", "status", "amount") == [("e1", "b", Decimal("3.00")), ("e2", "x", None)]


BAD_ROWS: list[dict[str, Any]] = [
    {"event_id": "bad", "amount": -1},
    {"event_id": "bad", "status": None},
    {"event_id": "bad", "amount": {1, 2}},
    {"event_id": "bad", "payload": {"a": {1, 2}}},
    {"event_id": "bad", "payload": {"a": float("nan")}},
    {"event_id": None, "status": "x"},
    {"event_id": ["bad"], "status": "x"},
    {"status": "x"},
    {"event_id": "bad", "nonsense": 1},
    {},
]
STRICT_ROWS: list[dict[str, Any]] = [
    {"event_id": "x" * 41},
    {"event_id": "bad", "status": "x" * 11},
    {"event_id": "bad", "amount": "s3cret"},
    {"event_id": "bad", "amount": 10**12},
    {"event_id": "bad", "status": "\ud800"},
]


@pytest.mark.parametrize("bad", BAD_ROWS + STRICT_ROWS, ids=lambda row: repr(row)[:40])
def test_a_bad_row_fails_alone_and_for_good(place: Database, bad: dict[str, Any]) -> None:
    if place.kind == "sqlite" and bad in STRICT_ROWS[:4]:
        pytest.skip("SQLite's columns take values of any type and length")
    sink = make_sink(place)
    rows = [{"event_id": f"e{n}", "status": "good"} for n in range(7)]
    rows.insert(3, bad)
    errors = sink.write(rows)
    assert [index for index, error in enumerate(errors) if error is not None] == [3]
    assert isinstance(errors[3], RowRefused)
    assert isinstance(errors[3], PermanentError)
    assert "events" in str(errors[3])
    assert "s3cret" not in str(errors[3])
    assert [event_id for (event_id,) in rows_of(place, "event_id")] == [f"e{n}" for n in range(7)]
    with pytest.raises(RowRefused):
        sink.write_one(bad)


def test_every_bad_row_of_many_is_found(place: Database) -> None:
    sink = make_sink(place)
    bad = {7, 8, 100, 255, 299}
    rows = [{"event_id": f"e{n:03}", "amount": -1 if n in bad else n} for n in range(300)]
    errors = sink.write(rows)
    assert {index for index, error in enumerate(errors) if error is not None} == bad
    assert len(rows_of(place, "event_id")) == 295


def test_where_the_last_row_of_a_key_is_bad_the_one_before_it_counts(place: Database) -> None:
    sink = make_sink(place, update_columns=None, update_expr=None)
    errors = sink.write([{"event_id": "e1", "amount": n} for n in (1, 2, -3, -4)])
    assert [error is None for error in errors] == [True, True, False, False]
    assert rows_of(place, "event_id", "amount") == [("e1", Decimal("2.00"))]


def test_insert_refuses_a_key_that_is_taken(place: Database) -> None:
    sink = make_sink(place, mode="insert", keys=[], update_columns=None, update_expr=None)
    assert sink.write([{"event_id": "e1", "status": "a"}]) == [None]
    errors = sink.write([{"event_id": event_id, "status": "b"} for event_id in ("e0", "e1", "e2", "e2")])
    assert [error is None for error in errors] == [True, False, True, False]
    assert rows_of(place, "event_id", "status") == [("e0", "b"), ("e1", "a"), ("e2", "b")]


@pytest.mark.parametrize("keys", [[], ["event_id"]])
def test_insert_ignore_leaves_what_is_there_and_still_refuses_what_does_not_fit(
    place: Database, keys: list[str]
) -> None:
    sink = make_sink(place, mode="insert_ignore", keys=keys, update_columns=None, update_expr=None)
    sink.write([{"event_id": "e1", "amount": 1}])
    errors = sink.write(
        [{"event_id": "e1", "amount": 2}, {"event_id": "e2", "amount": 3}, {"event_id": "e3", "amount": -1}]
    )
    assert [error is None for error in errors] == [True, True, False]
    assert rows_of(place, "event_id", "amount") == [("e1", Decimal("1.00")), ("e2", Decimal("3.00"))]


def test_many_rows_are_cut_into_statements_that_the_database_takes(place: Database) -> None:
    sink = make_sink(place)
    rows = [{"event_id": f"e{n}", "status": "x", "payload": {"n": n}} for n in range(2500)]
    assert sink.write(rows) == [None] * 2500
    big = [{"event_id": f"big{n}", "payload": {"text": "x" * 1_000_000}} for n in range(6)]
    assert sink.write(big) == [None] * 6
    assert len(rows_of(place, "event_id")) == 2506


def test_names_are_quoted_whatever_is_in_them(place: Database) -> None:
    name = 'odd "name%s'
    sink = make_sink(place, update_columns=[name], update_expr=None)
    sink.write([{"event_id": "e1", name: 1}])
    sink.write([{"event_id": "e1", name: 2}])
    assert rows_of(place, name) == [(2,)]


def test_a_message_never_becomes_sql(place: Database) -> None:
    evil = "x'); DROP TABLE events; --"
    make_sink(place).write([{"event_id": evil, "payload": {"sql": evil}}])
    assert rows_of(place, "event_id", "payload") == [(evil, {"sql": evil})]


def test_a_sink_writes_in_the_transaction_of_the_inbox(place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing")
    sink = make_sink(place)

    def handler(tx: Any) -> list[Any]:
        errors = sink.write([{"event_id": "e1"}, {"event_id": "e2", "amount": -1}], connection=tx)
        assert [error is None for error in errors] == [True, False]
        return errors

    inbox.run("evt-1", {}, handler)
    assert inbox.run("evt-1", {}, handler) == Skipped()
    with pytest.raises(LookupError), inbox.once("evt-2") as tx:
        sink.write_one({"event_id": "e3"}, connection=tx)
        raise LookupError
    with Session(place.engine) as session, session.begin():
        sink.write_one({"event_id": "e4"}, connection=session)
    assert [event_id for (event_id,) in rows_of(place, "event_id")] == ["e1", "e4"]


def test_a_connection_that_is_none_of_sqlalchemy_is_refused(place: Database) -> None:
    connection = place.driver_connection()
    try:
        with pytest.raises(ConfigurationError, match="SQLAlchemy"):
            make_sink(place).write([{"event_id": "e1"}], connection=connection)
    finally:
        connection.close()


REFUSED_AT_START: list[tuple[dict[str, Any], str]] = [
    ({"table": "nowhere"}, "no table 'nowhere'"),
    ({"keys": ["status"]}, "CREATE UNIQUE INDEX"),
    ({"keys": ["event_id", "status"], "update_columns": None}, "exactly"),
    ({"keys": ["evnt_id"]}, "'evnt_id'"),
    ({"update_columns": ["state"]}, "update_columns names 'state'"),
    ({"update_expr": {"changed": "1"}}, "update_expr names 'changed'"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED_AT_START, ids=[words for _, words in REFUSED_AT_START])
def test_a_sink_that_cannot_work_is_refused_at_start_with_what_to_do(
    place: Database, options: dict[str, Any], words: str
) -> None:
    sink = TableSink(place.engine, **{"table": "events", "keys": ["event_id"], **options})
    with pytest.raises(ConfigurationError, match=words):
        sink.check()
    with pytest.raises(ConfigurationError, match=words):
        sink.write([{"event_id": "e1"}])


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "merge"},
        {"keys": []},
        {"keys": "event_id"},
        {"update_columns": ["event_id"]},
        {"update_expr": {"event_id": "1"}},
        {"mode": "insert", "update_columns": ["status"]},
        {"serialize_json": "sometimes"},
        {"attempts": 0},
    ],
    ids=repr,
)
def test_options_that_contradict_each_other_are_refused_where_they_are_written(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ConfigurationError):
        TableSink(None, "events", **{"keys": ["event_id"], **options})


def test_a_second_unique_index_is_refused_where_it_would_update_another_row(database: Database) -> None:
    table = sa.Table(
        "people",
        sa.MetaData(),
        sa.Column("person_id", sa.String(20), primary_key=True),
        sa.Column("email", sa.String(20), unique=True),
        mysql_engine="InnoDB",
    )
    table.create(database.engine)
    sink = TableSink(database.engine, "people", keys=["person_id"])
    sink.write([{"person_id": "p1"}])
    if database.kind == "mysql":
        with pytest.raises(ConfigurationError, match="another unique index over email"):
            sink.write([{"person_id": "p2", "email": "a@example.org"}])
        return
    sink.write([{"person_id": "p1", "email": "a@example.org"}])
    assert isinstance(sink.write([{"person_id": "p2", "email": "a@example.org"}])[0], RowRefused)


@pytest.mark.parametrize("mode", ["upsert", "insert_ignore", "insert"])
@pytest.mark.parametrize("schema", [True, False])
def test_a_unique_index_that_finds_another_row_or_none_is_refused(
    bare_database: Database, mode: str, schema: bool
) -> None:
    if bare_database.kind == "sqlite":
        pytest.skip("SQLite has no such index")
    create, words = {
        "postgresql": ("CREATE TABLE t (k VARCHAR(50), n INT, UNIQUE (k) DEFERRABLE)", "deferrable"),
        "mysql": ("CREATE TABLE t (k VARCHAR(50), n INT, UNIQUE KEY u (k(3)))", "beginning"),
    }[bare_database.kind]
    with bare_database.engine.begin() as connection:
        connection.exec_driver_sql(create)
    in_schema = {"schema": bare_database.name} if schema else {}
    sink = TableSink(bare_database.engine, "t", mode=mode, keys=["k"], **in_schema)
    if mode == "insert":
        assert sink.write([{"k": "abcd", "n": 1}]) == [None]
        return
    with pytest.raises(ConfigurationError, match=words):
        sink.check()


def test_a_table_without_transactions_is_refused(bare_database: Database) -> None:
    if bare_database.kind != "mysql":
        pytest.skip("only MySQL has such tables")
    with bare_database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (k INT PRIMARY KEY, n TINYINT) ENGINE = MyISAM")
    with pytest.raises(ConfigurationError, match=r"MyISAM.*ENGINE = InnoDB"):
        TableSink(bare_database.engine, "t", keys=["k"]).check()


def test_a_connection_that_would_cut_values_is_refused(place: Database) -> None:
    if place.kind != "mysql":
        pytest.skip("only MySQL has lax modes")
    lax = place.make_engine(connect_args={"init_command": "SET SESSION sql_mode=''"})
    with pytest.raises(ConfigurationError, match="STRICT_TRANS_TABLES"):
        TableSink(lax, "events", keys=["event_id"]).check()


def test_timestamps_of_mysql_need_a_connection_in_utc(place: Database) -> None:
    if place.kind != "mysql":
        pytest.skip("only MySQL's TIMESTAMP follows the connection's time zone without saying so")
    with place.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE moments (id INT PRIMARY KEY, at TIMESTAMP NULL)")
    shifted = place.make_engine(connect_args={"init_command": "SET time_zone = '+05:00'"})
    with pytest.raises(ConfigurationError, match=r"time_zone to '\+00:00'"):
        TableSink(shifted, "moments", keys=["id"]).check()
    TableSink(
        place.make_engine(connect_args={"init_command": "SET time_zone = '+00:00'"}), "moments", keys=["id"]
    ).check()


def test_every_kind_of_value_is_stored_as_the_documentation_says(database: Database) -> None:
    kind = database.kind
    table = sa.Table(
        "kinds",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("text", sa.Text().with_variant(mysql.TEXT(charset="utf8mb4"), "mysql")),
        sa.Column("data", sa.LargeBinary),
        sa.Column("exact", sa.Numeric(30, 10)),
        sa.Column("moment", PRECISE),
        sa.Column(
            "zoned", sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
        ),
        sa.Column("day", sa.Date),
        sa.Column("ident", sa.Uuid(native_uuid=True) if kind == "postgresql" else sa.String(36)),
        sa.Column("items", sa.ARRAY(sa.Integer) if kind == "postgresql" else sa.JSON),
        sa.Column("absent", sa.Integer),
        mysql_engine="InnoDB",
    )
    table.create(database.engine)
    moment = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5)))
    ident = uuid.uuid4()
    exact = Decimal("12345678901234567890.0123456789")
    sink = TableSink(database.engine, "kinds", keys=["id"])
    sink.write_one(
        {
            "id": 1,
            "text": "naïve 🐘 'quoted' %s \\ \n",
            "data": b"\x00\xff'",
            "exact": exact,
            "moment": moment,
            "zoned": moment,
            "day": date(2026, 3, 1),
            "ident": ident,
            "items": [1, 2, 3],
            "absent": None,
        }
    )
    with database.engine.connect() as connection:
        row = connection.execute(sa.select(table)).one()
    utc = moment.astimezone(timezone.utc)
    assert row.text == "naïve 🐘 'quoted' %s \\ \n"
    assert row.data == b"\x00\xff'"
    assert row.moment == utc.replace(tzinfo=None)
    assert (row.zoned if row.zoned.tzinfo else row.zoned.replace(tzinfo=timezone.utc)) == utc
    assert row.day == date(2026, 3, 1)
    assert str(row.ident) == str(ident)
    assert row.items == [1, 2, 3]
    assert row.absent is None
    if kind == "sqlite":
        assert float(row.exact) == pytest.approx(float(exact))
    else:
        assert row.exact == exact


def test_values_inside_of_json_become_strings_where_json_has_no_type(place: Database) -> None:
    ident = uuid.uuid4()
    payload = {"price": Decimal("1.10"), "at": date(2026, 3, 1), "id": ident, "list": (1, 2), "text": "🐘"}
    make_sink(place).write_one({"event_id": "e1", "payload": payload})
    expected = {"price": "1.10", "at": "2026-03-01", "id": str(ident), "list": [1, 2], "text": "🐘"}
    assert rows_of(place, "payload") == [(expected,)]


def test_json_may_be_left_to_the_user(place: Database) -> None:
    sink = make_sink(place, serialize_json="never")
    assert sink.write([{"event_id": "e1", "payload": json.dumps({"a": 1})}]) == [None]
    assert rows_of(place, "payload") == [({"a": 1},)]


def test_deadlocks_of_two_sinks_are_run_again(place: Database) -> None:
    sink = make_sink(place, attempts=20)

    def write(seed: int) -> list[Any]:
        order = sorted(range(40), key=lambda n: (n * (7 + 2 * seed)) % 41)
        return [
            error
            for _ in range(5)
            for error in sink.write([{"event_id": f"e{n}", "status": str(seed)} for n in order])
        ]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(write, range(4)))
    assert all(error is None for errors in results for error in errors)
    assert len(rows_of(place, "event_id")) == 40


def test_a_database_that_is_gone_is_a_temporary_error_and_no_fault_of_the_rows(place: Database) -> None:
    if place.kind == "sqlite":
        pytest.skip("a file does not go away")
    url = place.url.set(port=1)
    engine = sa.create_engine(url)
    try:
        with pytest.raises(DatabaseError) as caught:
            TableSink(engine, "events", keys=["event_id"]).write([{"event_id": "e1"}])
    finally:
        engine.dispose()
    assert caught.value.kind.temporary
