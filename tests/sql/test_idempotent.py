"""Calls to others: one effect for each key, and no outcome that is simply assumed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError, PermanentError
from sqs_workers.sql import (
    NOT_FOUND,
    CallInProgress,
    CallRefused,
    IdempotentCall,
    OutcomeUnknown,
    PayloadConflict,
    faults,
)
from tests.sql.databases import Database


class Killed(BaseException):
    """Ends a worker as a signal would."""


class Declined(Exception):
    """A definite no of the bank."""


class Bank:
    """Charges each key once, and may lose its answers."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}
        self.calls = 0
        self.answers_lost = 0

    def charge(self, key: str, amount: int = 5) -> dict[str, Any]:
        self.calls += 1
        self.charged.setdefault(key, amount)
        if self.answers_lost:
            self.answers_lost -= 1
            raise TimeoutError("no answer")
        return {"receipt": key, "amount": self.charged[key]}

    def lookup(self, key: str) -> Any:
        return {"receipt": key, "amount": self.charged[key]} if key in self.charged else NOT_FOUND


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(database: Database, clock: ManualClock) -> Callable[..., IdempotentCall]:
    return lambda **options: IdempotentCall(database.engine, "charge", **{"clock": clock, **options})


def test_a_call_is_made_once_and_its_answer_kept(make: Any, bank: Bank) -> None:
    call = make()
    first = call.run("order-1", {"amount": 5}, bank.charge)
    assert call.run("order-1", {"amount": 5}, bank.charge) == first == {"receipt": "order-1", "amount": 5}
    assert bank.calls == 1
    assert call.unknown() == []


def test_another_request_under_the_same_key_is_refused(make: Any, bank: Bank) -> None:
    call = make()
    call.run("order-1", {"amount": 5}, bank.charge)
    with pytest.raises(PayloadConflict):
        call.run("order-1", {"amount": 6}, bank.charge)
    assert bank.calls == 1


def test_an_answer_that_was_lost_is_asked_for(make: Any, bank: Bank) -> None:
    call = make(lookup=bank.lookup, repeatable=False)
    bank.answers_lost = 1
    with pytest.raises(TimeoutError):
        call.run("order-1", {}, bank.charge)
    assert call.run("order-1", {}, bank.charge) == {"receipt": "order-1", "amount": 5}
    assert bank.calls == 1


def test_what_the_other_side_never_saw_is_called_again(make: Any, bank: Bank) -> None:
    call = make(lookup=bank.lookup, repeatable=False)

    def unreachable(key: str) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        call.run("order-1", {}, unreachable)
    assert call.run("order-1", {}, bank.charge)["amount"] == 5


def test_without_a_lookup_the_call_is_repeated_with_the_same_key(make: Any, bank: Bank) -> None:
    call = make()
    bank.answers_lost = 2
    for _ in range(2):
        with pytest.raises(TimeoutError):
            call.run("order-1", {}, bank.charge)
    assert call.run("order-1", {}, bank.charge)["amount"] == 5
    assert bank.calls == 3
    assert bank.charged == {"order-1": 5}


def test_what_may_not_be_repeated_and_cannot_be_asked_is_left_to_a_person(
    make: Any, bank: Bank, clock: ManualClock
) -> None:
    call = make(repeatable=False)
    bank.answers_lost = 1
    with pytest.raises(TimeoutError):
        call.run("order-1", {}, bank.charge)
    clock.advance(60)
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="order-1") as caught:
            call.run("order-1", {}, bank.charge)
        assert isinstance(caught.value, PermanentError)
    assert bank.calls == 1
    (open_call,) = call.unknown()
    assert (open_call.operation, open_call.key, open_call.attempts) == ("charge", "order-1", 2)
    assert call.unknown(older_than=timedelta(hours=1)) == []
    call.settle("order-1", {"receipt": "by hand"})
    assert call.run("order-1", {}, bank.charge) == {"receipt": "by hand"}
    assert call.unknown() == []
    with pytest.raises(ConfigurationError, match="not open"):
        call.settle("order-1", {})


def test_a_person_may_settle_it_as_refused_or_have_it_made_again(make: Any, bank: Bank) -> None:
    call = make(repeatable=False)
    for key in ("order-1", "order-2"):
        bank.answers_lost = 1
        with pytest.raises(TimeoutError):
            call.run(key, {}, bank.charge)
        with pytest.raises(OutcomeUnknown):
            call.run(key, {}, bank.charge)
    call.settle_refused("order-1")
    with pytest.raises(CallRefused, match="by hand"):
        call.run("order-1", {}, bank.charge)
    call.forget("order-2")
    assert call.run("order-2", {}, bank.charge)["amount"] == 5


def test_a_lookup_that_fails_for_long_leaves_the_call_to_a_person(make: Any, bank: Bank) -> None:
    def no_answer(key: str) -> Any:
        raise ConnectionError

    call = make(lookup=no_answer, max_attempts=2)
    bank.answers_lost = 1
    with pytest.raises(TimeoutError):
        call.run("order-1", {}, bank.charge)
    with pytest.raises(ConnectionError):
        call.run("order-1", {}, bank.charge)
    with pytest.raises(OutcomeUnknown):
        call.run("order-1", {}, bank.charge)
    assert bank.calls == 1


def test_repeating_is_bounded(make: Any, bank: Bank) -> None:
    call = make(max_attempts=2)
    bank.answers_lost = 99
    for _ in range(2):
        with pytest.raises(TimeoutError):
            call.run("order-1", {}, bank.charge)
    with pytest.raises(OutcomeUnknown):
        call.run("order-1", {}, bank.charge)
    assert bank.calls == 2


def test_a_definite_no_is_kept(make: Any) -> None:
    call = make(refused=(Declined,))
    calls = []

    def decline(key: str) -> None:
        calls.append(key)
        raise Declined("card s3cret")

    for _ in range(2):
        with pytest.raises(CallRefused, match="Declined") as caught:
            call.run("order-1", {}, decline)
        assert "s3cret" not in str(caught.value)
    assert calls == ["order-1"]


@pytest.mark.parametrize("point", ["AFTER_START", "AFTER_CALL"])
def test_a_worker_that_dies_leaves_a_call_that_the_next_one_finds_out(
    make: Any, bank: Bank, clock: ManualClock, point: str
) -> None:
    call = make(lookup=bank.lookup, repeatable=False, lease=60)

    def die() -> None:
        raise Killed

    getattr(faults, point).action = die
    with pytest.raises(Killed):
        call.run("order-1", {}, bank.charge)
    getattr(faults, point).action = None
    with pytest.raises(CallInProgress):
        call.run("order-1", {}, bank.charge)
    assert call.unknown() == []
    clock.advance(61)
    assert [open_call.key for open_call in call.unknown()] == ["order-1"]
    assert call.run("order-1", {}, bank.charge)["amount"] == 5
    assert bank.calls == 1


def test_two_workers_make_one_call(make: Any, bank: Bank) -> None:
    call = make()
    entered, end = threading.Event(), threading.Event()

    def slow(key: str) -> Any:
        entered.set()
        assert end.wait(10)
        return bank.charge(key)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call.run, "order-1", {}, slow)
        try:
            assert entered.wait(10)
            with pytest.raises(CallInProgress):
                call.run("order-1", {}, bank.charge)
        finally:
            end.set()
        assert first.result(10)["amount"] == 5
    assert bank.calls == 1


def test_an_attempt_that_outlived_its_lease_overwrites_nothing(
    make: Any, bank: Bank, clock: ManualClock
) -> None:
    call = make(lease=60)

    def slow(key: str) -> Any:
        clock.advance(61)
        assert call.run("order-1", {}, bank.charge)["receipt"] == "order-1"
        return {"receipt": "late"}

    call.run("order-1", {}, slow)
    assert call.run("order-1", {}, bank.charge)["receipt"] == "order-1"


def test_an_answer_that_cannot_be_stored_says_so(make: Any) -> None:
    with pytest.raises(ConfigurationError, match="JSON"):
        make().run("order-1", {}, lambda key: object())


def test_an_answer_that_cannot_be_stored_leaves_the_call_in_doubt_and_free(make: Any) -> None:
    calls: list[str] = []
    call = make(max_attempts=2)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="JSON"):
            call.run("order-1", {}, lambda key: calls.append(key) or object())
    assert calls == ["order-1"] * 2
    with pytest.raises(OutcomeUnknown):
        call.run("order-1", {}, calls.append)


def test_an_answer_of_a_lookup_that_cannot_be_stored_is_left_to_a_person(make: Any) -> None:
    call = make(lookup=lambda key: object(), max_attempts=2)
    with pytest.raises(TimeoutError):
        call.run("order-1", {}, fails)
    with pytest.raises(ConfigurationError, match="JSON"):
        call.run("order-1", {}, fails)
    with pytest.raises(OutcomeUnknown):
        call.run("order-1", {}, fails)


def fails(key: str) -> None:
    raise TimeoutError


@pytest.mark.parametrize("options", [{"lease": 0}, {"max_attempts": 0}], ids=repr)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        IdempotentCall(None, "charge", **options)
    with pytest.raises(ConfigurationError):
        IdempotentCall(None, " ")
