"""Rows a second of the table sink, and what an inbox costs a job.

::

    python benchmarks/sql_throughput.py postgresql+psycopg://postgres@127.0.0.1/test
    python benchmarks/sql_throughput.py mysql+pymysql://root@127.0.0.1/test
    python benchmarks/sql_throughput.py sqlite:///bench.db

Compares the sink with upserts by ``executemany`` of the same driver, and with commits of one row each
from 16 threads. Both contenders make their rows themselves, write the same columns under the same rule for
conflicts, 500 rows a transaction, into one table that has the rows already, and take turns. The one by hand
looks at no value, finds no bad row, and keeps no order that spares two workers a deadlock.
Tables are made under names of their own, and dropped.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from sqs_workers.sql import Inbox, Tables, TableSink, create_tables

BATCH = 500
THREADS = 16


def upsert_text(dialect: str, table: str) -> str:
    """The statement that one would write by hand."""
    mark = "?" if dialect == "sqlite" else "%s"
    insert = f"INSERT INTO {table} (event_id, payload, status) VALUES ({mark}, {mark}, {mark})"
    if dialect in ("mysql", "mariadb"):
        return f"{insert} ON DUPLICATE KEY UPDATE payload = VALUES(payload), status = VALUES(status)"
    return (
        f"{insert} ON CONFLICT (event_id) DO UPDATE SET payload = excluded.payload, status = excluded.status"
    )


def rows_per_second(write: Callable[[int], object], rows: int, size: int, threads: int = 1) -> float:
    """Calls ``write(first row)`` for each batch of ``size`` rows."""
    started = time.perf_counter()
    if threads == 1:
        for first in range(0, rows, size):
            write(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(write, range(0, rows, size)))
    return rows / (time.perf_counter() - started)


def sink_against_hand(engine: sa.Engine, rows: int, rounds: int) -> dict[str, float]:
    """Rows a second and CPU of this process: the sink, ``executemany`` by hand, one row a commit."""
    name = f"bench_{uuid.uuid4().hex[:8]}"
    table = sa.Table(
        name,
        sa.MetaData(),
        sa.Column("event_id", sa.String(40), primary_key=True),
        sa.Column("payload", sa.Text),
        sa.Column("status", sa.String(10)),
        mysql_engine="InnoDB",
    )
    table.create(engine)
    text = upsert_text(engine.dialect.name, name)
    sink = TableSink(engine, name, keys=["event_id"])
    sink.check()

    def by_sink(first: int) -> None:
        sink.write(
            [{"event_id": f"e{n}", "payload": "x" * 200, "status": "ok"} for n in range(first, first + BATCH)]
        )

    def by_hand(first: int) -> None:
        with engine.begin() as connection:
            values = [(f"e{n}", "x" * 200, "ok") for n in range(first, first + BATCH)]
            connection.connection.cursor().executemany(text, values)

    def one_by_one(number: int) -> None:
        sink.write_one({"event_id": f"e{number}", "payload": "x" * 200, "status": "ok"})

    contenders = {"sink": by_sink, "executemany": by_hand}
    rates: dict[str, list[float]] = {key: [] for key in contenders}
    cpu: dict[str, list[float]] = {key: [] for key in contenders}
    try:
        for write in contenders.values():
            rows_per_second(write, rows, BATCH)
        for number in range(rounds):
            for key in sorted(contenders, reverse=bool(number % 2)):
                before = time.process_time()
                rates[key].append(rows_per_second(contenders[key], rows, BATCH))
                cpu[key].append((time.process_time() - before) / rows * 1e6)
        singles = rows_per_second(one_by_one, min(rows, 2000), 1, THREADS)
        found = {f"{key}, rows/s": statistics.median(values) for key, values in rates.items()}
        found |= {f"{key}, us of CPU a row": statistics.median(values) for key, values in cpu.items()}
        pairs = zip(rates["sink"], rates["executemany"], strict=True)
        return {
            **found,
            "one row a commit, rows/s": singles,
            "sink / executemany": statistics.median(sink / hand for sink, hand in pairs),
            "sink / one row a commit": found["sink, rows/s"] / singles,
        }
    finally:
        table.drop(engine)


def inbox_against_bare(engine: sa.Engine, jobs: int, rounds: int) -> dict[str, float]:
    """Transactions a second that write one row, with and without an inbox, and the statements of each."""
    suffix = uuid.uuid4().hex[:8]
    tables = Tables(
        processed_events=f"pe_{suffix}", outbox_messages=f"om_{suffix}", idempotent_calls=f"ic_{suffix}"
    )
    ledger = sa.Table(f"ledger_{suffix}", tables.metadata, sa.Column("n", sa.Integer), mysql_engine="InnoDB")
    create_tables(engine, tables)
    ledger.create(engine)
    inbox = Inbox(engine, consumer="bench", tables=tables)
    statements = 0
    number = 0

    def count(*_: Any) -> None:
        nonlocal statements
        statements += 1

    def bare(first: int) -> None:
        with engine.begin() as connection:
            connection.execute(sa.insert(ledger).values(n=first))

    def through_inbox(first: int) -> None:
        nonlocal number
        number += 1
        inbox.run(f"e{number}", {"n": first}, lambda tx: tx.execute(sa.insert(ledger).values(n=first)))

    sa.event.listen(engine, "before_cursor_execute", count)
    found: dict[str, list[float]] = {"bare": [], "inbox": [], "more statements a job": []}
    try:
        for _ in range(rounds):
            statements = 0
            found["bare"].append(rows_per_second(bare, jobs, 1))
            before = statements
            found["inbox"].append(rows_per_second(through_inbox, jobs, 1))
            found["more statements a job"].append((statements - 2 * before) / jobs)
        return {key: statistics.median(values) for key, values in found.items()}
    finally:
        sa.event.remove(engine, "before_cursor_execute", count)
        tables.metadata.drop_all(engine)


def megabytes() -> float:
    """Resident memory of this process (Linux)."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6


def growth(engine: sa.Engine, jobs: int) -> dict[str, float]:
    """Megabytes by which the process grows over ``jobs`` jobs of the inbox and as many batches of a sink."""
    suffix = uuid.uuid4().hex[:8]
    tables = Tables(
        processed_events=f"pe_{suffix}", outbox_messages=f"om_{suffix}", idempotent_calls=f"ic_{suffix}"
    )
    rows = sa.Table(f"rows_{suffix}", tables.metadata, sa.Column("id", sa.Integer, primary_key=True))
    create_tables(engine, tables)
    rows.create(engine)
    inbox, sink = Inbox(engine, consumer="bench", tables=tables), TableSink(engine, rows.name, keys=["id"])
    found: dict[str, float] = {}
    try:
        for name, work in (
            ("inbox", lambda number: inbox.run(f"e{number}", {"n": number}, lambda tx: None)),
            ("sink", lambda number: sink.write([{"id": number * 20 + n} for n in range(1 + number % 20)])),
        ):
            for number in range(jobs // 5):
                work(number)
            before = megabytes()
            for number in range(jobs // 5, jobs):
                work(number)
            found[name] = megabytes() - before
        return found
    finally:
        tables.metadata.drop_all(engine)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="SQLAlchemy URL of a database in which tables may be made")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    engine = sa.create_engine(arguments.url, pool_size=THREADS)
    for name, value in sink_against_hand(engine, arguments.rows, arguments.rounds).items():
        print(f"{name:>28}: {value:12,.2f}")
    for name, value in inbox_against_bare(engine, arguments.jobs, arguments.rounds).items():
        print(f"{name:>28}: {value:12,.2f}")
    for name, value in growth(engine, 5 * arguments.jobs).items():
        print(f"{'growth of ' + name:>28}: {value:12,.2f} MB")
    engine.dispose()


if __name__ == "__main__":
    main()
