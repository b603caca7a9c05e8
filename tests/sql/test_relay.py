"""The relay: what is in the outbox is sent, at least once, in order, and nothing blocks the rest."""

from __future__ import annotations

import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers.clock import ManualClock, SteppableClock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import HookRegistry
from sqs_workers.messages import OutgoingMessage
from sqs_workers.sql import DatabaseError, Outbox, Relay, create_tables, faults
from sqs_workers.sql.claims import LeaseClaims, LockClaims, make_claims
from sqs_workers.sql.events import OutboxRefused, OutboxSent, RelayPaused
from sqs_workers.sql.tables import DEFAULT_TABLES
from sqs_workers.transport.protocol import EntryError, SendResult
from tests.sql.databases import Database
from tests.sql.sqs import FakeTask, Sqs, client_error, failing, no_network

MESSAGES = DEFAULT_TABLES.outbox_messages


class Killed(BaseException):
    """Ends a relay as a signal would: nothing of it runs any more."""


def die() -> None:
    raise Killed


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> Outbox:
    return Outbox(database.engine, clock=clock)


@pytest.fixture
def relays() -> Iterator[list[Relay]]:
    made: list[Relay] = []
    yield made
    for relay in made:
        relay.close()


@pytest.fixture
def make_relay(outbox: Outbox, clock: ManualClock, relays: list[Relay]) -> Callable[..., Relay]:
    def make(sqs: Sqs, **options: Any) -> Relay:
        relay = Relay(outbox, sqs, **{"clock": clock, **options})
        relays.append(relay)
        return relay

    return make


def store(outbox: Outbox, *jobs: tuple[FakeTask, dict[str, Any]]) -> list[str]:
    with outbox.engine.begin() as tx:
        return [outbox.delay(tx, task, **kwargs) for task, kwargs in jobs]


def states(outbox: Outbox) -> list[tuple[str, int]]:
    with outbox.engine.connect() as connection:
        rows = connection.execute(sa.select(MESSAGES.c.state, MESSAGES.c.attempts).order_by(MESSAGES.c.id))
        return [(state, attempts) for state, attempts in rows]


def refuse_entries(*positions: int, code: str, sender_fault: bool, sqs: Sqs) -> Any:
    def answer(url: str, messages: list[OutgoingMessage]) -> list[SendResult]:
        good = [message for index, message in enumerate(messages) if index not in positions]
        sent = iter(sqs.really(url, good) if good else [])
        error = SendResult(None, EntryError(code, "words of SQS", sender_fault))
        return [error if index in positions else next(sent) for index in range(len(messages))]

    return answer


def test_messages_are_sent_in_batches_of_ten_and_marked(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs()
    ids = store(outbox, *[(FakeTask(), {"n": n}) for n in range(23)])
    relay = make_relay(sqs)
    assert relay.drain() == 23
    assert [len(sent) for _, sent in sqs.calls] == [10, 10, 3]
    received = sqs.received()
    assert [kwargs["n"] for kwargs, _ in received] == list(range(23))
    assert [outbox_id for _, outbox_id in received] == ids
    assert states(outbox) == [("sent", 0)] * 23
    assert relay.run_once() == 0


def test_hooks_hear_of_each_message_sent(outbox: Outbox, make_relay: Any, clock: ManualClock) -> None:
    hooks = HookRegistry()
    sent: list[OutboxSent] = []
    hooks.add(OutboxSent, sent.append)
    (outbox_id,) = store(outbox, (FakeTask(), {"n": 1}))
    clock.advance(5)
    make_relay(Sqs(), hooks=hooks).run_once()
    assert [(event.queue_name, event.outbox_id, event.job_name) for event in sent] == [
        ("jobs", outbox_id, "job")
    ]
    assert sent[0].waited == pytest.approx(5, abs=0.1)
    assert sent[0].message_id


def test_a_relay_that_dies_before_sending_leaves_everything_to_the_next(
    outbox: Outbox, make_relay: Any, clock: ManualClock
) -> None:
    sqs = Sqs()
    store(outbox, (FakeTask(), {"n": 1}))
    faults.BEFORE_SEND.action = die
    with pytest.raises(Killed):
        make_relay(sqs).run_once()
    faults.BEFORE_SEND.action = None
    clock.advance(121)
    assert make_relay(sqs).drain() == 1
    assert len(sqs.received()) == 1


def test_a_relay_that_dies_after_sending_has_its_messages_sent_again_with_the_same_id(
    outbox: Outbox, make_relay: Any, clock: ManualClock
) -> None:
    sqs = Sqs()
    (outbox_id,) = store(outbox, (FakeTask(), {"n": 1}))
    faults.AFTER_SEND.action = die
    with pytest.raises(Killed):
        make_relay(sqs).run_once()
    faults.AFTER_SEND.action = None
    assert states(outbox) == [("pending", 0)]
    clock.advance(121)
    make_relay(sqs).drain()
    assert sqs.received() == [({"n": 1}, outbox_id)] * 2


def test_a_message_for_a_missing_queue_is_set_aside_and_the_rest_goes_on(
    outbox: Outbox, make_relay: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = HookRegistry()
    seen: list[OutboxRefused] = []
    hooks.add(OutboxRefused, seen.append)
    sqs = Sqs()
    (lost, _) = store(outbox, (FakeTask("gone"), {"n": 1}), (FakeTask(), {"n": 2}))
    make_relay(sqs, hooks=hooks).drain()
    assert [kwargs for kwargs, _ in sqs.received()] == [{"n": 2}]
    (refused,) = outbox.refused()
    assert (refused.outbox_id, refused.queue_name, refused.job_name) == (lost, "gone", "job")
    assert "no queue 'gone'" in refused.reason
    assert [event.outbox_id for event in seen] == [lost]
    assert "set aside" in caplog.text


def test_a_message_set_aside_is_tried_again_when_an_operator_says_so(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs()
    (lost,) = store(outbox, (FakeTask("gone"), {"n": 1}))
    relay = make_relay(sqs)
    relay.drain()
    sqs.urls["gone"] = sqs.urls["jobs"]
    assert outbox.retry_refused(["another"]) == 0
    assert outbox.retry_refused([lost]) == 1
    assert outbox.refused() == []
    relay.drain()
    assert [outbox_id for _, outbox_id in sqs.received()] == [lost]


def test_an_entry_that_sqs_refuses_is_set_aside_alone(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs()
    store(outbox, *[(FakeTask(), {"n": n}) for n in range(3)])
    sqs.answers.append(refuse_entries(1, code="InvalidMessageContents", sender_fault=True, sqs=sqs))
    make_relay(sqs).drain()
    assert [state for state, _ in states(outbox)] == ["sent", "refused", "sent"]
    assert outbox.refused()[0].reason == "InvalidMessageContents: words of SQS"


def test_a_request_that_one_message_spoils_is_sent_one_by_one(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs()
    store(outbox, *[(FakeTask(), {"n": n}) for n in range(3)])

    def spoilt(url: str, messages: list[OutgoingMessage]) -> list[SendResult]:
        if any('"n": 1' in message.body for message in messages):
            raise client_error("InvalidParameterValue")
        return sqs.really(url, messages)

    sqs.answers = [spoilt] * 4
    make_relay(sqs).drain()
    assert [state for state, _ in states(outbox)] == ["sent", "refused", "sent"]


def test_a_throttled_entry_waits_and_is_tried_again(
    outbox: Outbox, make_relay: Any, clock: ManualClock
) -> None:
    sqs = Sqs()
    store(outbox, *[(FakeTask(), {"n": n}) for n in range(2)])
    sqs.answers.append(refuse_entries(0, code="RequestThrottled", sender_fault=True, sqs=sqs))
    relay = make_relay(sqs)
    relay.run_once()
    assert states(outbox) == [("pending", 1), ("sent", 0)]
    assert relay.run_once() == 0
    clock.advance(5)
    assert relay.run_once() == 1
    assert states(outbox) == [("sent", 1), ("sent", 0)]


@pytest.mark.parametrize(
    "error", [no_network(), client_error("InternalError", status=500), client_error("AccessDenied")]
)
def test_a_call_that_fails_refuses_nothing(
    outbox: Outbox, make_relay: Any, clock: ManualClock, error: Exception
) -> None:
    sqs = Sqs()
    store(outbox, *[(FakeTask(), {"n": n}) for n in range(2)])
    sqs.answers.append(failing(error))
    relay = make_relay(sqs)
    relay.run_once()
    assert states(outbox) == [("pending", 1)] * 2
    clock.advance(5)
    relay.drain()
    assert len(sqs.received()) == 2


def test_a_fifo_group_keeps_its_order_across_a_failure(
    outbox: Outbox, make_relay: Any, clock: ManualClock
) -> None:
    sqs = Sqs("jobs.fifo")
    tasks = {group: FakeTask("jobs.fifo", group_id=group) for group in "ab"}
    store(outbox, *[(tasks[group], {"g": group, "n": n}) for n in range(4) for group in "ab"])
    sqs.answers.append(refuse_entries(0, code="InternalError", sender_fault=False, sqs=sqs))
    relay = make_relay(sqs)
    relay.run_once()
    # The first of group a failed: nothing of a may overtake it, all of b goes on.
    assert [state for state, _ in states(outbox)] == ["pending", "sent"] * 4
    assert relay.run_once() == 0
    clock.advance(5)
    relay.drain()
    order = defaultdict(list)
    for kwargs, _ in sqs.received("jobs.fifo"):
        order[kwargs["g"]].append(kwargs["n"])
    assert order == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


@pytest.mark.parametrize("way", ["chosen", "leases"])
def test_nothing_of_a_group_overtakes_one_that_waits_behind_its_head(
    outbox: Outbox, make_relay: Any, clock: ManualClock, way: str, monkeypatch: Any
) -> None:
    if way == "leases":
        monkeypatch.setattr("sqs_workers.sql.claims.skips_locked_rows", lambda dialect: False)
    sqs = Sqs("jobs.fifo")
    store(outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": n}) for n in range(3)])
    sqs.answers.append(refuse_entries(0, code="InvalidMessageContents", sender_fault=True, sqs=sqs))
    sqs.answers.append(refuse_entries(0, code="InternalError", sender_fault=False, sqs=sqs))
    relay = make_relay(sqs)
    relay.run_once()
    assert states(outbox) == [("refused", 0), ("pending", 1), ("pending", 0)]
    # The first is due again, the second not yet, the third would be.
    outbox.retry_refused()
    assert relay.drain() == 1
    store(outbox, *[(FakeTask("jobs.fifo", group_id="b"), {"n": n}) for n in (10, 11)])
    assert relay.drain() == 2
    clock.advance(5)
    relay.drain()
    assert [kwargs["n"] for kwargs, _ in sqs.received("jobs.fifo")] == [0, 1, 2, 10, 11]


def test_a_packed_group_keeps_its_order_after_a_call_that_failed_as_a_whole(
    outbox: Outbox, make_relay: Any, clock: ManualClock, monkeypatch: Any
) -> None:
    sqs = Sqs("jobs.fifo")
    store(outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": n}) for n in range(12)])
    sqs.answers.append(failing(no_network()))
    delays = iter(range(1, 11))
    monkeypatch.setattr("sqs_workers.sql.dispatch.retry_delay", lambda attempts: float(next(delays)))
    relay = make_relay(sqs, pack_groups=True)
    relay.run_once()
    for _ in range(12):
        clock.advance(1)
        relay.drain()
    assert [kwargs["n"] for kwargs, _ in sqs.received("jobs.fifo")] == list(range(12))


def test_a_batch_has_one_message_of_a_fifo_group_at_most(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs("jobs.fifo")
    store(outbox, *[(FakeTask("jobs.fifo", group_id=str(n % 2)), {"n": n}) for n in range(6)])
    make_relay(sqs).drain()
    assert [len(bodies) for _, bodies in sqs.calls] == [2, 2, 2]


def test_a_refused_message_of_a_group_does_not_block_the_later_ones(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs("jobs.fifo")
    store(outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": n}) for n in range(3)])
    sqs.answers.append(refuse_entries(0, code="InvalidMessageContents", sender_fault=True, sqs=sqs))
    make_relay(sqs).drain()
    assert [kwargs["n"] for kwargs, _ in sqs.received("jobs.fifo")] == [1, 2]


def test_two_equal_jobs_of_a_fifo_queue_are_both_delivered_and_a_second_sending_is_not(
    outbox: Outbox, make_relay: Any, clock: ManualClock
) -> None:
    sqs = Sqs("jobs.fifo")
    store(outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": 1})] * 2)
    faults.AFTER_SEND.action = die
    with pytest.raises(Killed):
        make_relay(sqs).run_once()
    faults.AFTER_SEND.action = None
    clock.advance(121)
    make_relay(sqs).drain()
    assert len(sqs.received("jobs.fifo")) == 2


def test_two_relays_never_hold_the_same_row_nor_the_same_group(
    outbox: Outbox, make_relay: Any, database: Database
) -> None:
    sqs = Sqs("jobs", "jobs.fifo")
    store(
        outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": n}) for n in range(5)], (FakeTask(), {"n": 5})
    )
    second = make_relay(sqs)
    claimed: list[int] = []

    def meanwhile() -> None:
        faults.BEFORE_SEND.action = None
        claimed.append(second.run_once())

    faults.BEFORE_SEND.action = meanwhile
    assert make_relay(sqs, batch=1).run_once() == 1
    # Only the job without a group was left: the first of the group is held, and the others stand behind it.
    assert claimed == [1]
    assert [state for state, _ in states(outbox)] == ["sent", *["pending"] * 4, "sent"]


def test_three_relays_at_once_send_everything_once_and_in_order(outbox: Outbox, make_relay: Any) -> None:
    sqs = Sqs("jobs", "jobs.fifo")
    jobs = [(FakeTask("jobs.fifo", group_id=f"g{n % 4}"), {"n": n}) for n in range(60)]
    jobs += [(FakeTask(), {"n": n}) for n in range(60)]
    ids = store(outbox, *jobs)
    relays = [make_relay(sqs) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda relay: relay.drain(), relays))
    relays[0].drain()
    fifo, plain = sqs.received("jobs.fifo"), sqs.received("jobs")
    assert sorted(outbox_id for _, outbox_id in fifo + plain) == sorted(ids)
    groups = defaultdict(list)
    for kwargs, _ in fifo:
        groups[kwargs["n"] % 4].append(kwargs["n"])
    assert all(order == sorted(order) for order in groups.values())


def test_the_way_of_claiming_is_chosen_by_the_database(database: Database, clock: ManualClock) -> None:
    claims = make_claims(database.engine, MESSAGES, clock, size=10, lease=60)
    assert type(claims) is (LockClaims if database.locks_rows else LeaseClaims)


def test_leases_work_where_row_locks_would_too(outbox: Outbox, clock: ManualClock) -> None:
    store(outbox, *[(FakeTask("jobs.fifo", group_id="a"), {"n": n}) for n in range(12)])
    first = LeaseClaims(outbox.engine, MESSAGES, clock, 10, 60)
    second = LeaseClaims(outbox.engine, MESSAGES, clock, 10, 60)
    with first.open() as mine:
        assert len(mine.rows) == 10
        with second.open() as others:
            assert others.rows == []
        clock.advance(61)
        with second.open() as others:
            assert [row.id for row in others.rows] == [row.id for row in mine.rows]


def run_in_thread(relay: Relay) -> threading.Thread:
    thread = threading.Thread(target=relay.run)
    thread.start()
    return thread


def test_a_relay_that_runs_sends_what_is_committed_meanwhile_until_it_is_stopped(database: Database) -> None:
    outbox = Outbox(database.engine)
    arrived = threading.Semaphore(0)
    hooks = HookRegistry()
    hooks.add(OutboxSent, lambda event: arrived.release())
    # Only a notification can end this wait in time on PostgreSQL.
    longest = 30.0 if database.kind == "postgresql" else 0.02
    relay = Relay(outbox, Sqs(), hooks=hooks, min_poll=longest, max_poll=longest)
    thread = run_in_thread(relay)
    try:
        for number in range(3):
            store(outbox, (FakeTask(), {"n": number}))
            assert arrived.acquire(timeout=10)
    finally:
        relay.stop()
        thread.join(10)
    assert not thread.is_alive()


class WaitingClock(ManualClock):
    """Notes how long somebody wants to wait, and lets the time pass at once."""

    def __init__(self) -> None:
        super().__init__(auto_advance=True)
        self.waits: list[float] = []
        self.enough: Callable[[], None] = lambda: None

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        self.waits.append(round(timeout or 0, 3))
        if len(self.waits) == 6:
            self.enough()
        return super().wait(condition, timeout)


def test_the_wait_grows_while_there_is_nothing_to_do(database: Database) -> None:
    clock = WaitingClock()
    outbox = Outbox(database.engine, clock=clock, notify=False)
    relay = Relay(outbox, Sqs(), clock=clock, min_poll=1, max_poll=4)
    clock.enough = relay.stop
    relay.run()
    assert clock.waits == [1, 2, 4, 4, 4, 4]
    store(outbox, (FakeTask(), {"n": 1}))
    clock.waits.clear()
    relay = Relay(outbox, Sqs(), clock=clock, min_poll=1, max_poll=4)
    clock.enough = relay.stop
    relay.run()
    assert clock.waits == [1, 2, 4, 4, 4, 4]
    assert outbox.pending() == 0


def test_a_relay_waits_out_what_concerns_all_of_sqs(database: Database) -> None:
    clock = SteppableClock()
    outbox = Outbox(database.engine, clock=clock, notify=False)
    sqs = Sqs()
    hooks = HookRegistry()
    paused, sent = threading.Event(), threading.Event()
    pauses: list[RelayPaused] = []
    hooks.add(RelayPaused, lambda event: (pauses.append(event), paused.set()))
    hooks.add(OutboxSent, lambda event: sent.set())
    store(outbox, (FakeTask(), {"n": 1}))
    sqs.answers.append(failing(no_network()))
    relay = Relay(outbox, sqs, clock=clock, hooks=hooks)
    thread = run_in_thread(relay)
    try:
        assert paused.wait(10)
        clock.advance(400)
        assert sent.wait(10)
    finally:
        relay.stop()
        thread.join(10)
    assert [(event.queue_name, event.kind) for event in pauses] == [("jobs", "network")]


def test_a_relay_without_its_table_ends_with_an_error_that_names_the_outbox(bare_database: Database) -> None:
    relay = Relay(Outbox(bare_database.engine), Sqs())
    with pytest.raises(DatabaseError, match="outbox_messages"):
        relay.run()
    create_tables(bare_database.engine)
    assert Relay(Outbox(bare_database.engine), Sqs()).drain() == 0


def test_a_relay_that_cannot_work_is_refused() -> None:
    engine = sa.create_engine("sqlite://")
    for make in (
        lambda: Relay(Outbox(), Sqs()),
        lambda: Relay(Outbox(engine)),
        lambda: Relay(Outbox(engine), transport=Sqs()),
        lambda: Relay(Outbox(engine), Sqs(), batch=0),
        lambda: Relay(Outbox(engine), Sqs(), min_poll=2, max_poll=1),
        lambda: Relay(Outbox(engine), Sqs(), lease=0),
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_sigterm_ends_a_relay_that_runs_in_the_main_thread(database: Database) -> None:
    outbox = Outbox(database.engine)
    hooks = HookRegistry()
    hooks.add(OutboxSent, lambda event: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    store(outbox, (FakeTask(), {"n": 1}))
    Relay(outbox, Sqs(), hooks=hooks).run()
    assert signal.getsignal(signal.SIGTERM) is before
    assert outbox.pending() == 0


def test_a_relay_in_the_main_thread_may_leave_signals_alone(database: Database) -> None:
    hooks = HookRegistry()
    outbox = Outbox(database.engine)
    relay = Relay(outbox, Sqs(), hooks=hooks)
    before = signal.getsignal(signal.SIGTERM)
    seen: list[bool] = []
    hooks.add(
        OutboxSent, lambda event: (seen.append(signal.getsignal(signal.SIGTERM) is before), relay.stop())
    )
    store(outbox, (FakeTask(), {"n": 1}))
    relay.run(handle_signals=False)
    assert seen == [True]


def test_a_relay_waits_for_a_database_that_is_gone(database: Database) -> None:
    if database.kind == "sqlite":
        pytest.skip("a file does not go away")
    clock = WaitingClock()
    hooks = HookRegistry()
    pauses: list[RelayPaused] = []
    outbox = Outbox(sa.create_engine(database.url.set(port=1)), clock=clock, notify=False)
    relay = Relay(outbox, Sqs(), clock=clock, hooks=hooks)
    hooks.add(RelayPaused, lambda event: (pauses.append(event), relay.stop() if len(pauses) == 4 else None))
    relay.run()
    outbox.engine.dispose()
    assert [event.kind for event in pauses] == ["unavailable"] * 4
    assert pauses[0].delay < pauses[3].delay
