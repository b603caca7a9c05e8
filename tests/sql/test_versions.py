"""Schemas of other versions, kept as text, and workers of two versions on one database.

``schemas/full.*`` is a schema that was released: a later version must go on working with it and complete it.
``schemas/small.*`` has the tables without what a first version could do without.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from sqs_workers.sql import Inbox, Outbox, Relay, Tables, create_tables
from sqs_workers.sql.hashing import payload_hash
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs

SCHEMAS = Path(__file__).parent / "schemas"
# What the other version sends to the database.
MARK = (
    "INSERT INTO processed_events (consumer, event_id, payload_hash, processed_at) "
    "VALUES ('billing', :event_id, :digest, CURRENT_TIMESTAMP)"
)
STORE = (
    "INSERT INTO outbox_messages (outbox_id, state, queue_name, group_id, job_name, body, attributes, created_at) "
    "VALUES (:id, 'pending', 'jobs', NULL, 'job', :body, :attributes, CURRENT_TIMESTAMP)"
)
CLAIM = "SELECT id, body, outbox_id FROM outbox_messages WHERE state = 'pending' ORDER BY id LIMIT 5"
SETTLE = "UPDATE outbox_messages SET state = 'sent', settled_at = CURRENT_TIMESTAMP, message_id = 'm' WHERE id = :id"


@pytest.fixture(params=["full", "small"])
def place(request: pytest.FixtureRequest, bare_database: Database) -> Database:
    text = (SCHEMAS / f"{request.param}.{bare_database.kind}.sql").read_text()
    with bare_database.engine.begin() as connection:
        for statement in filter(None, map(str.strip, text.split(";"))):
            connection.exec_driver_sql(statement)
    open_account(bare_database.engine)
    return bare_database


def other_stores(database: Database, number: int) -> str:
    outbox_id = str(uuid.uuid4())
    attributes = f'{{"OutboxId": {{"StringValue": "{outbox_id}", "DataType": "String"}}}}'
    values = {"id": outbox_id, "body": f'{{"n": {number}}}', "attributes": attributes}
    with database.engine.begin() as connection:
        connection.execute(sa.text(STORE), values)
    return outbox_id


def other_marks(database: Database, event_id: str, payload: object) -> bool:
    """Whether the other version had the effect."""
    try:
        with database.engine.begin() as connection:
            connection.execute(sa.text(MARK), {"event_id": event_id, "digest": payload_hash(payload)})
            credit(1)(connection)
    except sa.exc.IntegrityError:
        return False
    return True


def other_relays(database: Database) -> list[str]:
    """Bodies that the other version's relay takes."""
    claim = CLAIM if database.kind == "sqlite" else f"{CLAIM} FOR UPDATE SKIP LOCKED"
    with database.engine.begin() as connection:
        rows = connection.execute(sa.text(claim)).all()
        for row in rows:
            connection.execute(sa.text(SETTLE), {"id": row.id})
    return [row.body for row in rows]


def test_a_schema_of_another_version_is_completed_and_keeps_its_rows(place: Database) -> None:
    waiting = [other_stores(place, number) for number in range(3)]
    assert other_marks(place, "evt-1", {"n": 1})
    create_tables(place.engine)
    assert create_tables(place.engine) == []
    inbox, outbox, sqs = Inbox(place.engine, consumer="billing"), Outbox(place.engine), Sqs()
    inbox.run("evt-1", {"n": 1}, credit(1))
    assert inbox.counts == {"skipped": 1}
    relay = Relay(outbox, sqs)
    assert relay.drain() == 3
    relay.close()
    assert [outbox_id for _, outbox_id in sqs.received()] == waiting
    assert balance(place.engine) == 1


def test_workers_of_two_versions_have_each_effect_once(place: Database) -> None:
    create_tables(place.engine)
    inbox = Inbox(place.engine, consumer="billing", attempts=20)
    start = threading.Barrier(2)

    def this(number: int) -> None:
        start.wait(30)
        inbox.run(f"evt-{number}", {"n": number}, credit(1))

    def other(number: int) -> None:
        start.wait(30)
        other_marks(place, f"evt-{number}", {"n": number})

    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            for each in [pool.submit(version, number) for version in (this, other)]:
                each.result(60)
    assert balance(place.engine) == 20


def test_relays_of_two_versions_take_the_jobs_of_both(place: Database) -> None:
    create_tables(place.engine)
    outbox, sqs = Outbox(place.engine), Sqs()
    relay, taken = Relay(outbox, sqs), []
    for number in range(0, 40, 2):
        other_stores(place, number)
        with place.engine.begin() as tx:
            outbox.delay(tx, FakeTask(), n=number + 1)
        if number % 8 == 0:
            taken += other_relays(place)
        elif number % 8 == 4:
            relay.run_once()
    relay.drain()
    relay.close()
    mine = [arguments["n"] for arguments, _ in sqs.received()]
    theirs = [int(body.rpartition(" ")[2].rstrip("}")) for body in taken]
    assert sorted(mine + theirs) == list(range(40))
    assert mine
    assert theirs


def test_this_version_works_beside_a_later_one_that_has_added_columns(bare_database: Database) -> None:
    later = Tables()
    for table in later.all:
        table.append_column(sa.Column("tenant", sa.String(40), server_default="nobody", nullable=False))
        table.append_column(sa.Column("trace", sa.String(40)))
        sa.Index(f"ix_{table.name}_tenant", table.c.tenant)
    create_tables(bare_database.engine)
    open_account(bare_database.engine)
    inbox, outbox, sqs = Inbox(bare_database.engine, consumer="billing"), Outbox(bare_database.engine), Sqs()
    with bare_database.engine.begin() as tx:
        outbox.delay(tx, FakeTask(), n=0)
    inbox.run("evt-0", {}, credit(1))
    assert len(create_tables(bare_database.engine, later)) == 3 * len(later.all)
    new_inbox = Inbox(bare_database.engine, consumer="billing", tables=later)
    new_outbox = Outbox(bare_database.engine, tables=later)
    for one, two, number in ((inbox, new_inbox, 1), (new_inbox, inbox, 2)):
        one.run(f"evt-{number}", {}, credit(1))
        two.run(f"evt-{number}", {}, credit(1))
    new_inbox.run("evt-0", {}, credit(1))
    with bare_database.engine.begin() as tx:
        outbox.delay(tx, FakeTask(), n=1)
        new_outbox.delay(tx, FakeTask(), n=2)
    relay = Relay(outbox, sqs)
    relay.drain()
    relay.close()
    assert [arguments["n"] for arguments, _ in sqs.received()] == [0, 1, 2]
    assert balance(bare_database.engine) == 3
