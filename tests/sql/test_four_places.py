"""The four places where a process can die, each forced exactly there: what is left, and how it recovers."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.clock import SYSTEM_CLOCK, SteppableClock
from sqs_workers.sql import NOT_FOUND, IdempotentCall, Inbox, Outbox, Ran, Relay, Skipped
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database
from tests.sql.sqs import Sqs

ROOT = Path(__file__).resolve().parent.parent.parent
DIED = 9

PROGRAM = """
import os, sys
import sqlalchemy as sa
from sqs_workers.sql import IdempotentCall, Inbox, Outbox, Relay, faults
from tests.sql.accounts import credit
from tests.sql.sqs import FakeTask, Sqs

url, options, point, what = sys.argv[1], eval(sys.argv[2]), sys.argv[3], sys.argv[4]
engine = sa.create_engine(url, **options)
getattr(faults, point).action = lambda: os._exit(9)
if what == "inbox":
    Inbox(engine, consumer="billing").run("evt-1", {"amount": 10}, credit(10))
elif what == "outbox":
    outbox = Outbox(engine)
    with engine.begin() as tx:
        credit(10)(tx)
        outbox.delay(tx, FakeTask(), account="alice", amount=10)
    Relay(outbox, Sqs()).run_once()
else:
    IdempotentCall(engine, "charge", lease=60).run("order-1", {"amount": 10}, lambda key: {"receipt": key})
raise AssertionError("the fault point was not reached")
"""


def die_at(database: Database, point: str, what: str) -> None:
    """Run the program in a process that ends at ``point`` as if killed: nothing is closed or undone."""
    url = database.url.render_as_string(hide_password=False)
    arguments = [url, repr(database.options), point, what]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == DIED, done.stderr


@pytest.fixture
def place(database: Database) -> Database:
    open_account(database.engine)
    return database


def test_before_the_commit_nothing_is_left_and_the_redelivery_does_it_all(place: Database) -> None:
    die_at(place, "AFTER_HANDLER", "inbox")
    assert balance(place.engine) == 0
    inbox = Inbox(place.engine, consumer="billing")
    assert inbox.run("evt-1", {"amount": 10}, credit(10)) == Ran("credited 10")
    assert balance(place.engine) == 10


def test_after_the_commit_and_before_the_ack_the_redelivery_is_skipped(place: Database) -> None:
    die_at(place, "AFTER_COMMIT", "inbox")
    assert balance(place.engine) == 10
    inbox = Inbox(place.engine, consumer="billing")
    assert inbox.run("evt-1", {"amount": 10}, credit(10)) == Skipped()
    assert balance(place.engine) == 10


@pytest.mark.parametrize("point", ["BEFORE_SEND", "AFTER_SEND"])
def test_after_the_commit_and_before_the_sending_the_outbox_sends_it(place: Database, point: str) -> None:
    die_at(place, point, "outbox")
    assert balance(place.engine) == 10
    clock = SteppableClock()
    outbox = Outbox(place.engine, clock=clock)
    assert outbox.pending() == 1
    # The lease of the dead relay, on a database that has no row locks to skip.
    clock.advance(121)
    sqs = Sqs()
    relay, pause = Relay(outbox, sqs, clock=clock), threading.Event()
    for _ in range(100):
        # The server may take a moment to see that the connection of the dead relay is gone.
        if relay.drain():
            break
        pause.wait(0.05)
    relay.close()
    ((arguments, outbox_id),) = sqs.received()
    assert arguments == {"account": "alice", "amount": 10}
    assert len(outbox_id) == 36


class Bank:
    """Has the charge if the first process got through to it."""

    def __init__(self, *, has_it: bool) -> None:
        self.has_it = has_it
        self.calls = 0

    def lookup(self, key: str) -> Any:
        return {"receipt": key} if self.has_it else NOT_FOUND

    def charge(self, key: str) -> Any:
        self.calls += 1
        self.has_it = True
        return {"receipt": key}


@pytest.mark.parametrize(("point", "has_it"), [("AFTER_START", False), ("AFTER_CALL", True)])
def test_an_answer_lost_with_the_process_is_asked_for_by_its_key(
    place: Database, point: str, has_it: bool
) -> None:
    die_at(place, point, "call")
    clock = SteppableClock()
    bank = Bank(has_it=has_it)
    call = IdempotentCall(place.engine, "charge", lookup=bank.lookup, lease=60, clock=clock)
    assert SYSTEM_CLOCK.time() <= clock.time() + 1
    clock.advance(61)
    assert [open_call.key for open_call in call.unknown()] == ["order-1"]
    assert call.run("order-1", {"amount": 10}, bank.charge) == {"receipt": "order-1"}
    assert bank.calls == (0 if has_it else 1)
    assert call.unknown() == []
