"""The failure table of ``docs/what-happens-when.md``: the rows about workers."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

from sqs_workers import QueueNotFoundError, current_job
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.exceptions import JobTimeoutError, WorkerError
from sqs_workers.hooks import (
    JobFailed,
    JobStarted,
    JobSucceeded,
    LeaseLost,
    MessageReleased,
    MessageSettled,
    VisibilityExtended,
)
from tests.field.kit import PATIENCE, Gate, Place, Watch, open_place, running, until
from tests.field.processes import start
from tests.worlds import counts

LOCAL = pytest.param("local", marks=pytest.mark.wire)
LEAN = pytest.param("lean:local", marks=pytest.mark.wire)
MINISTACK = pytest.param("ministack", marks=pytest.mark.wire)


@pytest.fixture(params=["memory", LOCAL, LEAN])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture(params=["memory", LOCAL, LEAN, MINISTACK])
def any_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture(params=[LOCAL, LEAN, MINISTACK])
def wire(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture(params=[LOCAL, LEAN])
def local(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param, request) as opened:
        yield opened


# -- a handler outlives its timeout


def test_a_coroutine_that_outlives_its_timeout_is_cancelled_and_retried(any_place: Place) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(1))
    watch = Watch(env)
    name = any_place.standard(env, visibility_timeout=600)
    cancelled: list[int] = []
    arrived = threading.Semaphore(0)

    async def work(value: int) -> None:
        job = current_job()
        assert job is not None
        if job.receive_count == 2:
            return
        arrived.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    env.queue(name).connect_processor("work", work, timeout=1).delay(1)
    with running(env, name, concurrency=2) as worker:
        assert arrived.acquire(timeout=PATIENCE)
        any_place.after(1.1)
        (failed,) = watch.wait_for(JobFailed)
        assert isinstance(failed.error, JobTimeoutError)
        assert cancelled == [1]
        until(
            lambda: counts(env, name)[1] == 1 or watch.of(JobSucceeded), "the message hidden for its backoff"
        )
        any_place.after(1.1)
        (succeeded,) = watch.wait_for(JobSucceeded)
        assert worker.worker.stats().sources[name].timed_out == 1
    assert succeeded.receive_count == 2
    assert counts(env, name) == (0, 0)


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_thread_that_outlives_its_timeout_is_reported_and_its_late_result_dropped(
    any_place: Place, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    env = any_place.env()
    watch, gate = Watch(env), Gate()
    name = getattr(any_place, kind)(env, visibility_timeout=3)

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        if job.receive_count == 1 and value == 1:
            gate.wait()

    task = env.queue(name).connect_processor("work", work, timeout=1)
    options = {"group_id": "a"} if kind == "fifo" else {}
    message_id = task.options(**options).delay(1)
    with running(env, name, concurrency=2):
        gate.wait_for_arrival()
        if kind == "fifo":
            task.options(**options).delay(2)
        any_place.after(1.1)
        (failed,) = watch.wait_for(JobFailed)
        assert isinstance(failed.error, JobTimeoutError)
        assert not failed.permanent
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert any(message_id in text for text in errors)
        # No heartbeat holds it any more, and nobody gives it back: it comes when its visibility ends.
        any_place.after(3.1)
        succeeded = watch.wait_for(JobSucceeded, 2 if kind == "fifo" else 1)
        assert (succeeded[0].message_id, succeeded[0].receive_count) == (message_id, 2)
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
        gate.open()
    assert len([event for event in watch.of(JobSucceeded) if event.message_id == message_id]) == 1


# -- the hold on a message is lost


def test_a_lost_visibility_is_reported_once_and_the_running_job_knows(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=30)
    lost: list[bool] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        lost.append(job.lost)
        gate.wait()
        lost.append(job.lost)

    message_id = env.queue(name).connect_processor("work", work).delay(1)
    place.faults.set(
        ["ChangeMessageVisibilityBatch:partial:1:entries=1,code=ReceiptHandleIsInvalid,sender_fault=1"]
    )
    with running(env, name, concurrency=2) as worker:
        gate.wait_for_arrival()
        place.advance(10.5)
        watch.wait_for(LeaseLost)
        place.advance(10.5)
        gate.open()
        watch.wait_for(MessageSettled)
        assert worker.worker.stats().sources[name].lost == 1
    assert [(event.message_id, event.code) for event in watch.of(LeaseLost)] == [
        (message_id, "ReceiptHandleIsInvalid")
    ]
    assert lost == [False, True]
    # The receipt was good after all: the acknowledgement was tried, and taken.
    assert counts(env, name) == (0, 0)


# -- a delete fails after a good handler


@pytest.mark.parametrize("fault", ["throttle", "error500", "expired", "denied", "reset", "lost"])
def test_a_delete_that_fails_is_repeated_and_is_no_failure_of_the_job(place: Place, fault: str) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=600)
    env.queue(name).connect_processor("work", lambda value: None).delay(1)
    place.faults.set([f"DeleteMessageBatch:{fault}:1:count=2"])
    with running(env, name):
        (settled,) = watch.wait_for(MessageSettled)
    assert settled.ok
    assert settled.action == "delete"
    assert len(watch.of(JobStarted)) == len(watch.of(JobSucceeded)) == 1
    assert watch.of(JobFailed) == []
    assert counts(env, name) == (0, 0)
    assert place.requests["DeleteMessageBatch"] == 3


def test_a_delete_that_never_succeeds_is_given_up_with_the_receipt_and_the_job_runs_again(
    place: Place,
) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=30)
    env.queue(name).connect_processor("work", lambda value: None).delay(1)
    place.faults.set(["DeleteMessageBatch:throttle"])
    with running(env, name):
        until(lambda: place.requests["DeleteMessageBatch"] >= 2, "a delete that is repeated")
        assert watch.of(MessageSettled) == []
        place.advance(31)
        (settled,) = watch.wait_for(MessageSettled)
        assert not settled.ok
        place.faults.clear()
        watch.wait_for(JobSucceeded, 2)
        until(lambda: counts(env, name) == (0, 0), "the message deleted")
    assert watch.of(JobFailed) == []


# -- the queue is missing, or access is denied, at start-up


@pytest.mark.wire
def test_a_missing_queue_ends_the_process_with_a_code_and_the_name(wire: Place) -> None:
    with start(wire, "absent") as program:
        line = program.expect("sqs_workers.exceptions.QueueNotFoundError")
        assert f"{wire.prefix}absent" in line
        assert program.exit_code() == 1


@pytest.mark.wire
@pytest.mark.parametrize("operation", ["ReceiveMessage", "GetQueueUrl"])
def test_denied_access_ends_the_process_with_a_code_and_the_name(local: Place, operation: str) -> None:
    env = local.env()
    name = local.standard(env)
    local.faults.set([f"{operation}:denied"])
    with start(local, name) as program:
        line = program.expect("sqs_workers.exceptions.")
        assert name in line
        assert "AccessDenied" in line
        assert program.exit_code() == 1


def test_denied_access_is_an_error_that_names_queue_and_permission(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    env.queue(name).connect_processor("work", lambda value: None)
    place.faults.set(["ReceiveMessage:denied"])
    with pytest.raises(WorkerError, match=f"'{name}'.*AccessDenied.*sqs:ReceiveMessage"):
        env.queue(name).process_queue()


def test_one_missing_queue_of_several_ends_the_worker_and_names_it(place: Place) -> None:
    env = place.env()
    place.standard(env, "there")
    for name in ("there", "absent"):
        env.queue(name).connect_processor("work", lambda value: None)
    with pytest.raises(QueueNotFoundError, match="absent"):
        env.worker(["there", "absent"], wait_second=1).run()


# -- the worker is killed


@pytest.mark.wire
def test_messages_of_a_killed_worker_come_back_after_its_last_extension(local: Place) -> None:
    env = local.env()
    name = local.standard(env, visibility_timeout=3)
    task = env.queue(name).connect_processor("work", lambda value: None)
    task.delay(1)
    task.delay(2)
    with start(local, name, concurrency=2) as program:
        program.expect("running")
        program.expect("running")
        until(lambda: local.requests["ChangeMessageVisibilityBatch"], "an extension")
        program.send_signal(signal.SIGKILL)
        assert program.exit_code() == -signal.SIGKILL
    local.advance(3.1)
    messages = env.queue(name).get_raw_messages()
    assert [message.receive_count for message in messages] == [2, 2]


# -- FIFO order under concurrency


@pytest.mark.parametrize("failing", [False, True])
def test_messages_of_a_group_run_one_at_a_time_and_in_order(any_place: Place, failing: bool) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(0))
    name = any_place.fifo(env, visibility_timeout=600)
    chance = random.Random(7)
    lock = threading.Lock()
    active: set[str] = set()
    together: list[str] = []
    most = [0]
    done: dict[str, list[int]] = defaultdict(list)

    def work(group: str, number: int) -> None:
        with lock:
            if group in active:
                together.append(group)
            active.add(group)
            most[0] = max(most[0], len(active))
            fails = failing and chance.random() < 0.2
        try:
            if fails:
                raise ValueError("now and then")
            with lock:
                done[group].append(number)
        finally:
            with lock:
                active.discard(group)

    queue = env.queue(name)
    task = queue.connect_processor("work", work)
    with queue.add_batch():
        for number in range(8):
            for group in "abcdef":
                task.options(group_id=group).delay(group, number)
    with running(env, name, concurrency=8):
        until(lambda: sum(map(len, done.values())) >= 48, "48 jobs")
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert together == []
    assert dict(done) == {group: list(range(8)) for group in "abcdef"}


def test_groups_run_side_by_side_and_one_that_is_slow_holds_up_no_other(any_place: Place) -> None:
    env = any_place.env()
    watch, gate = Watch(env), Gate()
    name = any_place.fifo(env, visibility_timeout=600)

    def work(value: str) -> None:
        if value == "a1":
            gate.wait()

    task = env.queue(name).connect_processor("work", work)
    with env.queue(name).add_batch():
        for value in ("a1", "a2", "b1", "b2", "c1", "c2"):
            task.options(group_id=value[0]).delay(value)
    with running(env, name, concurrency=3):
        gate.wait_for_arrival()
        watch.wait_for(JobSucceeded, 4)
        assert len(watch.of(JobStarted)) == 5
        gate.open()
        watch.wait_for(JobSucceeded, 6)
        until(lambda: counts(env, name) == (0, 0), "an empty queue")


def test_a_stop_gives_the_rest_of_a_group_back_in_order(any_place: Place) -> None:
    env = any_place.env()
    watch, gate = Watch(env), Gate()
    name = any_place.fifo(env, visibility_timeout=600)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    with env.queue(name).add_batch():
        for number in range(5):
            task.options(group_id="a").delay(number)
    with running(env, name, concurrency=4, prefetch=10) as worker:
        gate.wait_for_arrival()
        worker.worker.stop()
        gate.open()
        worker.join()
    assert len(watch.of(JobStarted)) == 1
    left = env.queue(name).get_raw_messages(1)
    assert [message.body for message in left] == [f'{{"value": {number}}}' for number in range(1, 5)]
    assert all(event.reason == "stopping" for event in watch.of(MessageReleased))


def test_the_heartbeat_holds_messages_that_wait_behind_their_group(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.fifo(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    for number in range(3):
        task.options(group_id="a").delay(number)
    with running(env, name, concurrency=4, prefetch=10):
        gate.wait_for_arrival()
        in_hand = counts(env, name)[1]
        assert in_hand == 3
        for beat in range(1, 5):
            place.advance(10.5)
            watch.wait_for(VisibilityExtended, beat * in_hand)
        gate.open()
        watch.wait_for(JobSucceeded, 3)
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert {event.receive_count for event in watch.of(JobSucceeded)} == {1}
