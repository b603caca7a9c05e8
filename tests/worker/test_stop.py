"""How a worker stops: at once where it can, within its deadline, and at no cost of a visibility timeout."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.hooks import JobStarted, MessageReceived, MessageReleased, WorkerStarted, WorkerStopped
from sqs_workers.worker.result import EXIT_ABANDONED
from tests.worker.kit import PATIENCE, AsyncHandler, Bench, Handler, IdleStop, StopAfter


class Gate:
    """A handler that waits until it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, message: Any) -> None:
        assert self.open.wait(PATIENCE)


def test_f01_a_message_sent_during_the_last_long_poll_is_receivable_at_once() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    handler = Handler()
    # SQS cannot be asked to answer a long poll before its time.
    bench.transport.before["wake_receives"] = lambda url: True
    polling = threading.Event()
    bench.transport.before["receive"] = lambda *args: polling.set()
    with bench.running(bench.source(handler, wait_seconds=20)) as running:
        assert polling.wait(PATIENCE)
        running.worker.stop()
        result = running.join()
        bench.send("late")
        # The receive that was under way brings it, unheard of by any handler, and gives it back.
        answer = bench.client.receive_message(
            QueueUrl=bench.urls["jobs"], WaitTimeSeconds=10, AttributeNames=["All"]
        )
    assert [message["Body"] for message in answer["Messages"]] == ["late"]
    assert handler.bodies == []
    assert result.duration < 5
    assert result.exit_code == 0


def test_f02_what_waits_behind_a_running_job_is_visible_again_as_soon_as_the_stop_is_asked_for() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*"abcdefghij")
    gate = Gate()
    handler = Handler(gate)
    with bench.running(bench.source(handler), prefetch=9) as running:
        bench.wait_for(MessageReceived, 10)
        bench.wait_for(JobStarted)
        running.worker.stop()
        bench.wait_for(MessageReleased, 9)
        gate.open.set()
        result = running.join()
    assert len(handler.bodies) == 1
    assert bench.counts() == (9, 0)
    assert result.counts["jobs"].released == 9
    assert result.counts["jobs"].succeeded == 1
    answer = bench.client.receive_message(
        QueueUrl=bench.urls["jobs"], MaxNumberOfMessages=10, AttributeNames=["All"]
    )
    assert {message["Attributes"]["ApproximateReceiveCount"] for message in answer["Messages"]} == {"2"}


def test_f04_a_running_job_is_drained_and_its_only_attempt_is_not_wasted() -> None:
    bench = Bench()
    dead = bench.queue("dead")
    arn = bench.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    bench.queue(RedrivePolicy=f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}')
    bench.send("a")
    gate = Gate()
    with bench.running(bench.source(Handler(gate))) as running:
        bench.wait_for(JobStarted)
        running.worker.stop()
        gate.open.set()
        running.join()
    assert bench.counts() == (0, 0)
    assert bench.counts("dead") == (0, 0)


def test_f05_acknowledgements_still_buffered_are_sent_before_the_worker_returns() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefgh")
    with bench.running(bench.source(Handler()), concurrency=8, shutdown_policy=StopAfter(8)) as running:
        result = running.join()
    assert result.counts["jobs"].settled == 8
    assert bench.counts() == (0, 0)


def test_f06_the_heartbeat_goes_on_while_a_stop_waits_for_a_job() -> None:
    clock = ManualClock()
    bench = Bench(clock)
    bench.queue(VisibilityTimeout="30")
    bench.send("a")
    gate = Gate()
    extended = threading.Semaphore(0)
    bench.transport.before["change_visibility_batch"] = lambda url, entries: extended.release()
    with bench.running(bench.source(Handler(gate)), concurrency=2, shutdown_timeout=600) as running:
        bench.wait_for(JobStarted)
        running.worker.stop()
        for _ in range(9):
            for _ in range(1000):
                clock.advance(1)
                if extended.acquire(timeout=0.01):
                    break
        assert bench.counts() == (0, 1)
        gate.open.set()
        result = running.join()
    assert result.counts["jobs"].lost == 0
    assert bench.counts() == (0, 0)


def test_f08_a_handler_that_does_not_end_is_left_at_the_deadline_and_named() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")
    gate = Gate()
    with bench.running(bench.source(Handler(gate)), concurrency=2, shutdown_timeout=0.3) as running:
        started = bench.wait_for(JobStarted)[0]
        running.worker.stop()
        result = running.join()
        assert bench.counts() == (1, 0)
        gate.open.set()
    assert any(started.message_id in text for text in result.abandoned)
    assert result.exit_code == EXIT_ABANDONED
    assert bench.of(WorkerStopped)[0].abandoned == result.abandoned


def test_f08_a_coroutine_that_ignores_its_cancellation_is_left_at_the_deadline() -> None:
    import asyncio

    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")
    gate = threading.Event()

    async def stubborn(message: object) -> None:
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with bench.running(bench.source(AsyncHandler(stubborn)), concurrency=2, shutdown_timeout=0.3) as running:
        bench.wait_for(JobStarted)
        running.worker.stop()
        result = running.join()
        assert bench.counts() == (1, 0)
        gate.set()
    assert result.exit_code == EXIT_ABANDONED


def test_a_coroutine_is_cancelled_at_the_deadline_and_its_message_given_back() -> None:
    import asyncio

    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")

    async def long(message: object) -> None:
        await asyncio.sleep(1000)

    with bench.running(bench.source(AsyncHandler(long)), concurrency=2, shutdown_timeout=0.5) as running:
        bench.wait_for(JobStarted)
        running.worker.stop()
        result = running.join()
    assert bench.counts() == (1, 0)
    # A long poll under way may have brought it once more, and given it back.
    assert result.counts["jobs"].released >= 1
    assert result.abandoned == ()


def test_f08_a_delete_on_a_dead_connection_does_not_hold_up_the_stop() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    answer = threading.Event()
    stuck = threading.Event()

    def hang(url: str, receipts: object) -> None:
        stuck.set()
        assert answer.wait(PATIENCE)

    bench.transport.before["delete_batch"] = hang
    with bench.running(bench.source(Handler()), shutdown_timeout=0.3) as running:
        assert stuck.wait(PATIENCE)
        running.worker.stop()
        result = running.join()
        assert result.abandoned != ()
        assert result.exit_code == EXIT_ABANDONED
        answer.set()


def test_f10_starting_and_stopping_in_quick_succession_leaves_one_poll_loop_and_no_late_job() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    handler = Handler()
    bench.transport.before["wake_receives"] = lambda url: True
    worker = bench.worker(bench.source(handler, wait_seconds=20))
    for _ in range(3):
        thread = threading.Thread(target=worker.run)
        started = len(bench.of(WorkerStarted))
        thread.start()
        bench.wait_for(WorkerStarted, started + 1)
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    bench.send("a")
    answer = bench.client.receive_message(QueueUrl=bench.urls["jobs"], WaitTimeSeconds=10)
    assert len(answer["Messages"]) == 1
    assert handler.bodies == []


def test_a_stop_before_the_run_is_honoured() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    handler = Handler()
    worker = bench.worker(bench.source(handler))
    worker.stop("not needed")
    assert worker.run().reason == "not needed"
    assert handler.bodies == []
    assert bench.counts() == (1, 0)


def test_no_job_starts_after_stop_has_returned() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(30)))
    gate = Gate()
    with bench.running(bench.source(Handler(gate)), concurrency=2) as running:
        bench.wait_for(JobStarted, 2)
        running.worker.stop()
        gate.open.set()
        running.join()
    assert len(bench.of(JobStarted)) == 2


@pytest.mark.parametrize("concurrency", [1, 2])
def test_sigterm_stops_the_worker_and_the_old_handler_comes_back(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    before = signal.getsignal(signal.SIGTERM)
    handler = Handler(lambda message: os.kill(os.getpid(), signal.SIGTERM))
    worker = bench.worker(bench.source(handler), concurrency=concurrency, handle_signals=True)
    result = worker.run()
    assert result.reason == "SIGTERM"
    assert result.succeeded == 1
    assert bench.counts() == (0, 0)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_second_signal_skips_the_waiting(concurrency: int) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")
    gate = Gate()

    def twice(message: object) -> None:
        # Two of one kind, sent from a thread, could arrive as one.
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        gate(message)

    worker = bench.worker(bench.source(Handler(twice)), concurrency=concurrency, handle_signals=True)
    result = worker.run()
    gate.open.set()
    assert result.reason in ("SIGINT", "SIGTERM")
    assert result.duration < 10
    assert bench.counts() == (1, 0)


def test_a_job_in_the_main_thread_is_interrupted_at_the_deadline() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")
    gate = Gate()

    def stopped_and_stuck(message: object) -> None:
        worker.stop()
        gate(message)

    worker = bench.worker(bench.source(Handler(stopped_and_stuck)), handle_signals=True, shutdown_timeout=0.3)
    result = worker.run()
    assert bench.counts() == (1, 0)
    assert result.counts["jobs"].released == 1


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_job_that_raises_system_exit_ends_the_worker_in_order(
    concurrency: int, error: type[BaseException]
) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")

    def leave(message: object) -> None:
        raise error

    with pytest.raises(error):
        bench.worker(bench.source(Handler(leave)), concurrency=concurrency).run()
    assert bench.counts() == (1, 0)


def test_a_worker_that_idles_long_enough_for_its_policy_stops() -> None:
    bench = Bench()
    bench.queue("jobs")
    bench.queue("more")
    bench.send("a", queue="more")
    handler = Handler()
    sources = [bench.source(handler), bench.source(handler, name="more")]
    with bench.running(*sources, concurrency=2, shutdown_policy=IdleStop()) as running:
        result = running.join()
    assert handler.bodies == ["a"]
    assert result.reason == "IdleStop()"
