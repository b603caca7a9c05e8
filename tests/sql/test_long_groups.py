"""A relay and a FIFO group with very many messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.clock import ManualClock
from sqs_workers.messages import OutgoingMessage
from sqs_workers.sql import Outbox, Relay
from sqs_workers.sql.claims import LeaseClaims, LockClaims
from sqs_workers.sql.tables import DEFAULT_TABLES
from sqs_workers.transport.protocol import EntryError, SendResult
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs

MESSAGES = DEFAULT_TABLES.outbox_messages
LONG, SHORT, LOOSE = (
    FakeTask("q.fifo", group_id="long"),
    FakeTask("q.fifo", group_id="short"),
    FakeTask("jobs"),
)


class TickingClock(ManualClock):
    """A second passes whenever somebody looks."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return Outbox(database.engine, clock=ManualClock())


def store(outbox: Outbox, *tasks: FakeTask) -> None:
    with outbox.engine.begin() as tx:
        for number, task in enumerate(tasks):
            outbox.delay(tx, task, n=number)


def sent(sqs: Sqs) -> list[int]:
    return [arguments["n"] for name in sqs.urls for arguments, _ in sqs.received(name)]


@pytest.mark.parametrize("way", ["chosen", "leases"])
def test_what_is_behind_a_long_group_goes_out_at_once(outbox: Outbox, way: str, monkeypatch: Any) -> None:
    if way == "leases":
        monkeypatch.setattr("sqs_workers.sql.claims.skips_locked_rows", lambda dialect: False)
    store(outbox, *[LONG] * 150, SHORT, LOOSE, SHORT, *[LONG] * 50)
    sqs = Sqs("q.fifo", "jobs")
    relay = Relay(outbox, sqs, clock=ManualClock())
    try:
        assert relay.run_once() == 10
        assert {0, 150, 151} <= set(sent(sqs))
        assert relay.drain() == 193
    finally:
        relay.close()


@pytest.mark.parametrize("pack_groups", [False, True])
def test_a_long_group_keeps_its_order(outbox: Outbox, pack_groups: bool) -> None:
    store(outbox, *[LONG] * 120, SHORT)
    sqs = Sqs("q.fifo")
    relay = Relay(outbox, sqs, batch=40, pack_groups=pack_groups, clock=ManualClock())
    assert relay.drain() == 121
    assert [number for number in sent(sqs) if number != 120] == list(range(120))
    assert len(sqs.calls) == (13 if pack_groups else 120)


def test_a_packed_group_waits_after_the_call_in_which_one_failed(outbox: Outbox) -> None:
    store(outbox, *[LONG] * 30)
    clock, sqs = ManualClock(), Sqs("q.fifo")

    def second_fails(url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        taken = sqs.really(url, [messages[0], *messages[2:]])
        return [taken[0], SendResult(None, EntryError("ThrottlingException")), *taken[1:]]

    sqs.answers = [second_fails]
    relay = Relay(outbox, sqs, batch=30, pack_groups=True, clock=clock)
    relay.run_once()
    assert len(sqs.calls) == 1
    clock.advance(10)
    assert relay.drain() == 21
    assert sent(sqs) == [0, *range(2, 10), 1, *range(10, 30)]


def test_a_group_whose_head_waits_holds_up_no_other_one(outbox: Outbox) -> None:
    """Also right after a search of the table that found nothing else."""
    store(outbox, *[LONG] * 100)
    clock, sqs = ManualClock(), Sqs("q.fifo")

    def throttled(url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        return [SendResult(None, EntryError("ThrottlingException")) for _ in messages]

    sqs.answers = [throttled]
    relay = Relay(outbox, sqs, clock=clock)
    assert relay.run_once() == 10
    assert relay.run_once() == 0
    store(outbox, SHORT)
    assert relay.run_once() == 1
    clock.advance(10)
    assert relay.drain() == 100
    assert sent(sqs) == [0, *range(100)]


def test_a_second_relay_finds_what_is_behind_a_group_that_the_first_one_holds(outbox: Outbox) -> None:
    if outbox.engine.dialect.name == "sqlite":
        pytest.skip("leases are seen in the rows")
    store(outbox, *[LONG] * 100)
    first, second = (LockClaims(outbox.engine, MESSAGES, TickingClock(), 10) for _ in range(2))
    try:
        with first.open() as held:
            assert len(held.rows) == 10
            with second.open() as nothing:
                assert nothing.rows == []
            store(outbox, SHORT)
            with second.open() as other:
                assert [row.message.group_id for row in other.rows] == ["short"]
    finally:
        first.close()
        second.close()


def test_a_claim_costs_no_more_the_longer_the_group_is(outbox: Outbox) -> None:
    """Counted by SQLite's own steps: of a claim between two searches."""
    if outbox.engine.dialect.name != "sqlite":
        pytest.skip("only SQLite counts its steps")
    costs = []
    for more in (200, 3000):
        store(outbox, *[LONG] * more)
        claims = LeaseClaims(outbox.engine, MESSAGES, TickingClock(), 10, 60.0)
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        def watch(connection: Any, _record: Any) -> None:
            connection.set_progress_handler(count, 100)

        with claims.open() as claim:
            assert len(claim.rows) == 10
        outbox.engine.dispose()
        sa.event.listen(outbox.engine, "connect", watch)
        with claims.open() as claim:
            assert len(claim.rows) == 10
        sa.event.remove(outbox.engine, "connect", watch)
        costs.append(steps)
        outbox.engine.dispose()
    assert costs[1] < 2 * costs[0], costs


def test_more_groups_that_wait_than_one_search_finds_hide_nothing(outbox: Outbox, monkeypatch: Any) -> None:
    monkeypatch.setattr("sqs_workers.sql.claims.SEARCHED", 8)
    heads = [FakeTask("q.fifo", group_id=f"waits{number}") for number in range(20)]
    store(outbox, *heads)
    with outbox.engine.begin() as tx:
        tx.execute(sa.update(MESSAGES).values(not_before=datetime(2100, 1, 1, tzinfo=timezone.utc)))
    store(outbox, *[heads[0]] * 90, SHORT)
    sqs = Sqs("q.fifo")
    assert Relay(outbox, sqs, clock=ManualClock()).drain() == 1
    assert sent(sqs) == [90]
