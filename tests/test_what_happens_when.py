"""The failure table of ``docs/what-happens-when.md``, a test or more to each row."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sqs_workers import PermanentError, RawQueue, RetryJob, SQSEnv
from sqs_workers.backoff_policies import BackoffPolicy, ConstantBackoff
from sqs_workers.exceptions import ArgumentsError, CodecNotAcceptedError, UndecodableMessageError
from sqs_workers.failure_policies import DeadLetter, Discard, Leave, Release
from sqs_workers.hooks import JobDiscarded, JobFailed
from tests.worlds import World, counts, open_world

SERVERS = ("local_endpoint", "ministack_endpoint")
WIRE = [pytest.param(f"{by}{server}", marks=pytest.mark.wire) for server in SERVERS for by in ("", "lean:")]


@pytest.fixture(params=["memory", *WIRE])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with open_world(request.param, request) as opened:
        yield opened


class Recorder:
    """A handler that notes its calls and raises what it is told to, once for each entry of ``errors``."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.errors = list(errors)
        self.calls: list[Any] = []

    def __call__(self, value: Any = None) -> None:
        self.calls.append(value)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def register(env: SQSEnv, name: str, handler: Recorder, **queue_options: Any) -> Any:
    queue = env.queue(name, **queue_options)

    def record(value: Any = None) -> None:
        handler(value)

    return queue, queue.processor("record")(record)


def test_a_job_that_returns_is_deleted(world: World) -> None:
    env = world.env()
    handler = Recorder()
    queue, task = register(env, world.standard(env), handler)
    task.delay(1)

    assert queue.process_batch(wait_seconds=world.after(0)).succeeded_count() == 1

    assert handler.calls == [1]
    assert counts(env, "jobs") == (0, 0)


def test_jobs_of_a_group_that_return_are_deleted_in_order(world: World) -> None:
    env = world.env()
    handler = Recorder()
    queue, task = register(env, world.fifo(env), handler)
    for number in range(5):
        task.options(group_id="a").delay(number)

    while len(handler.calls) < 5:
        assert queue.process_batch(wait_seconds=world.after(0)).failed_count() == 0

    assert handler.calls == [0, 1, 2, 3, 4]
    assert counts(env, "jobs.fifo") == (0, 0)


class ByAttempt(BackoffPolicy):
    def get_visibility_timeout(self, message: Any) -> float:
        return int(message.attributes["ApproximateReceiveCount"])


def test_a_job_that_raises_comes_back_after_the_backoff_for_its_receive_count(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    env = world.env(backoff_policy=ByAttempt())
    handler = Recorder(ValueError("first"), ValueError("second"))
    queue, task = register(env, world.standard(env), handler)
    task.delay(1)

    for attempt in (1, 2):
        started = time.monotonic()
        assert (
            queue.process_batch(wait_seconds=0 if attempt == 1 else world.after(attempt - 1)).failed_count()
            == 1
        )
        assert queue.process_batch().total_count() == 0, "it must be hidden for the backoff"
    if world.clock is None:
        assert time.monotonic() - started >= 0.5
    assert queue.process_batch(wait_seconds=world.after(2)).succeeded_count() == 1

    assert handler.calls == [1, 1, 1]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert {(record.queue_name, record.job_name) for record in errors} == {("jobs", "record")}  # type: ignore[attr-defined]


def test_after_a_failure_nothing_of_the_group_runs_before_it_succeeds(world: World) -> None:
    env = world.env(backoff_policy=ConstantBackoff(1))
    handler = Recorder(None, ValueError("second"))
    queue, task = register(env, world.fifo(env), handler)
    for number in range(4):
        task.options(group_id="a").delay(number)

    wait = 0
    while counts(env, "jobs.fifo") != (0, 0):
        queue.process_batch(wait_seconds=wait)
        wait = world.after(1)

    assert handler.calls == [0, 1, 1, 2, 3]


def test_another_group_goes_on_after_a_failure(world: World) -> None:
    env = world.env(backoff_policy=ConstantBackoff(600))
    handler = Recorder(ValueError("the first of a"))
    queue, task = register(env, world.fifo(env), handler)
    for group, number in [("a", 1), ("a", 2), ("b", 1), ("b", 2)]:
        task.options(group_id=group).delay(f"{group}{number}")

    for _ in range(3):
        queue.process_batch(wait_seconds=world.after(0) and 1)

    assert handler.calls == ["a1", "b1", "b2"]


def test_a_retry_asked_for_waits_its_own_backoff_and_is_no_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    env = world.env(backoff_policy=ConstantBackoff(600))
    handler = Recorder(RetryJob(ConstantBackoff(1)))
    queue, task = register(env, world.standard(env), handler)
    task.delay(1)

    queue.process_batch(wait_seconds=world.after(0))
    assert queue.process_batch(wait_seconds=world.after(1)).succeeded_count() == 1

    assert handler.calls == [1, 1]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [
        record for record in caplog.records if record.levelno == logging.INFO and "etry" in record.message
    ]


@pytest.mark.parametrize(
    ("error", "options"),
    [(PermanentError("bad order"), {}), (KeyError("order"), {"permanent_errors": (LookupError,)})],
)
def test_a_permanent_error_goes_to_the_failure_policy_at_once(
    world: World, error: Exception, options: dict[str, Any]
) -> None:
    env = world.env()
    handler = Recorder(error)
    failed: list[JobFailed] = []
    env.hooks.add(JobFailed, failed.append)
    queue, task = register(env, world.standard(env), handler, failure_policy=Discard(), **options)
    task.delay(1)

    queue.process_batch(wait_seconds=world.after(0))

    assert counts(env, "jobs") == (0, 0)
    assert len(handler.calls) == 1
    assert [(event.permanent, event.error) for event in failed] == [(True, error)]


UNREADABLE = {
    "not the codec's text": ({"MessageBody": "{oops"}, "json", UndecodableMessageError),
    "not a mapping": ({"MessageBody": "[1]"}, "json", UndecodableMessageError),
    "a codec that is not accepted": ({"MessageBody": "x"}, "pickle", CodecNotAcceptedError),
    "an unknown codec": ({"MessageBody": "x"}, "yaml", UndecodableMessageError),
    "a required argument is missing": ({"MessageBody": "{}"}, "json", ArgumentsError),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_message_that_cannot_be_read_is_a_permanent_error(world: World, case: str) -> None:
    body, codec, error = UNREADABLE[case]
    env = world.env()
    name = world.standard(env)
    queue = env.queue(name, failure_policy=Discard())
    calls: list[Any] = []
    failed: list[JobFailed] = []
    env.hooks.add(JobFailed, failed.append)

    @queue.processor("record")
    def record(value: int) -> None:
        calls.append(value)

    attributes = {
        "ContentType": {"DataType": "String", "StringValue": codec},
        "JobName": {"DataType": "String", "StringValue": "record"},
    }
    queue.get_queue().send_message(**body, MessageAttributes=attributes)

    queue.process_batch(wait_seconds=world.after(0))

    assert calls == []
    assert counts(env, name) == (0, 0)
    assert [type(event.error) for event in failed] == [error]
    assert failed[0].permanent


def test_unknown_arguments_are_dropped_and_named_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    env = world.env()
    handler = Recorder()
    queue, _ = register(env, world.standard(env), handler)
    for number in range(3):
        queue.add_job("record", value=number, added_later="x")

    while len(handler.calls) < 3:
        queue.process_batch(wait_seconds=world.after(0))

    assert sorted(handler.calls) == [0, 1, 2]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "added_later" in warnings[0].getMessage()


def test_a_job_that_nobody_knows_is_kept_for_a_newer_deploy(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    env = world.env(backoff_policy=ConstantBackoff(1))
    name = world.standard(env)
    queue = env.queue(name, failure_policy=Discard())
    queue.add_job("brand_new", value=1)

    assert queue.process_batch(wait_seconds=world.after(0)).failed_count() == 1
    assert [
        record
        for record in caplog.records
        if record.levelno == logging.ERROR and "brand_new" in record.message
    ]

    handler = Recorder()
    queue.connect_processor("brand_new", handler)
    assert queue.process_batch(wait_seconds=world.after(1)).succeeded_count() == 1
    assert handler.calls == [1]


def test_attempts_used_up_by_receive_count_go_to_the_failure_policy(world: World) -> None:
    env = world.env(backoff_policy=ConstantBackoff(0))
    handler = Recorder(*[ValueError(str(number)) for number in range(9)])
    discarded: list[JobDiscarded] = []
    env.hooks.add(JobDiscarded, discarded.append)
    queue, task = register(env, world.standard(env), handler, failure_policy=Discard(), max_attempts=3)
    task.delay(1)

    while not discarded:
        queue.process_batch(wait_seconds=world.after(0))

    assert len(handler.calls) == 3
    assert (discarded[0].reason, discarded[0].error_type) == ("attempts used up", "ValueError")
    assert counts(env, "jobs") == (0, 0)


def test_leave_lets_the_redrive_policy_move_the_message(world: World) -> None:
    env = world.env()
    world.standard(env, "dead")
    name = world.standard(env, visibility_timeout=1, redrive_policy=env.redrive_policy("dead", 1))
    handler = Recorder(PermanentError("never"))
    queue, task = register(env, name, handler, failure_policy=Leave())
    task.delay(1)

    queue.process_batch(wait_seconds=world.after(0))
    assert counts(env, name) == (0, 1)
    assert queue.process_batch(wait_seconds=world.after(1.1)).total_count() == 0

    assert len(handler.calls) == 1
    assert counts(env, "dead") == (1, 0)


def test_release_makes_the_message_visible_at_once(world: World) -> None:
    env = world.env()
    handler = Recorder(PermanentError("not now"))
    queue, task = register(env, world.standard(env), handler, failure_policy=Release())
    task.delay(1)

    queue.process_batch(wait_seconds=world.after(0))
    assert queue.process_batch(wait_seconds=world.after(0)).succeeded_count() == 1
    assert len(handler.calls) == 2


def test_dead_letter_copies_with_the_reason_then_deletes(world: World) -> None:
    env = world.env()
    world.standard(env, "dead")
    handler = Recorder(PermanentError("bad order"))
    queue, task = register(env, world.standard(env), handler, failure_policy=DeadLetter("dead"))
    with env.context(request="r1"):
        message_id = task.delay(7)

    queue.process_batch(wait_seconds=world.after(0))

    assert counts(env, "jobs") == (0, 0)
    (copy,) = env.queue("dead").get_raw_messages(world.after(0))
    assert copy.body == '{"value": 7}'
    assert {name: value["StringValue"] for name, value in copy.message_attributes.items()} == {
        "ContentType": "json",
        "JobName": "record",
        "JobContext": '{"request": "r1"}',
        "DeadLetterReason": "permanent error",
        "DeadLetterErrorType": "PermanentError",
        "DeadLetterReceiveCount": "1",
        "DeadLetterMessageId": message_id,
    }


def test_dead_letter_keeps_the_group_on_a_fifo_queue(world: World) -> None:
    env = world.env()
    world.fifo(env, "dead.fifo")
    handler = Recorder(PermanentError("first"), PermanentError("second"))
    queue, task = register(env, world.fifo(env), handler, failure_policy=DeadLetter("dead.fifo"))
    for number in range(3):
        task.options(group_id="a").delay(number)

    while counts(env, "jobs.fifo") != (0, 0):
        queue.process_batch(wait_seconds=world.after(0) and 1)

    assert handler.calls == [0, 1, 2]
    dead = env.queue("dead.fifo").get_raw_messages(world.after(0))
    assert [message.body for message in dead] == ['{"value": 0}', '{"value": 1}']
    assert {message.attributes["MessageGroupId"] for message in dead} == {"a"}


def test_discard_deletes_and_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    env = world.env()
    discarded: list[JobDiscarded] = []
    env.hooks.add(JobDiscarded, discarded.append)
    queue, task = register(env, world.standard(env), Recorder(PermanentError("x")), failure_policy=Discard())
    message_id = task.delay(1)

    queue.process_batch(wait_seconds=world.after(0))

    assert counts(env, "jobs") == (0, 0)
    assert [(event.message_id, event.reason) for event in discarded] == [(message_id, "permanent error")]
    assert [
        record
        for record in caplog.records
        if record.levelno == logging.WARNING and message_id in record.getMessage()
    ]


def test_a_raw_queue_follows_the_same_rules(world: World) -> None:
    env = world.env(backoff_policy=ConstantBackoff(0))
    name = world.standard(env, "raw")
    raw = env.queue(name, RawQueue)
    bodies: list[str] = []

    @raw.raw_processor()
    def process(message: Any) -> None:
        bodies.append(message.body)
        if len(bodies) == 1:
            raise ValueError("again")

    raw.add_raw_job("Hello world")
    while counts(env, name) != (0, 0):
        raw.process_batch(wait_seconds=world.after(0))

    assert bodies == ["Hello world", "Hello world"]
