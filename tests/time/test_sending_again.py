"""A job with a due time that is sent later than it was made: handed on late, sent again, or from an outbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.clock import ManualClock
from sqs_workers.deadletter_queue import PushBackSender
from sqs_workers.exceptions import SendError, SQSBatchError
from sqs_workers.messages import OutgoingMessage
from sqs_workers.sql import Outbox, Relay, create_engine, create_tables
from tests.aws.fakes import api_error

HOUR = 3600


class Scheduler:
    """Takes schedules and keeps them; ``broken`` is raised instead."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, OutgoingMessage, int]] = []
        self.broken: Exception | None = None

    def schedule(self, queue_url: str, message: OutgoingMessage, *, due: int, job_id: str) -> str:
        if self.broken is not None:
            raise self.broken
        self.taken.append((queue_url, message, due))
        return f"schedule-{job_id}"

    def cancel(self, schedule_id: str) -> bool:
        return False


class Place:
    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self.clock = ManualClock()
        self.env = SQSEnv(
            MemorySession(clock=self.clock), codec="json", clock=self.clock, scheduler=scheduler
        )
        create_standard_queue(self.env, "jobs")
        create_fifo_queue(self.env, "jobs.fifo")
        self.got: list[tuple[Any, float]] = []
        self.start = self.clock.time()
        self.queue = self.env.queue("jobs")
        self.task = self.queue.connect_processor("work", self.work)

    def work(self, value: Any) -> None:
        self.got.append((value, self.clock.time() - self.start))

    def message(self, value: Any, **options: Any) -> OutgoingMessage:
        message: OutgoingMessage = self.task.options(**options).prepare(value)[1]
        return message

    def run_until(self, seconds: float) -> None:
        """Work the queue once a minute."""
        while self.clock.time() < self.start + seconds:
            self.queue.process_batch()
            self.clock.advance(60)
        self.queue.process_batch()


@pytest.mark.parametrize("how", ["send_message", "send_now", "send_messages"])
def test_every_way_to_send_gives_a_long_delay_to_the_scheduler(how: str) -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    message = place.message("late", delay=HOUR)
    send = getattr(place.queue, how)
    answer = send([message] if how == "send_messages" else message)
    [(url, taken, due)] = scheduler.taken
    assert (url, taken, due) == (place.queue.url, message, int(place.start) + HOUR)
    if how != "send_messages":
        assert answer.startswith("schedule-")
    place.run_until(2 * HOUR)
    assert place.got == []


@pytest.mark.parametrize("how", ["send_message", "send_now", "send_messages"])
@pytest.mark.parametrize("scheduled", [True, False])
@pytest.mark.parametrize("later", [1000, HOUR - 300, HOUR + 300])
def test_a_job_that_is_sent_long_after_it_was_made_is_on_time(how: str, scheduled: bool, later: int) -> None:
    scheduler = Scheduler() if scheduled else None
    place = Place(scheduler)
    message = place.message("late", delay=HOUR)
    place.clock.advance(later)
    send = getattr(place.queue, how)
    send([message] if how == "send_messages" else message)
    if scheduler is not None and later == 1000:
        assert [due for _, _, due in scheduler.taken] == [int(place.start) + HOUR]
        return
    assert scheduler is None or scheduler.taken == []
    place.run_until(3 * HOUR)
    [(_, ran_at)] = place.got
    assert max(HOUR, later) <= ran_at <= max(HOUR, later) + 120


def test_a_batch_that_is_sent_again_goes_where_each_of_its_jobs_belongs() -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    messages = [place.message(1), place.message(2, delay=HOUR), place.message(3)]
    scheduler.broken = SendError("the group does not exist")
    with pytest.raises(SQSBatchError) as raised:
        place.queue.send_messages(messages)
    assert raised.value.unsent == [messages[1]]
    assert raised.value.errors[0]["Code"] == "SendError"
    scheduler.broken = None
    place.queue.send_messages(raised.value.unsent)
    assert [message for _, message, _ in scheduler.taken] == [messages[1]]
    place.run_until(60)
    assert sorted(value for value, _ in place.got) == [1, 3]


def test_what_neither_sqs_nor_the_scheduler_takes_is_handed_back_together(monkeypatch: Any) -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    messages = [place.message(1), place.message(2, delay=HOUR)]
    scheduler.broken = SendError("no")

    def refuse(*_: Any) -> Any:
        raise api_error("AccessDenied", 403)

    monkeypatch.setattr(place.env.transport, "send_batch", refuse)
    with pytest.raises(SQSBatchError) as raised:
        place.queue.send_messages(messages)
    assert sorted(raised.value.unsent, key=messages.index) == messages
    assert len(raised.value.errors) == 2


def test_a_fifo_queue_gets_at_once_what_is_due_meanwhile() -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    fifo = place.env.queue("jobs.fifo")
    task = fifo.connect_processor("work", place.work)
    message = task.options(delay=100, deduplication_id="d").prepare("late")[1]
    fifo.send_messages([message])
    assert len(scheduler.taken) == 1
    place.clock.advance(100)
    fifo.send_messages([message])
    fifo.process_batch()
    assert place.got == [("late", 100)]


def test_a_dead_letter_that_was_delayed_once_is_pushed_back_at_once() -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    message = place.message("late", delay=HOUR)
    place.clock.advance(2 * HOUR)
    create_standard_queue(place.env, "dead")
    dead = place.env.queue("dead")
    dead.sender.send(OutgoingMessage(message.body, message.attributes))
    [letter] = dead.get_raw_messages()
    PushBackSender(place.queue)(letter)
    place.clock.advance(2)
    place.queue.process_batch()
    assert scheduler.taken == []
    assert [value for value, _ in place.got] == ["late"]


@pytest.mark.parametrize("error", [SendError("AccessDeniedException"), api_error("ThrottlingException", 429)])
def test_a_worker_that_may_not_schedule_carries_the_job_on_by_hops(error: Exception, caplog: Any) -> None:
    scheduler = Scheduler()
    place = Place(scheduler)
    policy = place.env.redrive_policy("dead", 2)
    create_standard_queue(place.env, "dead")
    create_standard_queue(place.env, "strict", redrive_policy=policy)
    strict = place.env.queue("strict")
    task = strict.connect_processor("work", place.work)
    # As it comes from an outbox, which cannot hold a schedule.
    strict.sender.send(task.options(delay=2 * HOUR).prepare("late")[1])
    scheduler.broken = error
    while place.clock.time() < place.start + 2 * HOUR:
        strict.process_batch()
        assert place.got == []
        place.clock.advance(60)
    for _ in range(3):
        strict.process_batch()
        place.clock.advance(60)
    assert [value for value, _ in place.got] == ["late"]
    assert "goes on by hops" in caplog.text
    scheduler.broken = None


@pytest.mark.parametrize("later", [0, HOUR - 300, HOUR + 300])
def test_a_relay_that_was_down_sends_a_delayed_job_on_time(tmp_path: Path, later: int) -> None:
    place = Place()
    engine = create_engine(f"sqlite:///{tmp_path}/test.db")
    create_tables(engine)
    outbox = Outbox(engine, clock=place.clock)
    with engine.begin() as tx:
        outbox.delay(tx, place.task.options(delay=HOUR), "late")
    place.clock.advance(later)
    with_relay = Relay(outbox, place.env, clock=place.clock)
    assert with_relay.drain() == 1
    with_relay.close()
    place.run_until(3 * HOUR)
    [(_, ran_at)] = place.got
    assert max(HOUR, later) <= ran_at <= max(HOUR, later) + 120
    engine.dispose()
