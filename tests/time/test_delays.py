"""Jobs that are due later than SQS can delay a message."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue, current_job
from sqs_workers.batching import BatchMessages
from sqs_workers.clock import ManualClock, SteppableClock
from sqs_workers.delays import NOT_BEFORE, STABLE_ID
from sqs_workers.exceptions import InvalidMessageError, PermanentError
from sqs_workers.failure_policies import Discard
from sqs_workers.hooks import JobFailed, JobPostponed, JobSucceeded
from sqs_workers.messages import string_attribute
from sqs_workers.queue import RawQueue
from sqs_workers.sql import Inbox, create_tables
from sqs_workers.testing import eager
from tests.field.kit import running, until

MINUTE, HOUR, DAY = 60, 3600, 86_400


class Place:
    """An account in memory whose clock the test moves, and workers that are new each time."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.session = MemorySession(clock=self.clock)
        self.runs: list[tuple[Any, float, int]] = []
        self.ids: list[str | None] = []
        self.env = self.new_env()
        create_standard_queue(self.env, "jobs", redrive_policy=None)

    def new_env(self, **options: Any) -> SQSEnv:
        """As a process that was started anew: nothing in its memory."""
        env = SQSEnv(self.session, codec="json", clock=self.clock, **options)

        @env.queue("jobs").processor("work")
        def work(value: Any) -> None:
            job = current_job()
            assert job is not None
            self.ids.append(job.message.string_attribute(STABLE_ID))
            self.runs.append((value, self.clock.time(), job.receive_count))

        self.task = work
        return env

    def work(self, env: SQSEnv | None = None) -> None:
        env = self.env if env is None else env
        while (
            env.sqs_client.get_queue_attributes(QueueUrl=env.queue("jobs").url, AttributeNames=["All"])[
                "Attributes"
            ]["ApproximateNumberOfMessages"]
            != "0"
        ):
            env.process_batch("jobs")

    def counts(self) -> tuple[int, int, int]:
        """Visible, in flight and delayed messages."""
        answer = self.env.sqs_client.get_queue_attributes(
            QueueUrl=self.env.queue("jobs").url, AttributeNames=["All"]
        )["Attributes"]
        names = ("", "NotVisible", "Delayed")
        return tuple(int(answer[f"ApproximateNumberOfMessages{name}"]) for name in names)  # type: ignore[return-value]


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize("minutes", [20, 40, 60])
def test_f20_a_job_delayed_by_more_than_a_quarter_runs_once_and_not_before(
    place: Place, minutes: int
) -> None:
    started = place.clock.time()
    place.task.options(delay=minutes * MINUTE).delay("x")
    while place.clock.time() < started + minutes * MINUTE:
        place.work()
        assert place.runs == []
        assert place.counts() == (0, 0, 1), "it waits on SQS, in nobody's hands"
        place.clock.advance(MINUTE)
    for _ in range(5):
        place.work()
        place.clock.advance(MINUTE)
    [(value, at, attempt)] = place.runs
    assert (value, attempt) == ("x", 1)
    assert started + minutes * MINUTE <= at <= started + (minutes + 1) * MINUTE
    assert place.counts() == (0, 0, 0)


def test_workers_are_restarted_while_a_job_waits(place: Place) -> None:
    place.task.options(delay=timedelta(minutes=40)).delay("x")
    started = place.clock.time()
    for _ in range(50):
        place.work(place.new_env())
        place.clock.advance(MINUTE)
    [(_, at, attempt)] = place.runs
    assert at >= started + 40 * MINUTE
    assert attempt == 1


def test_an_eta_beyond_the_retention_of_messages_comes_true(place: Place) -> None:
    # SQS forgets a message after 14 days at most; each hop is a new one.
    eta = datetime.fromtimestamp(place.clock.time(), timezone.utc) + timedelta(days=15)
    place.task.options(eta=eta).delay("x")
    while not place.runs:
        place.clock.advance(15 * MINUTE)
        place.work()
        assert place.clock.time() <= eta.timestamp() + 15 * MINUTE
    assert place.runs[0][1] >= eta.timestamp()
    assert place.runs[0][2] == 1


def test_a_near_eta_is_a_plain_delay_and_a_past_one_means_now(place: Place) -> None:
    now = datetime.fromtimestamp(place.clock.time(), timezone.utc)
    place.task.options(eta=now + timedelta(minutes=10)).delay("near")
    place.task.options(eta=now - timedelta(days=3)).delay("past")
    place.work()
    assert [run[0] for run in place.runs] == ["past"]
    place.clock.advance(10 * MINUTE)
    place.work()
    assert [run[0] for run in place.runs] == ["past", "near"]
    assert place.ids == [None, None], "nothing is added to messages that SQS can delay itself"


def test_what_means_no_moment_or_is_too_far_away_is_refused(place: Place) -> None:
    aware = datetime.now(timezone.utc)
    with pytest.raises(InvalidMessageError, match="no time zone"):
        place.task.options(eta=datetime(2030, 1, 1))
    with pytest.raises(InvalidMessageError, match="not both"):
        place.task.options(eta=aware, delay=5)
    with pytest.raises(InvalidMessageError, match="must be a datetime, not str"):
        place.task.options(eta="tomorrow")  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match="0 to 31622400 seconds"):
        place.task.options(delay=timedelta(days=367)).delay("x")
    with pytest.raises(InvalidMessageError, match="0 to 31622400 seconds"):
        place.task.options(delay=-1).delay("x")


def test_every_message_of_a_job_carries_one_stable_id(place: Place) -> None:
    place.task.options(delay=40 * MINUTE).delay("x")
    seen = set()
    for _ in range(3):
        place.clock.advance(15 * MINUTE)
        [message] = place.env.queue("jobs").get_raw_messages()
        seen.add((message.string_attribute(STABLE_ID), message.string_attribute(NOT_BEFORE)))
        message.change_visibility(0)
        place.work()
    assert len(seen) == 1
    assert place.ids == [next(iter(seen))[0]]


def test_a_hop_is_no_success_and_no_failure(place: Place) -> None:
    seen: list[Any] = []
    for event in (JobPostponed, JobSucceeded, JobFailed):
        place.env.on(event)(seen.append)
    place.task.options(delay=20 * MINUTE).delay("x")
    due = place.clock.time() + 20 * MINUTE
    place.clock.advance(15 * MINUTE)
    result = place.env.process_batch("jobs")
    assert result.total_count() == 0
    assert [(type(event), event.until) for event in seen] == [(JobPostponed, due)]


def test_f22_a_hop_whose_successor_is_not_taken_keeps_the_message(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.task.options(delay=40 * MINUTE).delay("x")
    place.clock.advance(15 * MINUTE)

    def refuse(*_: Any) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(place.env.transport, "send", refuse)
    place.env.process_batch("jobs")
    assert place.counts() == (0, 1, 0)
    assert "could not be sent on (ConnectionError)" in caplog.text
    monkeypatch.undo()
    for _ in range(40):
        place.clock.advance(MINUTE)
        place.work()
    assert [(value, attempt) for value, _, attempt in place.runs] == [("x", 1)]


def test_hops_do_not_use_up_attempts_nor_receives(place: Place) -> None:
    env = place.new_env(max_attempts=1, failure_policy=Discard())
    env.queue("jobs").connect_processor("work", lambda value: place.runs.append((value, 0.0, 1)))
    place.task.options(delay=2 * HOUR).delay("x")
    for _ in range(10):
        place.clock.advance(15 * MINUTE)
        place.work(env)
    assert [value for value, _, _ in place.runs] == ["x"]


def test_ten_thousand_waiting_jobs_cost_nothing_but_their_hops(place: Place) -> None:
    sent = received = 0
    send_one, receive = place.env.transport.send, place.env.transport.receive

    def count_send(*args: Any) -> str:
        nonlocal sent
        sent += 1
        return send_one(*args)

    def count_receive(*args: Any) -> Any:
        nonlocal received
        received += 1
        return receive(*args)

    with place.task.batch():
        for value in range(10_000):
            place.task.options(delay=20 * MINUTE).delay(value)
    place.env.transport.send = count_send  # type: ignore[method-assign]
    place.env.transport.receive = count_receive  # type: ignore[method-assign]
    for _ in range(14):
        place.clock.advance(MINUTE)
        place.env.process_batch("jobs")
    assert (sent, received) == (0, 14), "a poll that finds nothing is all that waiting costs"
    place.clock.advance(MINUTE)
    place.work()
    assert sent == 10_000
    assert place.counts() == (0, 0, 10_000)
    assert place.runs == []
    place.clock.advance(5 * MINUTE)
    place.work()
    assert sorted(value for value, _, _ in place.runs) == list(range(10_000))
    assert {attempt for _, _, attempt in place.runs} == {1}


def test_a_batch_handler_gets_those_that_are_due(place: Place) -> None:
    create_standard_queue(place.env, "lists")
    got: list[Any] = []
    lists = place.env.queue("lists", batching_policy=BatchMessages(10))
    task = lists.connect_processor("work", got.extend)
    task.options(delay=20 * MINUTE).delay(value="later")
    place.clock.advance(15 * MINUTE)
    task.delay(value="now")
    place.env.process_batch("lists")
    assert got == [{"value": "now"}]
    place.clock.advance(5 * MINUTE)
    place.env.process_batch("lists")
    assert got == [{"value": "now"}, {"value": "later"}]


def test_raw_messages_and_async_jobs_wait_as_well(place: Place) -> None:
    create_standard_queue(place.env, "raw")
    create_standard_queue(place.env, "aio")
    got: list[str] = []
    raw = place.env.queue("raw", RawQueue)
    raw.connect_raw_processor(lambda message: got.append(message.body))
    raw.add_raw_job("hello", delay_seconds=20 * MINUTE)

    async def work(value: str) -> None:
        got.append(value)

    place.env.queue("aio").connect_processor("work", work).options(delay=20 * MINUTE).delay("async")
    for _ in range(4):
        place.clock.advance(5 * MINUTE)
        place.env.process_batch("raw")
        place.env.process_batch("aio")
        if place.clock.time() < 1_750_000_000.0 + 20 * MINUTE:
            assert got == []
    assert got == ["hello", "async"]


@pytest.mark.parametrize("due", ["soon", "-5", "9" * 13, str(2_000_000_000_0)])
def test_a_due_time_that_no_sender_would_write_is_a_permanent_error(
    place: Place, due: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = place.new_env(failure_policy=Discard())
    env.sqs_client.send_message(
        QueueUrl=env.queue("jobs").url,
        MessageBody='{"value": 1}',
        MessageAttributes={
            "JobName": string_attribute("work"),
            "ContentType": string_attribute("json"),
            NOT_BEFORE: string_attribute(due),
            STABLE_ID: string_attribute("id"),
        },
    )
    failures: list[JobFailed] = []
    env.on(JobFailed)(failures.append)
    env.process_batch("jobs")
    assert place.runs == []
    assert isinstance(failures[0].error, PermanentError)
    assert "at most a year away" in caplog.text
    assert place.counts() == (0, 0, 0)


def test_an_attribute_of_somebody_else_with_that_name_means_nothing(place: Place) -> None:
    place.env.sqs_client.send_message(
        QueueUrl=place.env.queue("jobs").url,
        MessageBody='{"value": 1}',
        MessageAttributes={
            "JobName": string_attribute("work"),
            "ContentType": string_attribute("json"),
            NOT_BEFORE: string_attribute("2999-01-01"),
        },
    )
    place.env.process_batch("jobs")
    assert [value for value, _, _ in place.runs] == [1]


def test_a_fifo_queue_refuses_a_delay_and_says_what_to_do(place: Place) -> None:
    create_fifo_queue(place.env, "orders.fifo")
    task = place.env.queue("orders.fifo").connect_processor("work", lambda value: None)
    for delay in (5, 40 * MINUTE):
        with pytest.raises(InvalidMessageError, match="EventBridgeScheduler"):
            task.options(delay=delay).delay(1)


def test_eager_jobs_run_at_once_whatever_their_delay(place: Place) -> None:
    with eager(place.env):
        place.task.options(delay=3 * DAY).delay("x")
    assert [value for value, _, _ in place.runs] == ["x"]


def test_a_worker_holds_nothing_of_a_job_that_is_not_due(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    place.task.options(delay=12 * HOUR + 5).delay("x")
    for _ in range(48):
        place.clock.advance(15 * MINUTE)
        place.work()
        assert place.counts() in ((0, 0, 1), (0, 0, 0))
    place.clock.advance(5)
    place.work()
    assert [(value, attempt) for value, _, attempt in place.runs] == [("x", 1)]
    assert caplog.text == ""


def test_an_inbox_knows_both_messages_of_a_job_that_a_dying_worker_sent_on(place: Place) -> None:
    engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    create_tables(engine)
    create_standard_queue(place.env, "payments")
    effects: list[int] = []

    @place.env.queue("payments").processor("pay", inbox=Inbox(engine, consumer="billing"))
    def pay(tx: Any, amount: int) -> None:
        effects.append(amount)

    pay.options(delay=20 * MINUTE).delay(amount=5)
    place.clock.advance(15 * MINUTE)
    delete = place.env.transport.delete_batch
    # The successor is sent, and the worker dies before it acknowledges.
    place.env.transport.delete_batch = lambda url, receipts: [None for _ in receipts]  # type: ignore[method-assign]
    place.env.process_batch("payments")
    place.env.transport.delete_batch = delete  # type: ignore[method-assign]
    for _ in range(20):
        place.clock.advance(MINUTE)
        place.env.process_batch("payments")
    assert effects == [5]
    engine.dispose()


def test_running_workers_of_which_each_is_stopped_before_the_next_begins() -> None:
    clock = SteppableClock()
    session = MemorySession(clock=clock)
    env = SQSEnv(session, codec="json", clock=clock)
    create_standard_queue(env, "jobs")
    runs: list[tuple[float, int]] = []
    postponed: list[JobPostponed] = []
    env.on(JobPostponed)(postponed.append)

    @env.queue("jobs").processor("work")
    def work() -> None:
        job = current_job()
        assert job is not None
        runs.append((clock.time(), job.receive_count))

    due = clock.time() + 40 * MINUTE
    work.options(delay=40 * MINUTE).delay()
    for hops in (1, 2):
        with running(env, "jobs"):
            clock.advance(15 * MINUTE)
            until(lambda hops=hops: len(postponed) == hops, "the job was sent on")
        assert runs == []
    with running(env, "jobs"):
        clock.advance(10 * MINUTE + 1)
        until(lambda: runs, "the job ran")
    [(at, attempt)] = runs
    assert at >= due
    assert attempt == 1
