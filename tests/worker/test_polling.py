"""Receiving: never more than there is room for, through every kind of error, without spinning."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError, WorkerError
from sqs_workers.hooks import JobStarted, JobSucceeded, MessageReceived, PollFailed
from sqs_workers.messages import Message
from sqs_workers.transport import ReceiveOptions
from sqs_workers.worker import BatchSettings, Source
from sqs_workers.worker.poller import next_delay
from tests.worker.kit import PATIENCE, Bench, Handler, StopAfter, client_error, manual


def raise_for(bench: Bench, *errors: Exception) -> None:
    """The first receives fail so."""
    left = list(errors)
    lock = threading.Lock()

    def fail(*args: Any) -> None:
        with lock:
            error = left.pop(0) if left else None
        if error is not None:
            raise error

    bench.transport.before["receive"] = fail


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (client_error("InternalError", 500), "server"),
        (client_error("RequestThrottled"), "throttled"),
        (ConnectionResetError(), "network"),
        (client_error("ExpiredToken", 403), "credentials"),
        (client_error("KmsThrottled"), "throttled"),
    ],
)
def test_f31_a_receive_that_fails_is_waited_out_and_told(error: Exception, kind: str) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    raise_for(bench, error)
    handler = Handler()
    result = bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert handler.bodies == ["a"]
    (event,) = bench.of(PollFailed)
    assert event.kind == kind
    assert event.error is error
    assert result.counts["jobs"].poll_errors == 1


def test_f31_an_outage_of_two_minutes_is_survived_and_its_length_can_be_seen() -> None:
    bench = manual()
    clock: ManualClock = bench.clock
    bench.queue()
    down = True

    def fail(*args: Any) -> None:
        if down:
            raise ConnectionResetError

    bench.transport.before["receive"] = fail
    pause = threading.Event()
    with bench.running(bench.source()) as running:
        bench.wait_for(PollFailed)
        for _ in range(130):
            clock.advance(1)
            pause.wait(0.002)
        assert running.worker.stats().last_good_poll is None
        failures = len(bench.of(PollFailed))
        assert 4 < failures < 60
        down = False
        bench.send("a")
        for _ in range(100):
            if bench.of(JobSucceeded):
                break
            clock.advance(1)
            pause.wait(0.01)
        assert bench.of(JobSucceeded)
        age = running.worker.stats().last_good_poll
        assert age is not None
        assert age < 60
        running.worker.stop()
        for _ in range(100):
            clock.advance(1)
            running.thread.join(0.01)
            if not running.thread.is_alive():
                break


def test_f31_delays_grow_and_are_spread() -> None:
    delays = {next_delay(0) for _ in range(20)}
    assert len(delays) > 10
    assert min(delays) > 0
    delay = 0.0
    for _ in range(20):
        delay = next_delay(delay)
        assert delay <= 30
    assert delay > 5


@pytest.mark.parametrize(
    ("code", "error"),
    [("AWS.SimpleQueueService.NonExistentQueue", QueueNotFoundError), ("AccessDenied", WorkerError)],
)
def test_a_queue_that_cannot_be_used_at_the_start_ends_the_worker_with_its_name(
    code: str, error: type[Exception]
) -> None:
    bench = Bench()
    bench.queue()
    raise_for(bench, client_error(code, 403))
    with pytest.raises(error, match="jobs"):
        bench.worker(bench.source()).run()


def test_f36_a_denied_receive_of_a_worker_that_has_worked_is_waited_out() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    with bench.running(bench.source(wait_seconds=0)) as running:
        bench.wait_for(JobSucceeded)
        raise_for(bench, client_error("KmsAccessDenied"))
        assert bench.wait_for(PollFailed)[0].kind == "denied"
        bench.send("b")
        bench.wait_for(JobSucceeded, 2)
        running.worker.stop()
        running.join()


def test_a_queue_whose_address_cannot_be_found_is_named() -> None:
    bench = Bench()

    def missing() -> str:
        raise client_error("AWS.SimpleQueueService.NonExistentQueue", 400, "GetQueueUrl")

    source = Source("lost", missing, Handler(), str)
    with pytest.raises(QueueNotFoundError, match="lost"):
        bench.worker(source).run()


def test_a_network_that_is_not_there_yet_is_waited_for_at_the_start() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    errors = iter([ConnectionResetError()])

    def resolve() -> str:
        for error in errors:
            raise error
        return bench.urls["jobs"]

    source = bench.source()
    source.resolve_url = resolve
    assert bench.worker(source, shutdown_policy=StopAfter(1)).run().succeeded == 1


def test_f33_busy_slots_and_an_empty_queue_cost_few_receives() -> None:
    bench = Bench()
    bench.queue()
    gate = threading.Event()

    def wait(message: Message) -> None:
        assert gate.wait(PATIENCE)

    with bench.running(bench.source(Handler(wait), wait_seconds=0), concurrency=2) as running:
        threading.Event().wait(1.0)
        idle = bench.transport.calls["receive"]
        bench.send("a", "b")
        bench.wait_for(JobStarted, 2)
        busy = bench.transport.calls["receive"]
        threading.Event().wait(0.3)
        assert bench.transport.calls["receive"] <= busy + 2
        gate.set()
        running.worker.stop()
        running.join()
    assert idle < 10


def test_f44_an_empty_receive_is_normal_and_asks_for_nothing_else() -> None:
    bench = Bench()
    bench.queue()
    polled = threading.Semaphore(0)
    bench.transport.before["receive"] = lambda *args: polled.release()
    with bench.running(bench.source(wait_seconds=0)) as running:
        for _ in range(3):
            assert polled.acquire(timeout=PATIENCE)
        running.worker.stop()
        running.join()
    assert set(bench.transport.calls) <= {"receive", "get_queue_attributes", "wake_receives"}


@pytest.mark.parametrize("concurrency", [1, 3, 12])
def test_no_more_messages_are_held_than_there_are_slots(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(40)))
    gate = threading.Semaphore(0)

    def wait(message: Message) -> None:
        assert gate.acquire(timeout=PATIENCE)

    with bench.running(
        bench.source(Handler(wait)), concurrency=concurrency, executor="threads", prefetch=0
    ) as running:
        for done in range(10):
            bench.wait_for(JobStarted, concurrency + done)
            assert len(bench.of(MessageReceived)) <= concurrency + done
            gate.release()
        running.worker.stop()
        gate.release(40)
        running.join()


def test_slow_jobs_are_not_fetched_ahead() -> None:
    bench = manual()
    clock: ManualClock = bench.clock
    bench.queue(VisibilityTimeout="1000")
    bench.send(*(str(number) for number in range(10)))

    def two_seconds(message: Message) -> None:
        clock.advance(2)

    handler = Handler(two_seconds)
    worker = bench.worker(bench.source(handler), shutdown_policy=StopAfter(4))
    worker.run()
    assert len(bench.of(MessageReceived)) <= 5
    assert bench.counts()[0] + bench.counts()[1] == 10 - len(handler.bodies)


def test_only_the_attributes_that_are_used_are_asked_for() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    source = bench.source(system_attributes=["SentTimestamp"], message_attributes=["JobName"])
    bench.worker(source, shutdown_policy=StopAfter(1)).run()
    options: ReceiveOptions = next(args[1] for name, args in bench.transport.log if name == "receive")
    assert list(options.system_attributes) == ["ApproximateReceiveCount", "MessageGroupId", "SentTimestamp"]
    assert list(options.message_attributes) == ["JobName"]
    assert options.visibility_timeout is None


def test_a_busy_queue_does_not_starve_another() -> None:
    bench = Bench()
    bench.queue("busy")
    bench.queue("rare")
    bench.send(*(str(number) for number in range(60)), queue="busy")
    turns = threading.Semaphore(0)

    def wait(message: Message) -> None:
        assert turns.acquire(timeout=PATIENCE)

    busy, rare = Handler(wait), Handler()
    sources = [bench.source(busy, name="busy", weight=3), bench.source(rare, name="rare")]
    with bench.running(*sources, concurrency=2) as running:
        bench.wait_for(JobStarted, 2)
        bench.send("x", queue="rare")
        for _ in range(20):
            turns.release()
            with bench.seen:
                if bench.seen.wait_for(lambda: rare.bodies == ["x"], 0.05):
                    break
        assert rare.bodies == ["x"]
        turns.release(100)
        running.worker.stop()
        running.join()


def test_a_failing_queue_does_not_starve_another() -> None:
    bench = Bench()
    bench.queue("good")
    bench.queue("bad")
    bench.send(*"abcdef", queue="good")
    bad_url = bench.urls["bad"]
    calls = iter(range(1000))

    def fail(url: str, options: object) -> Any:
        if url == bad_url and next(calls) > 0:
            raise client_error("InternalError", 500)
        return None

    bench.transport.before["receive"] = fail
    sources = [bench.source(name="bad", wait_seconds=0), bench.source(name="good")]
    with bench.running(*sources, concurrency=2) as running:
        bench.wait_for(JobSucceeded, 6)
        running.worker.stop()
        running.join()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 2, "executor": "inline"}, "threads"),
        ({"executor": "fibers"}, "executor"),
        ({"shutdown_timeout": 0}, "shutdown_timeout"),
        ({"receivers": 0}, "receivers"),
        ({"prefetch": -1}, "prefetch"),
    ],
)
def test_options_that_cannot_work_are_refused_at_the_call(options: dict[str, Any], text: str) -> None:
    bench = Bench()
    with pytest.raises(ConfigurationError, match=text):
        bench.worker(bench.source(), **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"wait_seconds": 21}, "wait_seconds"),
        ({"weight": 0}, "weight"),
        ({"visibility_timeout": 43201}, "visibility_timeout"),
        ({"heartbeat": -1}, "heartbeat"),
        ({"heartbeat": 30, "visibility_timeout": 30}, "too late"),
        ({"batch": BatchSettings(0)}, "batch size"),
    ],
)
def test_a_source_that_cannot_work_is_refused_with_its_name(options: dict[str, Any], text: str) -> None:
    bench = Bench()
    with pytest.raises(ConfigurationError, match=text) as caught:
        bench.worker(bench.source(**options))
    assert "'jobs'" in str(caught.value)


def test_a_heartbeat_that_comes_too_late_for_the_queue_is_an_error_at_the_start() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="10")
    with pytest.raises(WorkerError, match="too late"):
        bench.worker(bench.source(heartbeat=10)).run()


def test_no_queue_and_the_same_queue_twice_are_refused() -> None:
    bench = Bench()
    with pytest.raises(ConfigurationError, match="at least one"):
        bench.worker()
    with pytest.raises(ConfigurationError, match="once"):
        bench.worker(bench.source(), bench.source())
