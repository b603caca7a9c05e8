"""The worker's hold on messages: from receipt to settlement, never shortened, its loss told once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.hooks import JobStarted, JobSucceeded, LeaseLost, VisibilityExtended
from sqs_workers.messages import Message
from sqs_workers.outcome import Succeeded
from sqs_workers.transport import EntryError
from sqs_workers.worker import Source
from tests.worker.kit import PATIENCE, Bench, Handler, Running, StopAfter, client_error, manual


class Hold:
    """A handler that waits to be let go, in a bench with a clock that is moved by hand."""

    def __init__(self, **queue: str) -> None:
        self.bench = manual()
        self.clock: ManualClock = self.bench.clock
        self.bench.queue(**queue)
        self.open = threading.Event()
        self.extensions: list[int] = []
        self.beaten = threading.Condition()
        self.answer: Callable[[], Any] = lambda: None
        self.bench.transport.before["change_visibility_batch"] = self._extend

    def _extend(self, url: str, entries: list[tuple[str, int]]) -> Any:
        with self.beaten:
            self.extensions += [seconds for _, seconds in entries]
            self.beaten.notify_all()
        return self.answer()

    def __call__(self, message: Message) -> None:
        assert self.open.wait(PATIENCE)

    def source(self, **options: Any) -> Source:
        return self.bench.source(Handler(self), wait_seconds=20, **options)

    def advance(self, seconds: float, waiters: int = 3) -> None:
        # The worker's thread, the receiver, the scheduler: all wait before time goes on.
        self.clock.wait_for_waiters(waiters)
        self.clock.advance(seconds)

    def advance_until(self, reached: Callable[[], bool], step: float) -> None:
        """Let time pass in steps, each with a moment for the threads to see it."""
        with self.beaten:
            for _ in range(1000):
                if self.beaten.wait_for(reached, 0.01):
                    return
                self.clock.advance(step)
        raise AssertionError(f"not reached: {self.extensions}")

    def wait_for_extensions(self, count: int) -> None:
        with self.beaten:
            assert self.beaten.wait_for(lambda: len(self.extensions) >= count, PATIENCE), self.extensions


def finish(hold: Hold, running: Running) -> None:
    hold.open.set()
    running.worker.stop()
    hold.advance_until(lambda: not running.thread.is_alive(), 0.5)
    running.join()


def test_f15_messages_that_wait_behind_a_slow_one_stay_held() -> None:
    hold = Hold(VisibilityTimeout="60")
    hold.bench.send("a", "b")
    with hold.bench.running(hold.source(), concurrency=2, prefetch=1) as running:
        hold.bench.wait_for(JobStarted, 2)
        hold.advance_until(lambda: len(hold.extensions) >= 8, 5)
        assert hold.bench.counts() == (0, 2)
        finish(hold, running)
    assert set(hold.extensions) == {60}


def test_f15_a_message_whose_lease_has_ended_while_it_waited_is_not_started() -> None:
    hold = Hold(VisibilityTimeout="60")
    hold.bench.send("a", "b")
    with hold.bench.running(hold.source(heartbeat=0), executor="threads", prefetch=1) as running:
        hold.bench.wait_for(JobStarted)
        hold.advance(65, waiters=2)
        hold.open.set()
        hold.bench.wait_for(JobStarted, 2)
        finish(hold, running)
        assert running.result is not None
        assert running.result.counts["jobs"].expired >= 1
    bodies = running.worker._sources[0].handler.bodies  # type: ignore[attr-defined]
    assert bodies[0] == "a"


def test_f16_nothing_is_extended_after_it_was_settled() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="30")
    bench.send("a", "b")
    bench.worker(bench.source(), concurrency=2, shutdown_policy=StopAfter(2)).run()
    assert bench.transport.calls["change_visibility_batch"] == 0
    assert bench.counts() == (0, 0)


def test_f18_the_heartbeat_does_not_shorten_what_the_handler_has_set() -> None:
    hold = Hold(VisibilityTimeout="75")
    hold.bench.send("a")

    asked = threading.Event()

    def ask_for_more(message: Message) -> None:
        message.change_visibility(120)
        asked.set()
        hold(message)

    source = hold.bench.source(Handler(ask_for_more), wait_seconds=20)
    with hold.bench.running(source, executor="threads") as running:
        assert asked.wait(PATIENCE)
        for _ in range(2):
            hold.advance(25)
        assert hold.extensions == []
        hold.advance(25)
        hold.wait_for_extensions(1)
        assert hold.bench.counts() == (0, 1)
        finish(hold, running)


def test_a_message_that_its_handler_has_released_is_not_held_any_more() -> None:
    hold = Hold(VisibilityTimeout="30")
    hold.bench.send("a")
    released = threading.Event()

    def release(message: Message) -> None:
        message.change_visibility(0)
        released.set()
        hold(message)

    source = hold.bench.source(Handler(release), wait_seconds=20)
    with hold.bench.running(source, executor="threads", concurrency=1, prefetch=0) as running:
        assert released.wait(PATIENCE)
        hold.advance(11, waiters=2)
        assert hold.extensions == []
        finish(hold, running)


@pytest.mark.parametrize(("visibility", "interval"), [("1", 0.33), ("5", 1.66), ("30", 10), ("21600", 7200)])
def test_the_interval_is_a_third_of_the_queues_visibility_timeout(visibility: str, interval: float) -> None:
    hold = Hold(VisibilityTimeout=visibility)
    hold.bench.send("a")
    with hold.bench.running(hold.source(), executor="threads") as running:
        hold.bench.wait_for(JobStarted)
        hold.clock.wait_for_waiters(3)
        hold.clock.advance(interval)
        assert hold.extensions == []
        hold.advance(interval * 0.02 + 0.01)
        hold.wait_for_extensions(1)
        assert hold.bench.counts() == (0, 1)
        finish(hold, running)
    assert hold.bench.transport.calls["get_queue_attributes"] == 1


def test_a_queue_that_hides_nothing_is_worked_with_a_timeout_asked_for_at_each_receive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="0")
    bench.send("a", "b")
    handler = Handler()
    bench.worker(bench.source(handler), concurrency=2, shutdown_policy=StopAfter(2)).run()
    assert sorted(handler.bodies) == ["a", "b"]
    assert "hides received messages for 0 s" in caplog.text
    assert bench.counts() == (0, 0)


def test_a_refused_extension_is_told_once_and_seen_by_the_job() -> None:
    hold = Hold(VisibilityTimeout="30")
    hold.bench.send("a")
    hold.answer = lambda: [EntryError("ReceiptHandleIsInvalid", sender_fault=True)]
    lost: list[bool] = []

    def watch(message: Message) -> None:
        hold(message)
        lost.append(message.lost)

    source = hold.bench.source(Handler(watch), wait_seconds=20)
    with hold.bench.running(source, executor="threads") as running:
        hold.bench.wait_for(JobStarted)
        hold.advance(10.1)
        hold.bench.wait_for(LeaseLost)
        hold.advance(12, waiters=2)
        finish(hold, running)
    assert lost == [True]
    assert [event.code for event in hold.bench.of(LeaseLost)] == ["ReceiptHandleIsInvalid"]
    # The acknowledgement was tried all the same, and SQS took it.
    assert hold.bench.counts() == (0, 0)


@pytest.mark.parametrize("code", ["RequestThrottled", "ExpiredToken", "ServiceUnavailable"])
def test_f34_a_failed_extension_is_tried_again_while_the_lease_lives(code: str) -> None:
    hold = Hold(VisibilityTimeout="30")
    hold.bench.send("a")
    failures = iter([True, True, False])

    def answer() -> None:
        if next(failures, False):
            raise client_error(code, 400, "ChangeMessageVisibilityBatch")

    hold.answer = answer
    with hold.bench.running(hold.source(), executor="threads") as running:
        hold.bench.wait_for(JobStarted)
        hold.advance_until(lambda: len(hold.extensions) == 3, 0.5)
        hold.bench.wait_for(VisibilityExtended)
        finish(hold, running)
    assert hold.bench.of(LeaseLost) == []


def test_a_lease_that_could_not_be_extended_in_time_is_lost() -> None:
    hold = Hold(VisibilityTimeout="3")
    hold.bench.send("a")

    def answer() -> None:
        raise client_error("RequestThrottled", 400, "ChangeMessageVisibilityBatch")

    hold.answer = answer
    with hold.bench.running(hold.source(), executor="threads", prefetch=0) as running:
        hold.bench.wait_for(JobStarted)
        hold.advance_until(lambda: bool(hold.bench.of(LeaseLost)), 0.25)
        finish(hold, running)
    assert [event.code for event in hold.bench.of(LeaseLost)] == ["RequestThrottled"]


def test_the_end_of_the_twelve_hours_is_said_in_good_time(caplog: pytest.LogCaptureFixture) -> None:
    hold = Hold(VisibilityTimeout="3600")
    hold.bench.send("a")
    with hold.bench.running(hold.source(), executor="threads", prefetch=0) as running:
        hold.bench.wait_for(JobStarted)
        hold.advance_until(lambda: "12 hours" in caplog.text, 600)
        finish(hold, running)
    assert "12 hours" in caplog.text
    assert hold.extensions[-1] < 3600
    assert hold.bench.of(LeaseLost) == []


def test_a_visibility_timeout_that_cannot_be_read_is_assumed_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")

    def deny(*args: object) -> None:
        raise client_error("AccessDenied", 403, "GetQueueAttributes")

    bench.transport.before["get_queue_attributes"] = deny
    bench.worker(bench.source(), shutdown_policy=StopAfter(1)).run()
    warnings = [record for record in caplog.records if "cannot be read" in record.message]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    assert bench.counts() == (0, 0)


def test_a_message_handed_out_again_while_its_job_runs_is_not_run_a_second_time() -> None:
    hold = Hold(VisibilityTimeout="30")
    hold.bench.send("a")
    handler = Handler(hold)
    source = hold.bench.source(handler, wait_seconds=20, heartbeat=0)
    with hold.bench.running(source, executor="threads", concurrency=2) as running:
        hold.bench.wait_for(JobStarted)
        hold.advance_until(lambda: running.worker.stats().sources["jobs"].received == 2, 1)
        finish(hold, running)
    assert handler.bodies == ["a"]
    assert len(hold.bench.of(JobSucceeded)) == 1
    # Settled by the newer receipt: the older one SQS would have refused.
    assert hold.bench.counts() == (0, 0)


def test_a_message_that_the_handler_deletes_is_not_deleted_again() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")

    def delete(message: Message) -> Succeeded:
        message.delete()
        return Succeeded()

    bench.worker(bench.source(Handler(delete)), shutdown_policy=StopAfter(1)).run()
    assert bench.transport.calls["delete"] == 1
    assert bench.transport.calls["delete_batch"] == 0
    assert bench.counts() == (0, 0)


@pytest.mark.parametrize("seconds", [-1, 43201, 1.5, True])
def test_a_visibility_that_sqs_would_refuse_is_refused_in_the_handler(seconds: Any) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    errors: list[str] = []

    def change(message: Message) -> None:
        try:
            message.change_visibility(seconds)
        except (TypeError, ValueError) as error:
            errors.append(str(error))

    bench.worker(bench.source(Handler(change)), shutdown_policy=StopAfter(1)).run()
    assert "43200" in errors[0] or "integer" in errors[0]
