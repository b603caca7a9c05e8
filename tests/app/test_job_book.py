"""How jobs do, as their workers' events tell it."""

from __future__ import annotations

import threading
import time

from sqs_workers.app.job_book import JobBook, JobState
from sqs_workers.clock import ManualClock
from sqs_workers.hooks import HookRegistry, JobFailed, JobRetried, JobStarted, JobSucceeded, MessageReleased


class Life:
    """Events of one queue."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.hooks = HookRegistry()
        self.book = JobBook(self.hooks, clock=self.clock)

    def start(self, message: str, job: str = "j") -> None:
        self.hooks.emit(JobStarted(queue_name="q", message_id=message, job_name=job, waited=0.0))

    def succeed(self, message: str, took: float = 0.1, job: str = "j") -> None:
        self.hooks.emit(JobSucceeded(queue_name="q", message_id=message, job_name=job, duration=took))

    def fail(self, message: str, error: Exception, job: str = "j") -> None:
        self.hooks.emit(
            JobFailed(
                queue_name="q", message_id=message, job_name=job, duration=0.1, error=error, permanent=False
            )
        )

    def only(self) -> JobState:
        (state,) = self.book.states()
        return state


def test_each_job_is_counted_by_its_name() -> None:
    life = Life()
    for message, job in (("1", "a"), ("2", "a"), ("3", "b"), ("4", "b")):
        life.start(message, job)
    life.succeed("1", job="a")
    life.fail("3", KeyError("secret"), job="b")
    a, b = life.book.states()
    assert (a.job_name, a.running, a.done, a.failed, a.last_error) == ("a", 1, 1, 0, "")
    assert (b.job_name, b.running, b.done, b.failed, b.last_error) == ("b", 1, 0, 1, "KeyError")
    assert "secret" not in repr(b)


def test_a_retry_that_was_asked_for_and_a_release_end_a_run_without_a_failure() -> None:
    life = Life()
    life.start("1")
    life.start("2")
    life.hooks.emit(JobRetried(queue_name="q", message_id="1", job_name="j", delay=1, requested=True))
    life.hooks.emit(MessageReleased(queue_name="q", message_id="2", job_name="j", reason="stopping"))
    assert (life.only().running, life.only().failed) == (0, 0)


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    life = Life()
    life.book.states()
    life.start("0")
    for second in range(40):
        for number in range(5 if second < 20 else 1):
            life.succeed(f"{second}-{number}")
        life.clock.advance(1)
        state = life.only()
        if second == 19:
            assert round(state.per_second, 2) == 5.0
    assert round(state.per_second, 2) == 1.0
    assert state.done == 120


def test_of_many_durations_quantiles_are_told() -> None:
    life = Life()
    for number in range(1000):
        life.succeed(str(number), took=number / 1000)
    told = life.only().durations
    assert len(told) == 50
    assert list(told) == sorted(told)
    # Of the last 500 alone.
    assert 0.5 <= told[0] < 0.51
    assert 0.74 < told[25] < 0.77


def test_names_that_messages_make_up_do_not_fill_the_memory() -> None:
    life = Life()
    for number in range(2000):
        life.start(str(number), job=f"made-up-{number}")
        life.succeed(str(number), job=f"made-up-{number}")
    states = life.book.states()
    assert len(states) == 501
    others = next(state for state in states if state.job_name == "(others)")
    assert (others.done, others.running) == (1500, 0)


def test_threads_lose_no_count() -> None:
    life = Life()

    def work(name: str) -> None:
        for number in range(300):
            life.start(f"{name}{number}")
            life.succeed(f"{name}{number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert (life.only().done, life.only().running) == (1200, 0)
