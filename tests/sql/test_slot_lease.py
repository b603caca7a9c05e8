"""The lease of beats in each database."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql import DatabaseLease, Tables
from tests.sql.databases import Database


def test_a_slot_is_won_once(database: Database) -> None:
    one, two = DatabaseLease(database.engine, "b"), DatabaseLease(database.engine, "b")
    assert one.last_slot("s", 100) == 100
    assert two.last_slot("s", 999) == 100
    with one.claim("s", 100, 160) as claim:
        assert claim.won
    with two.claim("s", 100, 160) as claim:
        assert not claim.won
    assert two.last_slot("s", 999) == 160


def test_of_many_that_ask_at_once_one_wins_each_slot(database: Database) -> None:
    lease = DatabaseLease(database.engine, "b", clock=ManualClock())
    lease.last_slot("s", 0)
    wins: list[int] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        mine = DatabaseLease(database.engine, "b")
        for slot in range(1, 11):
            barrier.wait(30)
            with mine.claim("s", slot - 1, slot) as claim:
                if claim.won:
                    wins.append(slot)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wins == list(range(1, 11))


def test_a_claim_whose_block_fails_is_undone(database: Database) -> None:
    lease = DatabaseLease(database.engine, "b")
    lease.last_slot("s", 1)
    with pytest.raises(ValueError, match="send"), lease.claim("s", 1, 2):
        raise ValueError("send failed")
    assert lease.last_slot("s", 9) == 1


def test_a_slot_is_given_back_unless_somebody_went_on(database: Database) -> None:
    lease = DatabaseLease(database.engine, "b")
    lease.last_slot("s", 1)
    with lease.claim("s", 1, 2):
        pass
    lease.give_back("s", 2, 1)
    assert lease.last_slot("s", 9) == 1
    with lease.claim("s", 1, 3):
        pass
    lease.give_back("s", 2, 1)
    assert lease.last_slot("s", 9) == 3


def test_leases_of_other_names_and_tables_are_others(database: Database) -> None:
    one = DatabaseLease(database.engine, "one")
    one.last_slot("s", 1)
    assert DatabaseLease(database.engine, "One").last_slot("s", 2) == 2
    tables = Tables(schedule_slots="other_slots")
    tables.schedule_slots.create(database.engine)
    assert DatabaseLease(database.engine, "one", tables=tables).last_slot("s", 3) == 3
    # The other tables have their usual names, and are those of all tests.
    tables.schedule_slots.drop(database.engine)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="synchronous"):
        DatabaseLease("sqlite://")
    with pytest.raises(ConfigurationError, match="1 to 100"):
        DatabaseLease(sa.create_engine("sqlite://"), "")
