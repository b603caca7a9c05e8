"""Moments at which a lease or a stop could be lost: alarms, late extensions, receipts that die in the buffer."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from sqs_workers.clock import SYSTEM_CLOCK
from sqs_workers.hooks import (
    HookRegistry,
    JobStarted,
    JobSucceeded,
    LeaseLost,
    MessageReceived,
    MessageReleased,
    MessageSettled,
)
from sqs_workers.messages import Message
from sqs_workers.outcome import Failed
from sqs_workers.transport import EntryError
from sqs_workers.worker import BatchSettings
from sqs_workers.worker.heartbeat import Heartbeat
from tests.worker.kit import PATIENCE, AsyncHandler, Bench, Handler, IdleStop, client_error, manual


def test_an_alarm_that_is_set_anew_does_not_end_the_scheduler() -> None:
    heartbeat = Heartbeat(None, SYSTEM_CLOCK, HookRegistry(), print)  # type: ignore[arg-type]
    first, second, third = threading.Event(), threading.Event(), threading.Event()
    heartbeat.set_alarm("key", 0.05, first.set)
    heartbeat.set_alarm("key", 0.0, second.set)
    assert second.wait(PATIENCE)
    heartbeat.set_alarm("other", 0.1, third.set)
    assert third.wait(PATIENCE), "the scheduler lives on"
    assert not first.is_set()
    heartbeat.close()
    assert heartbeat.join(PATIENCE)


def test_the_heartbeat_goes_on_when_a_stop_meets_a_batch_that_waits_for_more() -> None:
    bench = manual()
    bench.queue(VisibilityTimeout="30")
    inside, go_on = threading.Event(), threading.Event()

    def job(messages: Any) -> None:
        inside.set()
        assert go_on.wait(3 * PATIENCE)

    source = bench.source(Handler(job), batch=BatchSettings(2, wait_seconds=5.0), wait_seconds=20)
    bench.transport.before["wake_receives"] = lambda url: True
    with bench.running(source, concurrency=2, executor="threads", shutdown_timeout=1000) as running:
        try:
            bench.send("a", "b")
            assert inside.wait(PATIENCE)
            bench.send("c")
            bench.wait_for_buffered(running, 1)
            running.worker.stop()
            bench.wait_until(lambda: running.worker.stats().state == "stopping")
            bench.clock.advance(1.0)
            bench.wait_for(MessageReleased)
            for _ in range(4):
                bench.advance_with_beats(10.5)
            assert bench.of(LeaseLost) == []
            assert bench.counts()[1] >= 2, "both are still held"
        finally:
            go_on.set()


def test_what_comes_after_a_stop_does_not_wait_for_the_running_job() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    go_on = threading.Event()
    under_way = {kind: threading.Event() for kind in ("long", "short")}
    answer = {kind: threading.Event() for kind in ("long", "short")}

    def job(message: Message) -> None:
        assert go_on.wait(3 * PATIENCE)

    def hold_the_later_ones(url: str, options: Any) -> None:
        if bench.transport.calls["receive"] > 1:
            kind = "long" if options.wait_seconds else "short"
            under_way[kind].set()
            assert answer[kind].wait(3 * PATIENCE)

    bench.transport.before["receive"] = hold_the_later_ones
    bench.transport.before["wake_receives"] = lambda url: True
    bench.send(*"abcdefghij")
    source = bench.source(Handler(job), wait_seconds=20)
    with bench.running(source, concurrency=30, shutdown_timeout=100) as running:
        try:
            bench.wait_for(JobStarted, 10)
            assert under_way["long"].wait(PATIENCE)
            assert under_way["short"].wait(PATIENCE)
            running.worker.stop()
            bench.wait_until(lambda: running.worker._engine._stop_begun)  # type: ignore[union-attr]
            bench.send("late")
            answer["short"].set()
            released = bench.wait_for(MessageReleased)
            assert not answer["long"].is_set()
        finally:
            go_on.set()
            for event in answer.values():
                event.set()
    assert len(released) == 1


@pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])
def test_a_message_whose_receipt_dies_in_the_buffer_is_not_started(name: str) -> None:
    bench = manual()
    bench.queue(name, VisibilityTimeout="30")
    go_on = threading.Event()
    handler = Handler(lambda message: None if go_on.wait(PATIENCE) else Failed(TimeoutError()))
    if name == "jobs":
        bench.send("a", "b")
    else:
        bench.send("a", queue=name, group="a")
        bench.send("b", "c", queue=name, group="b")
    bench.transport.before["change_visibility_batch"] = lambda url, entries: [
        EntryError("ReceiptHandleIsInvalid", "", True) for _ in entries
    ]
    with bench.running(bench.source(handler, name), executor="inline", prefetch=9) as running:
        bench.wait_for(JobStarted)
        bench.wait_for(MessageReceived, 2 if name == "jobs" else 3)
        bench.clock.advance(10.5)
        bench.wait_for(LeaseLost, 2)
        go_on.set()
        bench.wait_for(MessageSettled, 2)
        running.worker.stop()
        running.join()
    assert handler.bodies == ["a"]


def test_a_batch_never_runs_a_message_without_the_earlier_ones_of_its_group() -> None:
    bench = manual()
    bench.queue("jobs.fifo", VisibilityTimeout="30")
    bench.send("a1", "a2", queue="jobs.fifo", group="a")
    bench.send("b1", queue="jobs.fifo", group="b")
    receipts: dict[str, str] = {}
    handler = Handler()

    def refuse_the_first(url: str, entries: Any) -> Any:
        return [
            EntryError("ReceiptHandleIsInvalid", "", True) if receipt == receipts["a1"] else None
            for receipt, _ in entries
        ]

    def remember(url: str, options: Any) -> Any:
        answer = bench.transport._inner.receive(url, options)
        receipts.update({message.body: message.receipt_handle for message in answer})
        return answer

    bench.transport.before["receive"] = remember
    bench.transport.before["change_visibility_batch"] = refuse_the_first
    source = bench.source(handler, "jobs.fifo", batch=BatchSettings(10, wait_seconds=15.0))
    with bench.running(source):
        bench.wait_for(MessageReceived, 3)
        bench.clock.advance(10.5)
        bench.wait_for(LeaseLost)
        bench.wait_until(lambda: bench.clock.advance(0.5) or bench.of(JobSucceeded))
    assert handler.bodies == ["b1"]


@pytest.mark.parametrize("answered_late", [False, True])
def test_a_message_that_its_handler_gave_back_and_got_again_is_held_like_any_other(
    answered_late: bool,
) -> None:
    bench = manual()
    bench.queue(VisibilityTimeout="30")
    bench.send("a")
    received_again, go_on = threading.Event(), threading.Event()

    def change_visibility(url: str, receipt: str, seconds: int) -> bool:
        bench.transport._inner.change_visibility(url, receipt, seconds)
        if answered_late:
            assert received_again.wait(PATIENCE)
        return True

    def job(message: Message) -> None:
        message.change_visibility(0)
        assert received_again.wait(PATIENCE)
        assert go_on.wait(3 * PATIENCE)

    bench.transport.before["change_visibility"] = change_visibility
    with bench.running(bench.source(Handler(job)), concurrency=2, executor="threads") as running:
        try:
            bench.wait_until(lambda: running.worker.stats().sources["jobs"].received == 2)
            received_again.set()
            for _ in range(4):
                bench.advance_with_beats(10.5)
            assert running.worker.stats().sources["jobs"].received == 2, "nobody got it a third time"
        finally:
            received_again.set()
            go_on.set()
        bench.wait_for(MessageSettled)
    assert bench.counts() == (0, 0)


def test_a_message_deleted_by_its_handler_but_handed_out_again_is_deleted_with_the_new_receipt() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")
    again, first = threading.Event(), iter([True])

    def job(message: Message) -> None:
        # As if SQS had lost the delete: it answered, and hands the message out again.
        bench.transport.before["delete"] = lambda url, receipt: True
        message.delete()
        bench.client.change_message_visibility(
            QueueUrl=bench.urls["jobs"], ReceiptHandle=message.receipt_handle, VisibilityTimeout=0
        )
        assert again.wait(PATIENCE)

    handler = Handler(lambda message: job(message) if next(first, False) else None)
    with bench.running(bench.source(handler), concurrency=2, executor="threads") as running:
        bench.wait_until(lambda: running.worker.stats().sources["jobs"].received == 2)
        again.set()
        bench.wait_for(MessageSettled)
        running.worker.stop()
        running.join()
    assert handler.bodies == ["a"]
    assert bench.counts() == (0, 0)


def test_an_extension_that_lands_after_the_backoff_at_a_stop_does_not_hide_the_message_for_longer() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="3")
    bench.send("a")
    under_way, go_on, stopping = threading.Event(), threading.Event(), threading.Event()
    first = iter([True])

    def hold_the_first_extension(url: str, entries: list[tuple[str, int]]) -> Any:
        if entries[0][1] == 1000 and next(first, False):
            under_way.set()
            assert go_on.wait(PATIENCE)
        elif not go_on.is_set():
            # The backoff goes first; then the extension lands.
            threading.Timer(0.2, go_on.set).start()

    bench.transport.before["change_visibility_batch"] = hold_the_first_extension

    def fail_at_the_stop(message: Message) -> Failed:
        assert stopping.wait(PATIENCE)
        return Failed(ValueError("no"), delay=1)

    source = bench.source(Handler(fail_at_the_stop), wait_seconds=0, heartbeat_visibility=1000)
    with bench.running(source, executor="threads") as running:
        assert under_way.wait(PATIENCE)
        running.worker.stop()
        stopping.set()
        running.join()
        bench.wait_until(lambda: bench.counts() == (1, 0))


def test_dead_heartbeat_requests_do_not_hold_up_the_timeouts_of_jobs() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*(f"{number}" for number in range(60)))
    go_on = threading.Event()
    bench.transport.before["change_visibility_batch"] = lambda url, entries: go_on.wait(PATIENCE) and None
    handler = Handler(lambda message: go_on.wait(PATIENCE) and None, timeout=1.5)
    try:
        with bench.running(bench.source(handler, heartbeat=0.3), concurrency=60) as running:
            bench.wait_until(lambda: running.worker.stats().sources["jobs"].timed_out >= 50)
            go_on.set()
    finally:
        go_on.set()


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, type("Odd", (BaseException,), {})])
@pytest.mark.parametrize("executor", ["inline", "threads", "loop"])
def test_an_odd_exception_is_the_affair_of_its_job_alone(error: type[BaseException], executor: str) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a", "b")
    failed: set[str] = set()

    def job(message: Message) -> None:
        if message.body == "a" and message.body not in failed:
            failed.add(message.body)
            raise error("odd")

    async def ajob(message: Message) -> None:
        job(message)

    handler = AsyncHandler(ajob) if executor == "loop" else Handler(job)
    options: Any = {"executor": "threads" if executor == "loop" else executor}
    with bench.running(bench.source(handler), **options) as running:
        bench.wait_for(JobSucceeded, 2)
        running.worker.stop()
        result = running.join()
    assert sorted(handler.bodies) == ["a", "a", "b"]
    assert (result.failed, result.succeeded, result.exit_code) == (1, 2, 0)


def test_one_entry_that_spoils_a_request_is_given_up_alone() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*(f"{number}" for number in range(10)))
    handler = Handler()
    bad: list[str] = []

    def delete(url: str, receipts: Any) -> None:
        bad.extend(receipts[:1] if not bad else [])
        if bad[0] in receipts:
            raise client_error("ReceiptHandleIsInvalid", operation="DeleteMessageBatch")

    bench.transport.before["delete_batch"] = delete
    result = bench.worker(
        bench.source(handler, wait_seconds=0), concurrency=10, shutdown_policy=IdleStop()
    ).run()
    assert result.counts["jobs"].delete_failures == 1
    assert bench.counts() == (0, 1)


def test_a_probe_that_exits_ends_the_worker_instead_of_leaving_it_deaf() -> None:
    from sqs_workers.worker import PauseOn

    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")

    def probe() -> None:
        raise SystemExit(3)

    source = bench.source(
        Handler(lambda message: Failed(ConnectionError())),
        circuit=PauseOn(errors=(ConnectionError,), failures=1, min_pause=0.01, probe=probe),
    )
    with pytest.raises(SystemExit):
        bench.worker(source).run()


def test_a_stop_is_heard_although_the_listener_before_us_is_gone() -> None:
    bench = Bench()
    bench.queue()
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    previous = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    worker = bench.worker(bench.source(wait_seconds=1), handle_signals=True)

    def send_signals() -> None:
        bench.wait_until(lambda: worker.stats().sources["jobs"].polls > 0)
        os.close(write)
        os.kill(os.getpid(), signal.SIGUSR1)
        polls = worker.stats().sources["jobs"].polls
        bench.wait_until(lambda: worker.stats().sources["jobs"].polls > polls)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send_signals)
    thread.start()
    try:
        assert worker.run().reason == "SIGTERM"
    finally:
        thread.join()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, previous)
        if before != -1:
            signal.set_wakeup_fd(before)
        os.close(read)
