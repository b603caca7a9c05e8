"""Batches of a sink: looked at together, and as good as row by row."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql.converters import escape_item

from sqs_workers.sql import RowRefused, TableSink
from sqs_workers.sql.sink_packing import Packing
from tests.sql.databases import Database

metadata = sa.MetaData()
parts = sa.Table(
    "parts",
    metadata,
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("payload", sa.JSON),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("note", sa.Text),
    mysql_engine="InnoDB",
)
names = sa.Table(
    "names", metadata, sa.Column("name", sa.String(40), primary_key=True), sa.Column("n", sa.Integer)
)


@pytest.fixture
def place(bare_database: Database) -> Database:
    metadata.create_all(bare_database.engine)
    return bare_database


def part(number: int, **values: Any) -> dict[str, Any]:
    return {"kind": "k", "number": number, "payload": {"n": number}, "price": Decimal("1.50"), **values}


def stored(place: Database, table: sa.Table = parts) -> list[tuple[Any, ...]]:
    with place.engine.connect() as connection:
        rows = connection.execute(sa.select(table).order_by(*table.primary_key.columns))
        return [tuple(row) for row in rows]


BAD: dict[str, dict[str, Any]] = {
    "a value that no column takes": {"price": {1, 2}},
    "a list that is no JSON": {"payload": [object()]},
    "a key without a value": {"number": None},
    "a list as a key": {"kind": ["k"]},
    "a value that the table refuses": {"kind": None},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("at", [0, 99, 100, 249])
def test_a_bad_row_among_many_that_are_alike_fails_alone(
    place: Database, bad: dict[str, Any], at: int
) -> None:
    rows = [part(number) for number in range(250)]
    rows[at] = {**rows[at], **bad}
    errors = TableSink(place.engine, "parts", keys=["kind", "number"]).write(rows)
    assert [index for index, error in enumerate(errors) if error is not None] == [at]
    assert isinstance(errors[at], RowRefused)
    assert [row[1] for row in stored(place)] == [number for number in range(250) if number != at]


def test_the_last_of_a_key_wins_far_from_the_first_and_the_one_before_a_bad_one(place: Database) -> None:
    sink = TableSink(place.engine, "parts", keys=["kind", "number"])
    rows = [part(number % 150, note=f"n{number}") for number in range(450)]
    rows[449]["price"] = {1, 2}
    errors = sink.write(rows)
    assert [index for index, error in enumerate(errors) if error is not None] == [449]
    assert [row[4] for row in stored(place)] == [f"n{number + 300}" for number in range(149)] + ["n299"]


def test_keys_that_differ_in_case_alone_count_in_the_order_of_arrival(place: Database) -> None:
    """Whether they are one key is the collation's affair: in MySQL's they are."""
    sink = TableSink(place.engine, "names", keys=["name"])
    sink.write([{"name": "e1", "n": 1}, {"name": "E1", "n": 2}, {"name": "a", "n": 3}])
    sink.write([{"name": "x", "n": 1}, {"n": 2, "name": "X"}, {"name": "É", "n": 1}, {"name": "é", "n": 2}])
    found = {
        name.lower(): n for name, n in stored(place, names) if place.kind == "mysql" or name != name.lower()
    }
    expected = {"e1": 2, "a": 3, "x": 2, "é": 2} if place.kind == "mysql" else {"e1": 2, "x": 2, "é": 1}
    assert found == expected


ONE_TO_SOME_COLLATION = [
    ("x", "X"),
    ("x", "x "),
    ("é", "É"),
    ("s", "ß"),
    ("\U0001f601", "\U0001f602"),
    ("o", "ø"),
    ("あ", "ア"),
    ("ab", "a\u200bb"),
    ("cd", "c\x01d"),
    ("3", "٣"),
]


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci"])
def test_of_keys_that_are_one_to_the_collation_alone_the_last_wins(place: Database, collation: str) -> None:
    if place.kind != "mysql":
        pytest.skip("only MySQL has such collations without being asked")
    with place.engine.begin() as connection:
        connection.exec_driver_sql(
            f"ALTER TABLE names MODIFY name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE {collation}, ADD m INT"
        )
    sink = TableSink(place.engine, "names", keys=["name"])
    for one, other in ONE_TO_SOME_COLLATION:
        for first, last in ((one, other), (other, one)):
            rows = [{"name": first, "n": 1}, {"name": last, "n": 2}]
            for batch in (rows, [{"name": first, "n": 0, "m": 0}, *rows, {**rows[1], "m": 2}]):
                assert sink.write(batch) == [None] * len(batch)
                found = {name: n for name, n, *_ in stored(place, names)}
                assert found in ({first: 2}, {last: 2}, {first: 1, last: 2}), ascii(batch)
                with place.engine.begin() as connection:
                    connection.execute(sa.delete(names))


def test_rows_of_keys_that_a_collation_of_postgresql_has_the_same_count_in_the_order_of_arrival(
    place: Database,
) -> None:
    if place.kind != "postgresql":
        pytest.skip("about PostgreSQL")
    with place.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        connection.exec_driver_sql("ALTER TABLE names ALTER name TYPE TEXT COLLATE lax")
    sink = TableSink(place.engine, "names", keys=["name"])
    assert sink.write([{"name": "é", "n": 1}, {"name": "É", "n": 2}, {"name": "e", "n": 3}]) == [None] * 3
    assert [n for _, n in stored(place, names)] == [3]


def test_sinks_on_postgresql_lock_rows_of_any_text_in_one_order(place: Database) -> None:
    if place.kind != "postgresql":
        pytest.skip("elsewhere a deadlock is noticed at once")
    words = ["ключ", "é", "日本", "a"]
    sink = TableSink(place.engine, "names", keys=["name"])
    orders: list[list[str]] = []
    sa.event.listen(place.engine, "before_cursor_execute", lambda *told: orders.append(list(told[3])))
    for order in (words, words[::-1]):
        sink.write([{"n": 1, "name": word} for word in order])
    assert orders[-1] == orders[-2]


@pytest.mark.parametrize("bad", [None, 5, "ab", [1]], ids=repr)
def test_what_is_no_row_fails_alone(place: Database, bad: Any) -> None:
    errors = TableSink(place.engine, "names", keys=["name"]).write([{"name": "a", "n": 1}, bad])
    assert [isinstance(error, RowRefused) for error in errors] == [False, True]


def test_of_keys_that_are_one_to_the_column_alone_the_last_wins(place: Database) -> None:
    """A key that one sender writes as a number and another one as text."""
    sink = TableSink(place.engine, "names", keys=["name"])
    sink.write([{"name": "2", "n": 1}, {"name": 2, "n": 2}, {"name": 3, "n": 1}, {"name": "3", "n": 2}])
    assert stored(place, names) == [("2", 2), ("3", 2)]
    sink.write([{"name": Decimal("2"), "n": 3}, {"name": 3, "n": 3}, {"name": "2", "n": 4}])
    assert stored(place, names) == [("2", 4), ("3", 3)]


def test_five_hundred_rows_are_two_calls_of_the_driver_at_most(place: Database) -> None:
    sink = TableSink(place.engine, "parts", keys=["kind", "number"])
    sink.check()
    calls: list[str] = []
    sa.event.listen(place.engine, "before_cursor_execute", lambda *told: calls.append(told[2]))
    sink.write([part(number) for number in range(500)])
    assert len(calls) <= 2
    assert len(stored(place)) == 500


def test_batches_of_many_sizes_need_few_texts(place: Database) -> None:
    if place.kind != "postgresql":
        pytest.skip("only PostgreSQL keeps a statement of each text prepared")
    sink = TableSink(place.engine, "parts", keys=["kind", "number"])
    sink.check()
    texts: set[str] = set()
    sa.event.listen(place.engine, "before_cursor_execute", lambda *told: texts.add(told[2]))
    for size in range(1, 120):
        assert sink.write([part(number) for number in range(size)]) == [None] * size
    assert len(texts) <= 32


def test_a_row_is_never_changed_by_a_look_at_it(place: Database) -> None:
    class Absent(defaultdict[str, Any]):
        pass

    rows = [
        Absent(lambda: 7, part(1)),
        Absent(lambda: 7, {"kind": "k", "number": 2, "note": "x", "price": 1}),
    ]
    assert TableSink(place.engine, "parts", keys=["kind", "number"]).write(rows) == [None, None]
    assert [sorted(row) for row in rows] == [
        ["kind", "number", "payload", "price"],
        ["kind", "note", "number", "price"],
    ]
    assert [row[4] for row in stored(place)] == [None, "x"]


VALUES = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.text(max_size=3),
    st.just({1}),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.just(float("nan")),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["a", "b", None, []]), "number": st.integers(0, 3)},
        optional={"note": VALUES, "payload": VALUES},
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, often=st.sampled_from([1, 30]))
def test_a_batch_leaves_what_its_rows_leave_one_by_one(rows: list[dict[str, Any]], often: int) -> None:
    """Also where a window of rows is full, and where some of it are bad."""
    found = []
    for together in (True, False):
        engine = sa.create_engine("sqlite://")
        metadata.create_all(engine)
        sink = TableSink(engine, "parts", keys=["kind", "number"])
        if together:
            errors = sink.write(rows * often)
        else:
            # From the second time on nothing changes any more.
            for _ in range(min(often, 2)):
                once = [sink.write([row])[0] for row in rows]
            errors = once * often
        with engine.connect() as connection:
            left = connection.execute(sa.text("SELECT * FROM parts ORDER BY kind, number")).all()
        engine.dispose()
        # A row that a later one of its key overtakes is looked at only if that one is refused.
        last = {repr((row["kind"], row["number"])): index for index, row in enumerate(rows * often)}
        found.append(([str(errors[index]) for index in last.values()], left))
    assert found[0] == found[1]


def test_one_statement_carries_no_more_than_some_megabytes(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/long.db")
    metadata.create_all(engine)
    sink = TableSink(engine, "parts", keys=["kind", "number"])
    sink.check()
    sizes: list[int] = []

    def measure(_connection: Any, _cursor: Any, _text: str, parameters: tuple[Any, ...], *_: Any) -> None:
        sizes.append(sum(len(value.encode()) for value in parameters if isinstance(value, str)))

    sa.event.listen(engine, "before_cursor_execute", measure)
    rows = [part(number, note=letter * 20_000) for number, letter in enumerate("xé🐘" * 200)]
    assert sink.write(rows) == [None] * len(rows)
    engine.dispose()
    assert max(sizes) <= 4 * 1024 * 1024
    assert len(sizes) < 12


@pytest.mark.parametrize(
    "value",
    [
        2**62,
        -(2**63),
        None,
        True,
        1.7e308,
        Decimal("-" + "9" * 45 + "." + "9" * 20),
        "",
        "x" * 30,
        "'" * 30,
        b"\0" * 30,
    ],
    ids=repr,
)
def test_a_statement_of_many_short_values_fits_into_the_packet_of_mysql(value: Any) -> None:
    """PyMySQL writes values into the text; a packet that is too big looks like an outage."""
    packet = 1024 * 1024
    columns = tuple(f"c{number}" for number in range(60))
    packing = Packing(
        [dict.fromkeys(columns, value)] * 1200,
        columns,
        convert=lambda column, values: values,
        error=ValueError,
        refuse=lambda index, error: pytest.fail("refused"),
        max_parameters=65_535,
        max_bytes=(packet - 64 * 1024) // 2,
    )
    for chunk in packing.chunks(range(1200)):
        text = ",".join(str(escape_item(value, "utf8mb4")) for value in chunk.parameters)
        assert len(text.encode()) + 3 * len(chunk.rows) < packet - 32 * 1024
