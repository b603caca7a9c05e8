"""Policies and hooks that raise, block or answer with rubbish: their own message pays for it, and no other."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.exceptions import PermanentError
from sqs_workers.hooks import (
    Event,
    JobStarted,
    JobSucceeded,
    MessageReceived,
    MessageReleased,
    MessageSettled,
)
from sqs_workers.messages import Message
from sqs_workers.outcome import ChangeVisibility, Failed, Outcome, Rejected
from tests.worker.kit import PATIENCE, Bench, Handler, IdleStop, manual


class Answers:
    """A failure policy that answers ``answer``, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def settle(self, failure: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class BackoffOf(Answers):
    def get_visibility_timeout(self, message: Any) -> Any:
        return self.settle(None)


def reject_the_first(message: Message) -> Outcome | None:
    return Rejected(PermanentError("no")) if message.body == "a1" else None


@pytest.mark.parametrize(
    "answer",
    [None, True, "delete", 7, ChangeVisibility("soon"), ChangeVisibility(math.nan), RuntimeError("broken")],  # type: ignore[arg-type]
    ids=repr,
)
def test_a_failure_policy_with_a_wrong_answer_does_not_stop_its_group_for_good(answer: Any) -> None:
    bench = manual()
    bench.queue("jobs.fifo", VisibilityTimeout="30")
    bench.send("a1", "a2", queue="jobs.fifo", group="a")
    bench.send("b1", queue="jobs.fifo", group="b")
    handler = Handler(reject_the_first, failure_policy=Answers(answer))
    with bench.running(bench.source(handler, "jobs.fifo"), prefetch=9) as running:
        bench.wait_for(MessageReleased, 1)
        bench.wait_for(MessageSettled, 3)
        running.worker.stop()
        running.join()
    assert handler.bodies == ["a1", "b1"]
    # Left to its visibility timeout, and so is its group: nothing is held any more.
    bench.clock.advance(31)
    again = Handler()
    with bench.running(bench.source(again, "jobs.fifo")):
        bench.wait_for(JobSucceeded, 3)
    assert again.bodies == ["a1", "a2"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-5, 0), (1.4, 1), (10**9, 43_199), (math.inf, 43_199), (True, 1)]
)
def test_a_delay_out_of_range_is_taken_as_the_nearest_that_sqs_knows(seconds: Any, expected: int) -> None:
    bench = manual()
    bench.queue()
    bench.send("a")
    handler = Handler(
        lambda message: Rejected(PermanentError("no")),
        failure_policy=Answers(ChangeVisibility(seconds)),
    )
    with bench.running(bench.source(handler), concurrency=2) as running:
        bench.wait_for(MessageSettled, 1)
        running.worker.stop()
        running.join()
    changes = [args[1] for name, args in bench.transport.log if name == "change_visibility_batch"]
    assert next(seconds for entries in changes for _, seconds in entries) == expected


@pytest.mark.parametrize(
    "answer", [None, "soon", math.nan, 10**400, SystemExit(3)], ids=lambda a: f"{a!r:.20}"
)
def test_a_backoff_policy_with_a_wrong_answer_leaves_its_message_and_frees_the_slot(answer: Any) -> None:
    bench = manual()
    bench.queue(VisibilityTimeout="30")
    bench.send("a", "b", "c")
    handler = Handler(
        lambda message: Failed(ValueError("no")) if message.body == "a" else None,
        backoff=BackoffOf(answer),
    )
    with bench.running(bench.source(handler), concurrency=2, prefetch=0) as running:
        if isinstance(answer, SystemExit):
            with pytest.raises(SystemExit):
                running.join()
            return
        bench.wait_for(MessageSettled, 3)
        running.worker.stop()
        result = running.join()
    assert result.abandoned == ()


@pytest.mark.parametrize("event", [JobStarted, JobSucceeded, MessageSettled])
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_a_hook_that_raises_system_exit_costs_no_message(event: type[Event], executor: Any) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*"abcdef")

    def hook(event: Event) -> None:
        raise SystemExit(9)

    bench.hooks.add(event, hook)
    handler = Handler()
    result = bench.worker(
        bench.source(handler, wait_seconds=0), executor=executor, shutdown_policy=IdleStop()
    ).run()
    assert sorted(handler.bodies) == list("abcdef")
    assert (result.abandoned, bench.counts()) == ((), (0, 0))


@pytest.mark.parametrize("event", [MessageReceived, JobStarted, JobSucceeded, MessageSettled])
def test_a_hook_that_raises_keyboard_interrupt_in_a_thread_costs_no_message(event: type[Event]) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*"abcdef")
    once = iter([KeyboardInterrupt])

    def hook(event: Event) -> None:
        for error in once:
            raise error

    bench.hooks.add(event, hook)
    handler = Handler()
    source = bench.source(handler, wait_seconds=0)
    result = bench.worker(source, executor="threads", shutdown_policy=IdleStop(), shutdown_timeout=5.0).run()
    assert sorted(handler.bodies) == list("abcdef")
    assert (result.abandoned, bench.counts()) == ((), (0, 0))


def test_a_hook_that_blocks_at_a_release_does_not_hold_up_a_stop_beyond_its_deadline() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*"abc")
    inside, go_on = threading.Event(), threading.Event()
    started = threading.Event()

    def hook(event: MessageReleased) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)

    def job(message: Message) -> None:
        started.set()
        assert inside.wait(PATIENCE)

    bench.hooks.add(MessageReleased, hook)
    try:
        with bench.running(
            bench.source(Handler(job), wait_seconds=0), executor="threads", prefetch=5, shutdown_timeout=1.0
        ) as running:
            assert started.wait(PATIENCE)
            bench.wait_for_buffered(running, 2)
            running.worker.stop()
            assert inside.wait(PATIENCE)
            assert running.worker.stats().state == "stopping"
            result = running.join()
        assert result.duration < PATIENCE / 2
        assert bench.counts()[1] == 0
    finally:
        go_on.set()


def test_a_policy_of_the_queue_that_exits_ends_the_worker_in_order() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")

    class Policy:
        def update_state(self, result: Any) -> None:
            raise SystemExit(5)

        def need_shutdown(self) -> bool:
            return False

    with pytest.raises(SystemExit):
        bench.worker(
            bench.source(Handler(backoff=ConstantBackoff(0))), executor="threads", shutdown_policy=Policy()
        ).run()
    assert bench.counts() == (0, 0)


def test_a_shutdown_policy_that_cannot_be_printed_is_logged_and_the_worker_goes_on() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")

    class Policy(IdleStop):
        def __repr__(self) -> str:
            raise RuntimeError("no name")

    with bench.running(bench.source(), shutdown_policy=Policy()) as running:
        bench.wait_for(MessageSettled)
        running.worker.stop()
        assert running.join().succeeded == 1
