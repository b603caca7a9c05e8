"""Engines with a single connection: nothing waits for a connection that the same program holds."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.sql import DatabaseUnavailable, Inbox, Outbox, Relay, Tables, TableSink
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs


@pytest.fixture
def single(database: Database) -> sa.Engine:
    open_account(database.engine)
    return database.make_engine(pool_size=1, max_overflow=0, pool_timeout=15)


def test_a_relay_leaves_the_only_connection_to_others(database: Database, single: sa.Engine) -> None:
    outbox = Outbox(single)
    sqs = Sqs()
    relay = Relay(outbox, sqs, min_poll=0.01, max_poll=0.05)
    running = threading.Thread(target=relay.run, kwargs={"handle_signals": False})
    running.start()
    pause = threading.Event()
    try:
        for number in range(20):
            with single.begin() as tx:
                outbox.delay(tx, FakeTask(), n=number)
            assert Inbox(single, consumer="billing").run(f"evt-{number}", {}, credit(1))
        for _ in range(200):
            if outbox.pending() == 0:
                break
            pause.wait(0.05)
    finally:
        relay.stop()
        running.join(20)
    assert sorted(arguments["n"] for arguments, _ in sqs.received()) == list(range(20))
    assert balance(database.engine) == 20


def test_inbox_outbox_and_sink_work_one_after_the_other_on_one_connection(single: sa.Engine) -> None:
    inbox, outbox = Inbox(single, consumer="billing"), Outbox(single)
    sink = TableSink(single, "totals", keys=["account_id"])

    def handler(tx: Any) -> None:
        outbox.delay(tx, FakeTask(), n=1)
        assert sink.write([{"account_id": "carol", "amount": 3}], connection=tx) == [None]

    for _ in range(3):
        inbox.run("evt-1", {}, handler)
        sink.write([{"account_id": "dave", "amount": 3}])
    assert outbox.pending() == 1
    assert inbox.counts == {"processed": 1, "skipped": 2}


def test_a_pool_that_is_exhausted_is_a_temporary_error(database: Database) -> None:
    open_account(database.engine)
    single = database.make_engine(pool_size=1, max_overflow=0, pool_timeout=0.1)
    inbox = Inbox(single, consumer="billing")
    with single.connect(), pytest.raises(DatabaseUnavailable):
        inbox.run("evt-1", {}, credit(1))
    assert inbox.run("evt-1", {}, credit(1))


def test_the_channel_of_a_table_with_a_long_name_is_one_that_postgresql_takes() -> None:
    tables = Tables(outbox_messages="ü" * 31, schema="s" * 63)
    channel = Outbox(tables=tables).channel
    assert len(channel.encode()) < 64
    assert channel != Outbox(tables=Tables(outbox_messages="ü" * 30, schema="s" * 63)).channel
