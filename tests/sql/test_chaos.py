"""Many events, jobs and rows through relays and writers that die at random: exactly one effect each."""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.clock import SteppableClock
from sqs_workers.sql import DatabaseError, Inbox, Outbox, Relay, TableSink, faults
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs

SEED = 20_260_101


class Killed(BaseException):
    """Ends a thread as a signal would end a process."""


class RandomDeath:
    """Kills at a fault point, one time in ``one_in``."""

    def __init__(self, seed: int, one_in: int) -> None:
        self._random = random.Random(seed)
        self._one_in = one_in
        self._lock = threading.Lock()
        self.deaths = 0

    def __call__(self) -> None:
        with self._lock:
            if self._random.randrange(self._one_in) == 0:
                self.deaths += 1
                raise Killed


class AnyOrder(Exception):
    """Rolls a transaction back on purpose."""


def store_jobs(outbox: Outbox, transactions: int) -> dict[int, list[int]]:
    """One job a transaction, a third of them rolled back; group -> numbers of the committed ones."""
    committed: dict[int, list[int]] = defaultdict(list)
    tasks = {group: FakeTask("jobs.fifo", group_id=f"g{group}") for group in range(5)}
    for number in range(transactions):
        group = number % 5
        try:
            with outbox.engine.begin() as tx:
                outbox.delay(tx, tasks[group], n=number)
                if number % 3 == 0:
                    raise AnyOrder
        except AnyOrder:
            continue
        committed[group].append(number)
    return committed


def relay_until_empty(outbox: Outbox, sqs: Sqs, clock: SteppableClock, all_sent: threading.Event) -> None:
    while not all_sent.is_set():
        relay = Relay(outbox, sqs, clock=clock, lease=60)
        try:
            while relay.run_once():
                pass
            if outbox.pending() == 0:
                all_sent.set()
            else:
                # Rows leased by a relay that died come back only when its lease is over.
                clock.advance(61)
        except Killed:
            continue
        except DatabaseError as error:
            # A deadlock: run() would wait and go on.
            if not error.kind.temporary:
                raise
        finally:
            relay.close()


def outbox_through_dying_relays(database: Database, transactions: int) -> None:
    open_account(database.engine)
    clock = SteppableClock()
    outbox = Outbox(database.engine, clock=clock)
    sqs = Sqs("jobs.fifo")
    committed = store_jobs(outbox, transactions)
    death = RandomDeath(SEED, 8)
    faults.BEFORE_SEND.action = faults.AFTER_SEND.action = death
    all_sent = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        relays = [pool.submit(relay_until_empty, outbox, sqs, clock, all_sent) for _ in range(3)]
        for relay in relays:
            relay.result(250)
    faults.BEFORE_SEND.action = faults.AFTER_SEND.action = None
    assert death.deaths > 0
    inbox = Inbox(database.engine, consumer="billing")
    order: dict[int, list[int]] = defaultdict(list)
    for arguments, outbox_id in sqs.received("jobs.fifo"):
        inbox.run(outbox_id, arguments, credit(1))
        if arguments["n"] not in order[arguments["n"] % 5]:
            order[arguments["n"] % 5].append(arguments["n"])
    assert order == committed
    assert balance(database.engine) == sum(len(numbers) for numbers in committed.values())


def test_exactly_the_committed_jobs_arrive_once_and_in_order(database: Database) -> None:
    outbox_through_dying_relays(database, 150)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_exactly_the_jobs_of_1000_transactions_arrive_once_and_in_order(database: Database) -> None:
    outbox_through_dying_relays(database, 1000)


events = sa.Table(
    "sink_events",
    sa.MetaData(),
    sa.Column("event_id", sa.String(20), primary_key=True),
    sa.Column("payload", sa.JSON),
    sa.Column("status", sa.String(10), nullable=False),
    sa.Column("amount", sa.Integer),
    sa.Column("created_at", sa.String(20)),
    sa.Column("updated_at", sa.String(20)),
    sa.CheckConstraint("amount >= 0", name="chaos_amount"),
    mysql_engine="InnoDB",
)


def event(number: int) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "payload": {"n": number, "text": "ä🐘"},
        "status": "done",
        "amount": -1 if number % 100 == 7 else number,
        "created_at": f"c{number}",
    }


def sink_through_dying_writers(database: Database, count: int) -> None:
    events.drop(database.engine, checkfirst=True)
    events.create(database.engine)
    shuffle = random.Random(SEED)
    deliveries = [number for number in range(count) for _ in range(shuffle.choice((1, 1, 2, 3)))]
    shuffle.shuffle(deliveries)
    queue = deque(deliveries)
    engine = database.make_engine()
    death = RandomDeath(SEED, 12)
    sa.event.listen(engine, "commit", lambda connection: death())
    sink = TableSink(
        engine,
        "sink_events",
        keys=["event_id"],
        update_columns=["payload", "status", "amount"],
        update_expr={"updated_at": "'now'"},
    )
    dead_letters: set[str] = set()
    while queue:
        batch = [queue.popleft() for _ in range(min(100, len(queue)))]
        try:
            errors = sink.write([event(number) for number in batch])
        except Killed:
            queue.extend(batch)
            continue
        if shuffle.randrange(12) == 0:
            # Dead between the commit and the acknowledgement: everything comes again.
            queue.extend(batch)
            continue
        dead_letters |= {f"e{number}" for number, error in zip(batch, errors, strict=True) if error}
    assert death.deaths > 0
    bad = {f"e{number}" for number in range(count) if number % 100 == 7}
    assert dead_letters == bad
    with database.engine.connect() as connection:
        rows = connection.execute(sa.select(events)).all()
    assert {row.event_id for row in rows} == {f"e{number}" for number in range(count)} - bad
    assert all(row.created_at == f"c{row.amount}" for row in rows)
    assert {row.updated_at for row in rows} == {None, "now"}
    assert all(row.payload == {"n": row.amount, "text": "ä🐘"} for row in rows)


def test_every_good_row_is_there_once_and_every_bad_one_is_reported(database: Database) -> None:
    sink_through_dying_writers(database, 1000)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_good_row_of_10000_is_there_once_and_every_bad_one_is_reported(database: Database) -> None:
    sink_through_dying_writers(database, 10_000)
