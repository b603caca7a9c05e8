"""Acknowledgements and the hold on messages: partial failures, dead receipts, heartbeats that meddle."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sqs_workers import BatchMessages, current_job
from sqs_workers.hooks import JobStarted, JobSucceeded, MessageReceived, MessageSettled, VisibilityExtended
from sqs_workers.shutdown_policies import MaxTasksShutdown
from tests.field.kit import Gate, Place, Watch, running, until
from tests.worlds import counts


def batch_sizes(env: Any, method: str) -> list[int]:
    """Entries of each call of a batch method, in order."""
    return [len(args[1]) for name, args in env.transport.log if name == method]


def test_f12_one_failed_entry_of_a_delete_is_repeated_alone_and_counted(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=600)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    with env.queue(name).add_batch():
        for number in range(10):
            task.delay(number)
    place.faults.set(["DeleteMessageBatch:partial:1:entries=1,count=1"])
    with running(env, name, concurrency=10, shutdown_policy=MaxTasksShutdown(10)) as worker:
        gate.wait_for_arrival(10)
        gate.open()
        result = worker.join()
    assert counts(env, name) == (0, 0)
    sizes = batch_sizes(env, "delete_batch")
    assert sum(sizes) == 11
    assert sizes[-1] == 1
    stats = result.counts[name]
    assert (stats.succeeded, stats.failed, stats.settled) == (10, 0, 10)
    assert (stats.settle_retries, stats.delete_failures) == (1, 0)
    assert {event.ok for event in watch.of(MessageSettled)} == {True}
    assert len(watch.of(JobStarted)) == 10


def test_f12_nine_entries_are_gone_at_once_while_the_tenth_fails_on_and_on(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    with env.queue(name).add_batch():
        for number in range(10):
            task.delay(number)
    place.faults.set(["DeleteMessageBatch:partial:1:entries=1"])
    with running(env, name, concurrency=10, shutdown_timeout=0.5) as worker:
        gate.wait_for_arrival(10)
        gate.open()
        # More than one call may have carried them: each leaves its first entry behind.
        until(lambda: sum(batch_sizes(env, "delete_batch")) >= 10, "deletes of all")
        calls = len(batch_sizes(env, "delete_batch"))
        until(lambda: sum(counts(env, name)) <= calls, "the others deleted")
        assert watch.of(MessageSettled)
        place.faults.clear()
        until(lambda: counts(env, name) == (0, 0), "all of them deleted")
        worker.worker.stop()
        assert worker.join().exit_code == 0
    assert len(watch.of(JobStarted)) == 10


@pytest.mark.parametrize("code", ["ReceiptHandleIsInvalid", "InvalidParameterValue"])
@pytest.mark.parametrize("scope", ["entry", "call"])
def test_f14_an_ack_with_a_dead_receipt_is_logged_and_the_worker_goes_on(
    place: Place, caplog: pytest.LogCaptureFixture, code: str, scope: str
) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=600)
    done: list[int] = []
    task = env.queue(name).connect_processor("work", done.append)
    fault = "partial:1:sender_fault=1," if scope == "entry" else "throttle:1:"
    place.faults.set([f"DeleteMessageBatch:{fault}code={code},count=1"])
    message_id = task.delay(1)
    with running(env, name) as worker:
        (settled,) = watch.wait_for(MessageSettled)
        assert (settled.message_id, settled.ok) == (message_id, False)
        task.delay(2)
        watch.wait_for(MessageSettled, 2)
        until(lambda: worker.worker.stats().in_flight == 0, "the slot free")
        stats = worker.worker.stats()
        assert (stats.acker_backlog, stats.state) == (0, "running")
        assert stats.sources[name].delete_failures == 1
    assert done == [1, 2]
    assert batch_sizes(env, "delete_batch") == [1, 1], "a receipt that is dead is not tried again"
    warnings = [record for record in caplog.records if message_id in record.getMessage()]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    assert code in warnings[0].getMessage()


def test_f14_a_fifo_receipt_that_outlived_its_visibility_frees_the_slot(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.fifo(env, visibility_timeout=30)
    done: list[int] = []

    def work(value: int) -> None:
        done.append(value)
        if done == [1]:
            place.advance(31)

    task = env.queue(name).connect_processor("work", work)
    task.options(group_id="a").delay(1)
    task.options(group_id="b").delay(2)
    with running(env, name, heartbeat=0):
        until(lambda: counts(env, name) == (0, 0), "both settled")
        watch.wait_for(JobSucceeded, 3)
    assert sorted(done) == [1, 1, 2], "the first comes again, for its acknowledgement came too late"


def test_f15_the_second_of_two_stays_held_while_the_first_takes_longer_than_the_lease(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=60)
    seen: list[tuple[int, int]] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        seen.append((value, job.receive_count))
        if len(seen) == 1:
            for beat in range(1, 4):
                place.advance(21.7)
                watch.wait_for(VisibilityExtended, 2 * beat)
                assert counts(env, name) == (0, 2)

    task = env.queue(name).connect_processor("work", work)
    task.delay(1)
    task.delay(2)
    with running(env, name, prefetch=1, shutdown_policy=MaxTasksShutdown(2)) as worker:
        worker.join()
    assert sorted(seen) == [(1, 1), (2, 1)]
    assert counts(env, name) == (0, 0)


def test_f15_without_a_heartbeat_the_second_is_not_started_on_an_ended_lease(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=60)
    seen: list[tuple[int, int]] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        seen.append((value, job.receive_count))
        if len(seen) == 1:
            watch.wait_for(MessageReceived, 2)
            place.advance(65)

    task = env.queue(name).connect_processor("work", work)
    task.delay(1)
    task.delay(2)
    with running(env, name, prefetch=1, heartbeat=0) as worker:
        until(lambda: counts(env, name) == (0, 0), "both deleted")
        worker.worker.stop()
        result = worker.join()
    first, second = seen[0][0], 3 - seen[0][0]
    assert (second, 1) not in seen
    assert (first, 1) in seen
    assert (second, 2) in seen
    assert result.counts[name].expired == 1


def test_f16_nothing_is_extended_after_its_delete(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=30)
    queue = env.queue(name, batching_policy=BatchMessages(batch_size=2))
    receipts: list[list[str]] = []

    def work(values: list[dict[str, Any]]) -> None:
        job = current_job()
        receipts.append([message.receipt_handle for message in job.messages])  # type: ignore[union-attr]
        if len(receipts) == 2:
            place.advance(10.5)
            watch.wait_for(VisibilityExtended, 2)

    task = queue.connect_processor("work", work)
    task.delay(value=1)
    task.delay(value=2)
    with running(env, name):
        until(lambda: counts(env, name) == (0, 0), "the first two deleted")
        # Had the first two been held on, their turn would have come together with that of the next two.
        task.delay(value=3)
        task.delay(value=4)
        watch.wait_for(JobSucceeded, 4)
        until(lambda: counts(env, name) == (0, 0), "all deleted")
    extended = [
        receipt
        for method, args in env.transport.log
        if method == "change_visibility_batch"
        for receipt, _ in args[1]
    ]
    assert sorted(extended) == sorted(receipts[1])


def test_f18_a_heartbeat_never_shortens_what_the_handler_set(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=75)
    remaining: list[float] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        job.change_visibility(120)
        place.advance(25)
        place.advance(25)
        assert env.transport.calls["change_visibility_batch"] == 0
        assert job.message.lease is not None
        remaining.append(job.message.lease.remaining)
        assert counts(env, name) == (0, 1)
        # Short before its end the heartbeat takes over, and only prolongs.
        place.advance(25)
        watch.wait_for(VisibilityExtended)
        remaining.append(job.message.lease.remaining)

    env.queue(name).connect_processor("work", work).delay(1)
    with running(env, name, concurrency=2, shutdown_policy=MaxTasksShutdown(1)) as worker:
        assert worker.join().succeeded == 1
    assert 68 <= remaining[0] <= 70
    assert remaining[1] >= 70
    assert counts(env, name) == (0, 0)
