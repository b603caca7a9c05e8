"""Inbox and outbox with queues and workers, in memory."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.failure_policies import DeadLetter
from sqs_workers.sql import Inbox, Outbox, Relay, faults
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database


class Killed(BaseException):
    """Ends a relay as a signal would."""


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "payments")
    create_standard_queue(env, "payments_dead")
    create_fifo_queue(env, "orders.fifo")
    return env


@pytest.fixture
def place(database: Database) -> Database:
    open_account(database.engine)
    return database


def work(env: SQSEnv, queue_name: str) -> None:
    while env.queue(queue_name).process_batch(wait_seconds=0).total_count():
        pass


def test_a_job_with_an_inbox_runs_once_for_each_event_id(env: SQSEnv, place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing")

    @env.queue("payments").processor("pay", inbox=inbox, event_id="payment_id")
    def pay(tx: Any, payment_id: str, amount: int) -> None:
        credit(amount)(tx)

    for _ in range(3):
        pay.delay(payment_id="p-1", amount=10)
    pay.delay(payment_id="p-2", amount=5)
    work(env, "payments")
    assert balance(place.engine) == 15
    assert inbox.counts == {"processed": 2, "skipped": 2}


def test_a_payload_conflict_goes_to_the_dead_letters_at_once(env: SQSEnv, place: Database) -> None:
    inbox = Inbox(place.engine, consumer="billing")

    @env.queue("payments").processor(
        "pay", inbox=inbox, event_id="payment_id", failure_policy=DeadLetter("payments_dead")
    )
    def pay(tx: Any, payment_id: str, amount: int) -> None:
        credit(amount)(tx)

    pay.delay(payment_id="p-1", amount=10)
    pay.delay(payment_id="p-1", amount=11)
    work(env, "payments")
    assert balance(place.engine) in (10, 11)
    (dead,) = env.queue("payments_dead").get_raw_messages(0)
    assert dead.receive_count == 1


def test_an_event_id_without_an_inbox_is_refused(env: SQSEnv) -> None:
    with pytest.raises(ConfigurationError, match="inbox="):
        env.queue("payments").processor("pay", event_id="payment_id")  # type: ignore[call-overload]


def test_jobs_of_an_outbox_have_their_effect_once_through_the_inbox(env: SQSEnv, place: Database) -> None:
    inbox, outbox = Inbox(place.engine, consumer="billing"), Outbox(place.engine)

    @env.queue("payments").processor("pay", inbox=inbox)
    def pay(tx: Any, amount: int) -> None:
        credit(amount)(tx)

    with place.engine.begin() as tx:
        outbox.delay(tx, pay, amount=1)
        with outbox.session(tx):
            assert len(pay.delay(amount=10) or "") == 36
            with pay.batch():
                pay.delay(amount=100)
    with place.engine.connect() as tx, outbox.session(tx):
        pay.delay(amount=1000)
    assert outbox.pending() == 3
    relay = Relay(outbox, env)

    def die() -> None:
        raise Killed

    faults.AFTER_SEND.action = die
    with pytest.raises(Killed):
        relay.run_once()
    faults.AFTER_SEND.action = None
    with place.engine.begin() as connection:
        # The lease of the dead relay, on a database without row locks.
        connection.execute(sa.update(DEFAULT_TABLES.outbox_messages).values(leased_until=None))
    assert relay.drain() == 3
    relay.close()
    work(env, "payments")
    assert balance(place.engine) == 111
    assert inbox.counts == {"processed": 3, "skipped": 3}


def test_a_handler_sends_its_own_jobs_with_its_own_commit(env: SQSEnv, place: Database) -> None:
    inbox, outbox = Inbox(place.engine, consumer="billing"), Outbox(place.engine)
    receipts: list[int] = []

    @env.queue("orders.fifo").processor("receipt")
    def receipt(amount: int) -> None:
        receipts.append(amount)

    @env.queue("payments").processor("pay", inbox=inbox, event_id="payment_id", max_attempts=2)
    def pay(tx: Any, payment_id: str, amount: int) -> None:
        outbox.delay(tx, receipt, amount=amount, _group_id="alice")
        credit(amount, "alice" if amount < 100 else "nobody")(tx)

    for payment_id, amount in (("p-1", 1), ("p-1", 1), ("p-2", 2), ("p-3", 100)):
        pay.delay(payment_id=payment_id, amount=amount)
    work(env, "payments")
    relay = Relay(outbox, env)
    relay.drain()
    relay.close()
    work(env, "orders.fifo")
    assert sorted(receipts) == [1, 2]
    assert balance(place.engine) == 3


def test_a_message_for_a_queue_that_was_deleted_is_set_aside(env: SQSEnv, place: Database) -> None:
    outbox = Outbox(place.engine)

    @env.queue("gone").processor("job")
    def job(n: int) -> None:
        pytest.fail("nobody works here")

    with place.engine.begin() as tx:
        outbox.delay(tx, job, n=1)
    relay = Relay(outbox, env)
    relay.drain()
    relay.close()
    assert [refused.queue_name for refused in outbox.refused()] == ["gone"]


def test_a_version_that_takes_other_arguments_sees_the_same_event(env: SQSEnv, place: Database) -> None:
    """The first worker dies before it acknowledges, and the redelivery meets another version."""
    inbox = Inbox(place.engine, consumer="billing")
    queue = env.queue("payments")

    def older(tx: Any, payment_id: str, amount: int) -> None:
        credit(amount)(tx)

    def newer(tx: Any, payment_id: str, amount: int, note: str = "", currency: str = "EUR") -> None:
        credit(amount)(tx)

    for first, second, arguments in (
        (older, newer, {"payment_id": "p-1", "amount": 1}),
        (older, newer, {"payment_id": "p-2", "amount": 1, "note": "a producer that is ahead"}),
        (newer, older, {"payment_id": "p-3", "amount": 1, "note": "and a worker that is behind"}),
    ):
        for version in (first, second):
            queue.processors.pop("pay", None)
            task = queue.processor("pay", inbox=inbox, event_id="payment_id")(version)
            queue.add_job("pay", **arguments)
            work(env, "payments")
            del task
    assert balance(place.engine) == 3
    assert inbox.counts == {"processed": 3, "skipped": 3}
