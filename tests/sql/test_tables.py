"""Tables: created side by side, completed without loss, readable as SQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql import DatabaseError, Inbox, Outbox, Relay, Skipped, Tables, create_tables, ddl, metadata
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs


def test_tables_are_created_once(bare_database: Database) -> None:
    assert create_tables(bare_database.engine) == [
        "table processed_events",
        "table outbox_messages",
        "table idempotent_calls",
        "table schedule_slots",
    ]
    assert create_tables(bare_database.engine) == []


def test_several_processes_may_create_them_at_once(bare_database: Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda _: create_tables(bare_database.engine), range(4)))
    assert sorted(len(names) for names in added) == [0, 0, 0, 4]


def older(table: sa.Table, *missing: str) -> sa.Table:
    """The table as a version had it that did not know some columns yet."""
    kept = [column._copy() for column in table.columns if column.name not in missing]
    return sa.Table(table.name, sa.MetaData(), *kept, mysql_engine="InnoDB")


def test_an_older_table_is_completed_and_keeps_its_rows(bare_database: Database) -> None:
    old = older(DEFAULT_TABLES.outbox_messages, "lease", "leased_until", "reason", "attempts")
    old.create(bare_database.engine)
    outbox = Outbox(bare_database.engine)
    with bare_database.engine.begin() as tx:
        kept = outbox.delay(tx, FakeTask(), n=1)
    added = create_tables(bare_database.engine)
    assert "column outbox_messages.lease" in added
    assert "column outbox_messages.attempts" in added
    assert "index ix_outbox_messages_state" in added
    assert create_tables(bare_database.engine) == []
    sqs = Sqs()
    Relay(outbox, sqs).drain()
    assert [outbox_id for _, outbox_id in sqs.received()] == [kept]


def test_a_column_of_a_later_version_does_not_disturb_this_one(bare_database: Database) -> None:
    create_tables(bare_database.engine)
    with bare_database.engine.begin() as connection:
        for table in DEFAULT_TABLES.all:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN later INTEGER DEFAULT 7")
    assert create_tables(bare_database.engine) == []
    inbox = Inbox(bare_database.engine, consumer="billing")
    inbox.run("evt-1", {}, lambda tx: None)
    assert inbox.run("evt-1", {}, lambda tx: None) == Skipped()


def test_a_schema_may_be_named(bare_database: Database) -> None:
    if bare_database.kind != "postgresql":
        pytest.skip("the name of the schema is PostgreSQL's")
    tables = Tables(schema=bare_database.name, processed_events="elsewhere")
    create_tables(bare_database.engine, tables)
    inbox = Inbox(bare_database.engine, consumer="billing", tables=tables)
    assert inbox.run("evt-1", {}, lambda tx: None) != Skipped()
    outbox = Outbox(bare_database.engine, tables=tables)
    with bare_database.engine.begin() as tx:
        outbox.delay(tx, FakeTask(), n=1)
    assert Relay(outbox, Sqs()).drain() == 1


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        (
            "postgresql",
            ["CREATE TABLE outbox_messages", "BIGSERIAL", "TIMESTAMP WITH TIME ZONE", "CREATE INDEX"],
        ),
        ("mysql", ["LONGTEXT", "utf8mb4_bin", "DATETIME(6)", "ENGINE=InnoDB", "AUTO_INCREMENT"]),
        ("mariadb", ["LONGTEXT", "utf8mb4_bin", "DATETIME(6)", "ENGINE=InnoDB"]),
        ("sqlite", ["INTEGER NOT NULL", "CREATE INDEX"]),
    ],
)
def test_the_statements_can_be_printed_for_each_dialect(dialect: str, words: list[str]) -> None:
    text = ddl(dialect)
    for word in words:
        assert word in text
    assert text.count("CREATE TABLE") == 4


def test_the_printed_statements_make_the_tables(bare_database: Database) -> None:
    with bare_database.engine.begin() as connection:
        for statement in ddl(bare_database.engine.dialect).split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    assert create_tables(bare_database.engine) == []


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="postgresql, mysql"):
        ddl("oracel")


def test_the_metadata_holds_the_tables_under_their_usual_names() -> None:
    assert set(metadata.tables) == {
        "processed_events",
        "outbox_messages",
        "idempotent_calls",
        "schedule_slots",
    }
    mine = sa.MetaData()
    assert set(Tables(outbox_messages="o", metadata=mine).metadata.tables) == {
        "processed_events",
        "o",
        "idempotent_calls",
        "schedule_slots",
    }


def test_two_tables_with_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="different names"):
        Tables(outbox_messages="processed_events")


def test_a_database_that_is_gone_is_a_temporary_error(bare_database: Database) -> None:
    if bare_database.kind == "sqlite":
        engine = sa.create_engine("sqlite:////nonexistent/directory/file.db")
    else:
        engine = sa.create_engine(bare_database.url.set(port=1))
    with pytest.raises(DatabaseError) as caught:
        create_tables(engine)
    engine.dispose()
    assert caught.value.kind.temporary


def test_what_a_version_adds_later_may_be_empty_or_has_a_default() -> None:
    first_version = {
        "processed_events": {"consumer", "event_id", "payload_hash", "processed_at"},
        "outbox_messages": {"id", "outbox_id", "queue_name", "body", "attributes", "created_at"},
        "schedule_slots": {"lease", "schedule", "last_slot", "claimed_at"},
        "idempotent_calls": {"operation", "call_key", "state", "request_hash", "created_at", "updated_at"},
    }
    for table in DEFAULT_TABLES.all:
        for column in table.columns:
            if column.name not in first_version[table.name]:
                assert column.nullable or column.server_default is not None, column
