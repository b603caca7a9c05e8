"""Beats: the job of each slot is sent once, whoever dies and whatever the clocks say."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from botocore.exceptions import ClientError, ReadTimeoutError
from sqlalchemy.pool import StaticPool

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.clock import Clock, ManualClock, SystemClock
from sqs_workers.delays import STABLE_ID
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.periodic import Periodic
from sqs_workers.schedules import Beat, MemoryLease
from sqs_workers.schedules.beat import MAX_AT_ONCE
from sqs_workers.sql import DatabaseLease, Outbox, Relay, create_tables
from tests.field.kit import until

HOUR, DAY = 3600, 86_400
BERLIN = "Europe/Berlin"


def utc(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


class Killed(BaseException):
    """Ends a beat as a signal would."""


class Skewed:
    """A clock that is wrong by some seconds, which may change."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.wrong_by = 0.0

    def time(self) -> float:
        return self.clock.time() + self.wrong_by

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        return self.clock.wait(condition, timeout)


class Place:
    """An account and a database in memory, two queues, and schedules on both."""

    def __init__(self, start: float) -> None:
        self.clock = ManualClock(start)
        self.session = MemorySession(clock=self.clock)
        self.engine = sa.create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        create_tables(self.engine)
        self.env = SQSEnv(self.session, codec="json", clock=self.clock)
        create_standard_queue(self.env, "plain")
        create_fifo_queue(self.env, "orders.fifo")
        self.seen: Counter[str] = Counter()

    def declare(self, queue: str, name: str, **timing: Any) -> Periodic:
        made = self.env.queue(queue)
        task = made.processors.get("work") or made.connect_processor("work", lambda: None)
        if not hasattr(self, "tasks"):
            self.tasks: dict[str, Any] = {}
        task = self.tasks.setdefault(queue, task)
        made.periodic(name=name, **timing)(task)
        return made.periodic_jobs[name]

    def collect(self) -> Counter[str]:
        """Ids of the slots whose messages are on the queues, counted; the messages are deleted."""
        for name in ("plain", "orders.fifo"):
            while messages := self.env.queue(name).get_raw_messages():
                for message in messages:
                    self.seen[message.string_attribute(STABLE_ID) or "?"] += 1
                    message.delete()
        return self.seen

    def lease(self) -> DatabaseLease:
        return DatabaseLease(self.engine, "beats", clock=self.clock)


@pytest.fixture
def place() -> Any:
    made = Place(utc("2026-03-26T00:00:30"))
    yield made
    made.engine.dispose()


def expected(periodic: Periodic, start: float, end: float) -> set[str]:
    return {periodic.id_of(slot) for slot in periodic.slots(start, end)}


class Chaos:
    """Kills whoever passes one of its points, now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odds = 0.0
        self.kills = 0
        self.between_claim_and_send: list[str] = []

    def maybe(self, point: str, what: str = "") -> None:
        if self.random.random() < self.odds:
            if point == "claimed":
                self.between_claim_and_send.append(what)
            raise Killed(point)


def mortal(place: Place, chaos: Chaos, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let beats die before and after each message that they send."""
    for name in ("plain", "orders.fifo"):
        queue = place.env.queue(name)
        send = queue.send_now

        def send_now(message: Any, send: Any = send, name: str = name) -> Any:
            point = "claimed" if name == "plain" else "claiming"
            chaos.maybe(point, message.attributes[STABLE_ID]["StringValue"])
            answer = send(message)
            chaos.maybe("sent")
            return answer

        monkeypatch.setattr(queue, "send_now", send_now)


def simulate(place: Place, chaos: Chaos, days: int, outbox: Outbox | None = None) -> float:
    """Two beats, with kills and clock steps; returns the moment at which it ended, all clocks right."""
    clocks = [Skewed(place.clock), Skewed(place.clock)]

    def start(clock: Clock) -> Beat:
        return Beat(place.env, place.lease(), outbox=outbox, clock=clock)

    beats = [start(clock) for clock in clocks]
    for beat in beats:
        beat.tick()
    end = place.clock.time() + days * DAY
    chaos.odds = 0.15
    next_collection = place.clock.time() + DAY
    while place.clock.time() < end:
        place.clock.advance(chaos.random.uniform(100, 1500))
        if place.clock.time() > next_collection:
            # SQS keeps messages for 4 days.
            place.collect()
            next_collection += DAY
        for index in chaos.random.sample((0, 1), 2):
            if chaos.random.random() < 0.03:
                clocks[index].wrong_by = chaos.random.choice([0, 0, -HOUR, -5, 7, 20 * 60])
            while True:
                try:
                    beats[index].tick()
                    break
                except Killed:
                    # Whoever watches over it starts another one.
                    beats[index] = start(clocks[index])
                    chaos.kills += 1
    chaos.odds = 0.0
    for clock in clocks:
        clock.wrong_by = 0
    # A clock that was ahead has sent slots early; they pass before the count.
    place.clock.advance(HOUR)
    ended = place.clock.time()
    for beat in beats:
        beat.tick()
    assert chaos.kills > 50
    return ended


WEEKS = pytest.mark.parametrize("start", ["2026-03-26T00:00:30", "2026-10-22T00:00:30"])


@WEEKS
def test_two_beats_for_a_week_send_each_slot_of_a_fifo_queue_once(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, chaos = Place(utc(start)), Chaos(6)
    nightly = place.declare("orders.fifo", "nightly", cron="*/20 * * * *", timezone=BERLIN, catch_up="all")
    steady = place.declare("orders.fifo", "steady", every=1800, catch_up="all")
    mortal(place, chaos, monkeypatch)
    ended = simulate(place, chaos, 7)
    wanted = expected(nightly, utc(start), ended) | expected(steady, utc(start), ended)
    assert place.collect() == Counter(wanted)
    place.engine.dispose()


@WEEKS
def test_two_beats_with_an_outbox_for_a_week_send_each_slot_once(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, chaos = Place(utc(start)), Chaos(7)
    nightly = place.declare("plain", "nightly", cron="*/20 * * * *", timezone=BERLIN, catch_up="all")
    odd = place.declare("plain", "odd", cron="30 2 * * *", timezone=BERLIN, catch_up="all")
    outbox = Outbox(place.engine, notify=False, clock=place.clock)
    add = outbox.add

    def mortal_add(*args: Any) -> str:
        chaos.maybe("claiming")
        answer = add(*args)
        chaos.maybe("stored")
        return answer

    monkeypatch.setattr(outbox, "add", mortal_add)
    ended = simulate(place, chaos, 7, outbox)
    Relay(outbox, place.env, clock=place.clock).drain()
    wanted = expected(nightly, utc(start), ended) | expected(odd, utc(start), ended)
    # One night in spring has no 02:30, and one in autumn has two.
    nights = Counter(name[4:14] for name in expected(odd, utc(start), ended))
    assert (nights["2026-03-29"], nights["2026-10-25"]) == (0, int("10" in start))
    assert len(nights) == 7
    assert place.collect() == Counter(wanted)
    place.engine.dispose()


@WEEKS
def test_two_beats_on_a_standard_queue_never_send_twice_and_lose_what_was_killed_alone(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, chaos = Place(utc(start)), Chaos(8)
    nightly = place.declare("plain", "nightly", cron="*/20 * * * *", timezone=BERLIN, catch_up="all")
    mortal(place, chaos, monkeypatch)
    ended = simulate(place, chaos, 7)
    lost = set(chaos.between_claim_and_send)
    assert lost, "some were killed between claim and send"
    assert place.collect() == Counter(expected(nightly, utc(start), ended) - lost)
    place.engine.dispose()


@pytest.mark.parametrize(
    ("catch_up", "passed", "sent"),
    [
        ("all", 5 * HOUR, ["01:00", "02:00", "03:00", "04:00", "05:00"]),
        ("one", 5 * HOUR, ["05:00"]),
        ("none", 5 * HOUR, []),
        ("none", 5 * HOUR - 30, ["05:00"]),
    ],
)
def test_what_passed_while_no_beat_ran_follows_catch_up(
    place: Place, catch_up: Any, passed: float, sent: list[str]
) -> None:
    place.declare("plain", "hourly", cron="0 * * * *", catch_up=catch_up)
    Beat(place.env, place.lease()).tick()
    # From 00:00:30 to 05:00:30, or to 05:00:00.
    place.clock.advance(passed + 60 if catch_up == "none" and passed == 5 * HOUR else passed)
    Beat(place.env, place.lease()).tick()
    assert sorted(place.collect()) == [f"hourly@2026-03-26T{time}:00Z" for time in sent]
    place.clock.advance(HOUR)
    Beat(place.env, place.lease(), grace=HOUR).tick()
    assert "hourly@2026-03-26T06:00:00Z" in place.collect()


def test_a_new_schedule_begins_with_its_next_slot(place: Place) -> None:
    place.declare("plain", "daily", cron="@daily", catch_up="all")
    beat = Beat(place.env, place.lease())
    assert beat.tick() == 0
    place.clock.advance(DAY)
    assert beat.tick() == 1


def test_many_slots_are_sent_in_portions(place: Place) -> None:
    place.declare("plain", "often", every=1, catch_up="all")
    beat = Beat(place.env, place.lease())
    beat.tick()
    place.clock.advance(MAX_AT_ONCE + 5)
    assert [beat.tick(), beat.tick(), beat.tick()] == [MAX_AT_ONCE, 5, 0]


def test_a_slot_that_was_refused_for_sure_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    beat = Beat(place.env, place.lease())
    beat.tick()
    place.clock.advance(HOUR)
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "SendMessage")

    def refuse(message: Any) -> Any:
        raise refusal

    monkeypatch.setattr(place.env.queue("plain"), "send_now", refuse)
    assert beat.tick() == 0
    assert "Schedule hourly could not be worked (AccessDenied)" in caplog.text
    monkeypatch.undo()
    assert beat.tick() == 1
    assert list(place.collect().values()) == [1]


def test_a_slot_that_may_have_been_sent_is_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    beat = Beat(place.env, place.lease())
    beat.tick()
    place.clock.advance(HOUR)
    send = place.env.queue("plain").send_now

    def lose_the_answer(message: Any) -> Any:
        send(message)
        raise ReadTimeoutError(endpoint_url="https://sqs")

    monkeypatch.setattr(place.env.queue("plain"), "send_now", lose_the_answer)
    beat.tick()
    monkeypatch.undo()
    beat.tick()
    assert "may have been sent or not (ReadTimeoutError)" in caplog.text
    assert list(place.collect().values()) == [1]


def test_one_schedule_that_fails_does_not_hold_up_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.declare("plain", "bad", every=60)
    place.declare("orders.fifo", "good", every=60)
    beat = Beat(place.env, place.lease())
    beat.tick()
    place.clock.advance(60)
    monkeypatch.setattr(place.env.queue("plain"), "send_now", lambda message: 1 / 0)
    assert beat.tick() >= 1
    assert any(name.startswith("good@") for name in place.collect())


@pytest.mark.parametrize("lease", ["memory", "database"])
def test_a_running_beat_waits_for_the_clock_and_stops_when_told(place: Place, lease: str) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    beat = Beat(place.env, MemoryLease() if lease == "memory" else place.lease())
    thread = threading.Thread(target=beat.run)
    thread.start()
    for sent in range(1, 4):
        place.clock.wait_for_waiters(1)
        place.clock.advance(HOUR)
        until(lambda sent=sent: len(place.collect()) == sent, "a slot was sent")
    place.clock.wait_for_waiters(1)
    beat.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert set(place.seen.values()) == {1}


def test_sigterm_ends_a_beat_in_the_main_thread(place: Place) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    before = signal.getsignal(signal.SIGTERM)
    beat = Beat(place.env, place.lease(), clock=SystemClock(), poll=0.05)
    threading.Timer(0.1, signal.raise_signal, [signal.SIGTERM]).start()
    beat.run()
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_cannot_work_is_refused(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="declares a schedule"):
        Beat(place.env).run()
    with pytest.raises(ConfigurationError, match="DatabaseLease"):
        Beat(place.env, outbox=Outbox(place.engine))
    for options in ({"poll": 0}, {"poll": 61}, {"grace": -1}):
        with pytest.raises(ConfigurationError, match="poll"):
            Beat(place.env, **options)  # type: ignore[arg-type]


def test_the_last_slot_is_found_from_the_end() -> None:
    often = Periodic("s", "q", "j", every=1)
    yearly = Periodic("s", "q", "j", every=366 * DAY)
    now = datetime(2026, 6, 1, tzinfo=timezone.utc).timestamp()
    assert often.latest_slot(now - 366 * DAY, now) == now
    assert yearly.latest_slot(now - 1, now) is None
    assert yearly.latest_slot(0, now) == yearly.next_slot(now - 366 * DAY)
