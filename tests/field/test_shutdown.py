"""Stopping: nothing is hidden, lost or attempted in vain because of a deploy."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from sqs_workers.hooks import JobStarted, MessageReceived, MessageReleased, VisibilityExtended, WorkerStarted
from sqs_workers.local import FaultRule
from sqs_workers.shutdown_policies import MaxTasksShutdown
from tests.field.kit import PATIENCE, Gate, Place, Watch, running, until
from tests.field.processes import start
from tests.worlds import counts


def send(env: Any, name: str, *values: int, **options: Any) -> list[str]:
    task = env.queue(name).connect_processor("work", lambda value: None)
    return [task.options(**options).delay(value) for value in values]


@pytest.mark.wire
def test_f01_a_message_that_arrives_after_sigterm_is_receivable_when_the_worker_has_ended(
    local: Place,
) -> None:
    env = local.env()
    name = local.standard(env, visibility_timeout=600)
    with start(local, name, wait_second=20) as program:
        until(lambda: local.requests["ReceiveMessage"], "a long poll")
        program.send_signal(signal.SIGTERM)
        assert program.expect("returned") == "returned 0 SIGTERM"
        send(env, name, 1)
        assert program.exit_code() == 0
    (message,) = env.queue(name).get_raw_messages(1)
    assert message.body == '{"value": 1}'
    assert "running 1" not in program.lines


@pytest.mark.wire
def test_f01_a_message_that_arrives_with_sigterm_is_done_or_receivable_at_once(wire: Place) -> None:
    env = wire.env()
    name = wire.standard(env, visibility_timeout=600)
    with start(wire, name, wait_second=3, go=True) as program:
        send(env, name, 1)
        program.expect("ended 1")
        program.send_signal(signal.SIGTERM)
        send(env, name, 2)
        assert program.expect("returned") == "returned 0 SIGTERM"
        assert program.exit_code() == 0
    done = "ended 2" in program.lines
    visible, hidden = counts(env, name)
    assert (visible, hidden) == ((0, 0) if done else (1, 0))


@pytest.mark.wire
@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_f02_at_sigterm_the_running_job_is_finished_and_nine_waiting_ones_are_visible_at_once(
    wire: Place, kind: str
) -> None:
    env = wire.env()
    name = getattr(wire, kind)(env, visibility_timeout=600)
    send(env, name, *range(1, 11), **({"group_id": "a"} if kind == "fifo" else {}))
    # Ten at once: a free slot, and nine that wait behind it.
    with start(wire, name, prefetch=9) as program:
        program.expect("running")
        until(lambda: counts(env, name) == (0, 10), "ten messages in hand")
        program.send_signal(signal.SIGTERM)
        until(lambda: counts(env, name) == (9, 1), "nine messages given back")
        program.go()
        assert program.expect("returned") == "returned 0 SIGTERM"
        assert program.exit_code() == 0
    assert counts(env, name) == (9, 0)
    messages = env.queue(name).get_raw_messages(1)
    bodies = [message.body for message in messages]
    assert {message.receive_count for message in messages} == {2}
    assert len(set(bodies)) == 9
    if kind == "fifo":
        assert bodies == [f'{{"value": {number}}}' for number in range(2, 11)]


@pytest.mark.wire
def test_f04_a_deploy_sends_nothing_that_runs_to_the_dead_letter_queue(local: Place) -> None:
    env = local.env()
    local.standard(env, "dead")
    name = local.standard(env, redrive_policy=env.redrive_policy("dead", 1))
    with start(local, name, concurrency=2, shutdown_timeout=20) as program:
        send(env, name, 1, 2)
        program.expect("running")
        program.expect("running")
        program.send_signal(signal.SIGTERM)
        program.go()
        assert program.expect("returned") == "returned 0 SIGTERM"
        assert program.exit_code() == 0
    assert env.queue(name).get_raw_messages() == []
    assert counts(env, name) == (0, 0)
    assert counts(env, "dead") == (0, 0)


def test_f04_with_a_single_receive_allowed_no_more_is_taken_than_can_be_started(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    env = place.env()
    gate = Gate()
    done: list[int] = []
    place.standard(env, "dead")
    name = place.standard(env, redrive_policy=env.redrive_policy("dead", 1))

    def work(value: int) -> None:
        # Fast jobs, of which a worker otherwise takes in half a second's worth ahead.
        done.append(value)
        if len(done) == 20:
            gate.wait()

    task = env.queue(name).connect_processor("work", work)
    with env.queue(name).add_batch():
        for number in range(300):
            task.delay(number)
    with running(env, name, concurrency=1) as worker:
        gate.wait_for_arrival()
        worker.worker.stop()
        gate.open()
        result = worker.join()
    assert (result.succeeded, result.counts[name].released) == (20, 0)
    assert counts(env, name) == (280, 0)
    env.queue(name).get_raw_messages()
    assert counts(env, "dead") == (0, 0)
    said = [record.getMessage() for record in caplog.records if "maxReceiveCount" in record.getMessage()]
    assert len(said) == 1
    assert name in said[0]


def test_f05_acknowledgements_that_wait_are_sent_before_the_worker_returns(place: Place) -> None:
    env = place.env()
    name = place.standard(env, visibility_timeout=600)
    task = env.queue(name).connect_processor("work", lambda value: None)
    with env.queue(name).add_batch():
        for number in range(25):
            task.delay(number)
    place.faults.set(["DeleteMessageBatch:throttle:1:count=2"])
    with running(env, name, concurrency=4, shutdown_policy=MaxTasksShutdown(25)) as worker:
        result = worker.join()
    assert result.succeeded == result.counts[name].settled == 25
    assert counts(env, name) == (0, 0)


def test_f06_the_heartbeat_goes_on_during_a_stop_until_the_job_ends(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    task.delay(1)
    with running(env, name, concurrency=2, shutdown_timeout=600) as worker:
        gate.wait_for_arrival()
        worker.worker.stop()
        for beat in range(1, 10):
            # Three visibility timeouts, a heartbeat at each third.
            place.advance(10.5)
            watch.wait_for(VisibilityExtended, beat)
            assert counts(env, name) == (0, 1)
        gate.open()
        result = worker.join()
    assert (result.succeeded, result.abandoned) == (1, ())
    assert counts(env, name) == (0, 0)


def test_f08_a_thread_that_does_not_end_is_named_and_left_within_the_bound(place: Place) -> None:
    env = place.env()
    gate = Gate()
    name = place.standard(env, visibility_timeout=600)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    message_id = task.delay(1)
    with running(env, name, concurrency=2, shutdown_timeout=0.5) as worker:
        gate.wait_for_arrival()
        began = time.monotonic()
        worker.worker.stop()
        result = worker.join()
        assert time.monotonic() - began < 5
        gate.open()
    assert result.exit_code == 3
    assert any(f"{name}.work {message_id}" in text for text in result.abandoned), result.abandoned
    assert counts(env, name) == (1, 0)


def test_f08_a_coroutine_that_ignores_its_cancellation_is_named_and_left_within_the_bound(
    place: Place,
) -> None:
    env = place.env()
    name = place.standard(env, visibility_timeout=600)
    arrived, leave = threading.Event(), threading.Event()

    async def stubborn(value: int) -> None:
        arrived.set()
        while not leave.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    message_id = env.queue(name).connect_processor("work", stubborn).delay(1)
    with running(env, name, concurrency=2, shutdown_timeout=0.5) as worker:
        assert arrived.wait(PATIENCE)
        began = time.monotonic()
        worker.worker.stop()
        result = worker.join()
        assert time.monotonic() - began < 5
        leave.set()
    assert any(f"{name}.work {message_id}" in text for text in result.abandoned), result.abandoned
    assert counts(env, name) == (1, 0)


@pytest.mark.wire
def test_f08_a_dead_connection_does_not_hold_up_a_stop(local: Place) -> None:
    env = local.env()
    name = local.standard(env, visibility_timeout=600)
    env.queue(name).connect_processor("work", lambda value: None).delay(1)
    local.faults.set([FaultRule("DeleteMessageBatch", "blackhole", seconds=3)])
    with running(env, name, shutdown_timeout=0.5) as worker:
        until(lambda: local.requests["DeleteMessageBatch"], "a delete")
        began = time.monotonic()
        worker.worker.stop()
        result = worker.join()
        assert time.monotonic() - began < 2.5
    assert result.exit_code == 3
    assert any("settlement" in text or "acker" in text for text in result.abandoned), result.abandoned


def test_f10_start_stop_start_leaves_one_poll_loop_and_no_job_after_a_stop(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=600)
    done: list[int] = []
    task = env.queue(name).connect_processor("work", done.append)
    worker = env.worker([name], wait_second=20, handle_signals=False, concurrency=2)
    before = time.monotonic()
    for turn in range(1, 4):
        thread = threading.Thread(target=worker.run)
        thread.start()
        watch.wait_for(WorkerStarted, turn)
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert time.monotonic() - before < 10
    task.delay(0)
    # Whatever a poll of a stopped worker brings is given back, never run.
    until(lambda: counts(env, name) == (1, 0), "the message visible")
    assert done == []
    with running(env, name, wait_second=20, concurrency=2):
        for number in range(1, 6):
            task.delay(number)
        until(lambda: len(done) >= 6, "six jobs")
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert sorted(done) == [0, 1, 2, 3, 4, 5]
    # The long polls that were under way end with their time.
    place.advance(20)


def test_a_message_of_the_last_poll_is_given_back_and_told_to_the_hooks(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=600)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    for number in range(3):
        task.delay(number)
    with running(env, name, concurrency=1, prefetch=9) as worker:
        watch.wait_for(MessageReceived, 3)
        gate.wait_for_arrival()
        worker.worker.stop()
        released = watch.wait_for(MessageReleased, 2)
        assert [event.reason for event in released] == ["stopping", "stopping"]
        gate.open()
        worker.join()
    assert len(watch.of(JobStarted)) == 1
    assert counts(env, name) == (2, 0)


@pytest.mark.wire
def test_f09_a_killed_child_is_replaced_and_its_siblings_go_on(local: Place) -> None:
    env = local.env()
    name = local.standard(env, visibility_timeout=600)
    with start(local, name, processes=2, go=True, wait_second=1) as program:
        send(env, name, -1)
        victim = int(program.expect("running -1").split()[-1])
        send(env, name, *range(1, 21))
        until(lambda: counts(env, name) == (0, 1), "the other twenty done")
        # What the killed one held comes back when its lease is over, and is run by whoever lives.
        assert program.process.poll() is None
        program.send_signal(signal.SIGTERM)
        assert program.expect("returned").startswith("returned 0")
        assert program.exit_code() == 0
    workers = {int(line.split()[-1]) for line in program.lines if line.startswith("running")}
    assert victim in workers
    assert workers - {victim}
    assert sum(line.startswith("ended") for line in program.lines) == 20
    (message,) = env.queue(name).get_raw_messages(local.after(601))
    assert message.receive_count == 2


@pytest.mark.wire
def test_f09_the_last_child_is_replaced_too(local: Place) -> None:
    env = local.env()
    name = local.standard(env, visibility_timeout=600)
    with start(local, name, processes=1, go=True, wait_second=1) as program:
        send(env, name, -1)
        program.expect("running -1")
        send(env, name, 7)
        program.expect("ended 7")
        program.send_signal(signal.SIGTERM)
        program.expect("returned")
        assert program.exit_code() == 0
    victims = [line.split()[-1] for line in program.lines if line.startswith("running")]
    assert len(set(victims)) == 2
