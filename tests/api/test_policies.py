"""Shutdown and batching policies, old modules, and the testing helpers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import sqs_workers
from sqs_workers import BatchMessages, BatchProcessingResult, RetryJob, SQSEnv
from sqs_workers.batching import NoBatching
from sqs_workers.clock import ManualClock
from sqs_workers.config import Config
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.shutdown_policies import (
    ASAP_SHUTDOWN,
    AndShutdown,
    IdleShutdown,
    MaxTasksShutdown,
    NeverShutdown,
    OrShutdown,
)
from sqs_workers.testing import NotIdleError, eager, run_until_idle, sent_jobs
from sqs_workers.utils import batcher, bind_arguments, ensure_string, string_to_object, validate_arguments

EMPTY = BatchProcessingResult("q")
FULL = BatchProcessingResult("q", [1, 2], [3])


def test_idle_shutdown_counts_from_the_last_job_on_the_clock_it_was_given() -> None:
    clock, policy = ManualClock(), IdleShutdown(10)
    clock.advance(100)
    policy.use_clock(clock)
    policy.update_state(EMPTY)
    assert not policy.need_shutdown()
    clock.advance(9)
    policy.update_state(FULL)
    clock.advance(9)
    policy.update_state(EMPTY)
    assert not policy.need_shutdown()
    clock.advance(1)
    assert policy.need_shutdown()


def test_combined_policies_pass_clock_and_state_on() -> None:
    clock = ManualClock()
    idle, tasks = IdleShutdown(10), MaxTasksShutdown(3)
    either, both = OrShutdown(idle, tasks), AndShutdown(idle, tasks)
    either.use_clock(clock)
    either.update_state(FULL)
    assert either.need_shutdown()
    assert not both.need_shutdown()
    clock.advance(10)
    idle.update_state(EMPTY)
    assert both.need_shutdown()
    assert not NeverShutdown().need_shutdown()
    assert repr(both) == "AndShutdown(IdleShutdown(10), MaxTasksShutdown(3))"


def test_asap_shutdown_is_shared_without_being_mixed_up() -> None:
    ASAP_SHUTDOWN.update_state(EMPTY)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(ASAP_SHUTDOWN.need_shutdown()))
    thread.start()
    thread.join()
    assert seen == [False]
    assert ASAP_SHUTDOWN.need_shutdown()
    assert not ASAP_SHUTDOWN.need_shutdown()


def test_policies_refuse_what_cannot_work() -> None:
    for make in (lambda: IdleShutdown(-1), lambda: BatchMessages(0), lambda: BatchMessages(5, -1)):
        with pytest.raises(ConfigurationError):
            make()
    assert BatchMessages(5) == BatchMessages(5) != BatchMessages(6)
    assert NoBatching() == NoBatching()


def test_every_public_name_can_be_imported() -> None:
    for name in sqs_workers.__all__:
        assert getattr(sqs_workers, name) is not None
    assert set(sqs_workers.__all__) <= set(dir(sqs_workers))
    with pytest.raises(AttributeError, match="nonsense"):
        sqs_workers.nonsense  # noqa: B018


def test_old_helpers_still_work() -> None:
    def function(a: int, b: int = 2, /, *, c: int = 3) -> None: ...

    assert validate_arguments(function, [1, 2, 9], {"c": 4, "z": 5}) == ((1, 2), {"c": 4})
    assert bind_arguments(function, [1], {"c": 4}) == {"a": 1, "c": 4}
    assert list(batcher(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert (ensure_string(b"a"), ensure_string(1), ensure_string("x")) == ("a", "1", "x")
    assert string_to_object("os.path") is __import__("os").path
    with pytest.raises(RuntimeError):
        string_to_object("nodots")
    parent = Config(
        options={"a": 1, "d": {"maker": "collections.Counter", "x": 2}, "c": "collections.Counter"}
    )
    child = parent.make_child({"b": 2})
    assert (child["a"], child["b"], child.get("x", 9)) == (1, 2, 9)
    assert child.get_instance("d") == {"x": 2}
    assert child.get_instance("c", y=1) == {"y": 1}
    child["a"] = 5
    assert (child["a"], parent["a"]) == (5, 1)
    with pytest.raises(KeyError):
        child["zz"]


# The testing helpers


def test_run_until_idle_runs_what_jobs_send(env: SQSEnv, queue: Any) -> None:
    seen = []

    @queue.processor("count")
    def count(n: int) -> None:
        seen.append(n)
        if n:
            count.delay(n - 1)

    count.delay(3)
    result = run_until_idle(env)
    assert (seen, result.succeeded, result.failed) == ([3, 2, 1, 0], 4, 0)


def test_run_until_idle_moves_the_clock_through_delays_and_backoffs(
    env: SQSEnv, queue: Any, clock: ManualClock
) -> None:
    attempts: list[float] = []

    @queue.processor("job")
    def job() -> None:
        attempts.append(clock.monotonic())
        if len(attempts) < 3:
            raise RetryJob(60)

    job.delay(_delay_seconds=10)
    assert run_until_idle(env).total == 0
    result = run_until_idle(env, advance=True)
    assert (attempts, result.succeeded, result.failed) == ([10, 70, 130], 1, 2)


def test_run_until_idle_gives_up_on_a_job_that_never_ends(env: SQSEnv, queue: Any) -> None:
    @queue.processor("again")
    def again() -> None:
        again.delay()

    again.delay()
    with pytest.raises(NotIdleError, match="emails"):
        run_until_idle(env, max_jobs=20)


def test_sent_jobs_shows_what_waits_and_takes_nothing(env: SQSEnv, queue: Any) -> None:
    with env.context(user=1):
        queue.add_job("send", to="a", _delay_seconds=5)
    queue.add_job("other")
    for _ in range(2):
        (job,) = sent_jobs(queue, "send")
    assert (job.name, job.kwargs, job.context, job.delay) == ("send", {"to": "a"}, {"user": 1}, 5)
    assert [job.name for job in sent_jobs(queue)] == ["send", "other"]


def test_eager_runs_jobs_where_they_are_sent(env: SQSEnv, queue: Any) -> None:
    seen: list[Any] = []

    @queue.processor("send")
    def send(to: Any) -> None:
        seen.append(to)

    @queue.processor("fail")
    def fail() -> None:
        raise ValueError("mine")

    @queue.processor("later")
    async def later() -> None:
        seen.append("later")

    @queue.processor("never")
    def never() -> None:
        raise RetryJob

    with eager(env):
        assert send.delay((1, 2))
        later.delay()
        with send.batch():
            send.delay("b")
        with pytest.raises(ValueError, match="mine"):
            fail.delay()
        with pytest.raises(RuntimeError, match="retry"):
            never.delay()
    assert seen == [[1, 2], "later", "b"]
    assert sent_jobs(queue) == []
    send.delay("queued")
    assert len(sent_jobs(queue)) == 1


def test_helpers_that_look_into_memory_refuse_other_sessions() -> None:
    with pytest.raises(ConfigurationError, match="MemorySession"):
        sent_jobs(SQSEnv(object(), codec="json").queue("q"))
