"""Short jobs run in the thread that has received them, which deletes them, too; a slow one holds nobody up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sqs_workers.hooks import JobFailed, MessageSettled
from sqs_workers.messages import Message
from sqs_workers.worker.engine import Engine
from sqs_workers.worker.poller import _wait_for_trailing_receives
from sqs_workers.worker.source import STALLED
from tests.worker.kit import PATIENCE, Bench, Handler, StopAfter


class Jobs:
    """Jobs that note their thread; those named ``slow`` wait, once a receiver has got one of them."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.at_once = 0
        self.most_at_once = 0
        self.in_receiver = threading.Event()
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        name = threading.current_thread().name
        with self._lock:
            self.threads.add(name)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if message.body == "slow" and in_receiver(name) and not self.in_receiver.is_set():
                self.in_receiver.set()
                assert self.go_on.wait(PATIENCE)
        finally:
            with self._lock:
                self.at_once -= 1


def in_receiver(name: str) -> bool:
    return name.startswith("sqs-receive-")


def a_slow_one_in_a_receiver(bench: Bench, jobs: Jobs) -> int:
    """Send until a receiver is in a job that takes long; how many messages that were."""
    sent = 0

    def send() -> bool:
        nonlocal sent
        bench.send(*["short"] * 200, *["slow"] * 20)
        sent += 220
        return jobs.in_receiver.wait(0.2)

    bench.wait_until(send)
    return sent


def test_they_run_and_delete_what_they_have_received() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*["short"] * 1000)
    jobs = Jobs()
    deleters: set[str] = set()
    bench.transport.before["delete_batch"] = lambda *args: deleters.add(threading.current_thread().name)
    worker = bench.worker(bench.source(Handler(jobs)), concurrency=16, shutdown_policy=StopAfter(1000))
    result = worker.run()
    assert result.counts["jobs"].settled == 1000
    assert bench.counts() == (0, 0)
    assert any(map(in_receiver, jobs.threads))
    assert any(map(in_receiver, deleters))
    # The long poll's must look for messages, whatever the jobs do.
    assert "sqs-receive-jobs-0" not in jobs.threads | deleters


@pytest.mark.parametrize("concurrency", [2, 16])
def test_a_slow_job_in_one_of_them_holds_nobody_up(concurrency: int) -> None:
    bench = Bench()
    bench.queue()
    jobs = Jobs()
    with bench.running(bench.source(Handler(jobs)), concurrency=concurrency):
        sent = a_slow_one_in_a_receiver(bench, jobs)
        bench.wait_for(MessageSettled, sent - 1)
        bench.send(*["short"] * 300)
        bench.wait_for(MessageSettled, sent + 299)
        assert bench.counts() == (0, 1)
        assert jobs.at_once == 1
        jobs.go_on.set()
        bench.wait_for(MessageSettled, sent + 300)


def test_a_stop_waits_for_the_job_in_one_of_them() -> None:
    bench = Bench()
    bench.queue()
    jobs = Jobs()
    with bench.running(bench.source(Handler(jobs)), concurrency=16) as running:
        sent = a_slow_one_in_a_receiver(bench, jobs)
        bench.wait_for(MessageSettled, sent - 1)
        running.worker.stop()
        bench.wait_until(lambda: running.worker.stats().state == "stopping")
        jobs.go_on.set()
        result = running.join()
    assert (result.abandoned, result.exit_code) == ((), 0)
    assert result.succeeded == sent
    assert bench.counts() == (0, 0)


def test_a_job_that_does_not_end_is_abandoned_with_its_receiver() -> None:
    bench = Bench()
    bench.queue()
    jobs = Jobs()
    try:
        with bench.running(bench.source(Handler(jobs)), concurrency=16, shutdown_timeout=1.0) as running:
            sent = a_slow_one_in_a_receiver(bench, jobs)
            bench.wait_for(MessageSettled, sent - 1)
            running.worker.stop()
            result = running.join()
        assert result.exit_code == 3
        assert len(result.abandoned) == 2
        assert "a receiver of jobs" in result.abandoned
        # Given back: another worker may have it.
        assert bench.counts() == (1, 0)
    finally:
        jobs.go_on.set()


def test_the_exit_waits_for_receives_and_not_for_a_job_in_a_receiver() -> None:
    bench = Bench()
    bench.queue()
    jobs = Jobs()
    hang, hanging, let_go = threading.Event(), threading.Event(), threading.Event()

    def receive(url: str, options: Any) -> None:
        if hang.is_set() and options.wait_seconds:
            hanging.set()
            assert let_go.wait(PATIENCE)

    bench.transport.before["receive"] = receive
    try:
        source = bench.source(Handler(jobs), wait_seconds=20)
        with bench.running(source, concurrency=16, shutdown_timeout=1.0) as running:
            sent = a_slow_one_in_a_receiver(bench, jobs)
            bench.wait_for(MessageSettled, sent - 1)
            hang.set()
            bench.send("short")
            assert hanging.wait(PATIENCE)
            running.worker.stop()
            assert running.join().exit_code == 3
        at_exit = threading.Thread(target=_wait_for_trailing_receives)
        at_exit.start()
        let_go.set()
        at_exit.join(PATIENCE / 2)
        assert not at_exit.is_alive()
    finally:
        let_go.set()
        jobs.go_on.set()


def test_a_job_that_outlives_its_timeout_there_leaves_its_slot_to_others() -> None:
    bench = Bench()
    bench.queue()
    jobs = Jobs()
    source = bench.source(Handler(jobs, timeout=0.3))
    with bench.running(source, concurrency=2) as running:
        sent = a_slow_one_in_a_receiver(bench, jobs)
        bench.wait_for(JobFailed)
        bench.wait_for(MessageSettled, sent)
        stats = running.worker.stats()
        assert stats.sources["jobs"].timed_out == 1
        bench.wait_until(lambda: running.worker.stats().in_flight == 0)
        bench.send(*["short"] * 100)
        bench.wait_for(MessageSettled, sent + 100)
        jobs.go_on.set()


def test_deletes_that_hang_there_do_not_keep_others_from_working() -> None:
    bench = Bench()
    bench.queue()
    jobs, hanging, let_go = Jobs(), threading.Event(), threading.Event()

    def delete_batch(*args: Any) -> None:
        if in_receiver(threading.current_thread().name) and not hanging.is_set():
            hanging.set()
            assert let_go.wait(PATIENCE)

    bench.transport.before["delete_batch"] = delete_batch
    with bench.running(bench.source(Handler(jobs)), concurrency=16):
        sent = 0

        def send() -> bool:
            nonlocal sent
            bench.send(*["short"] * 200)
            sent += 200
            return hanging.wait(0.2)

        bench.wait_until(send)
        bench.send(*["short"] * 200)
        bench.wait_for(MessageSettled, sent + 190)
        let_go.set()
        bench.wait_for(MessageSettled, sent + 200)


def test_what_has_ended_before_a_slow_job_is_deleted_meanwhile() -> None:
    bench = Bench()
    url = bench.queue()
    bench.send("short", "slow")
    slow, go_on = threading.Event(), threading.Event()

    def job(message: Message) -> None:
        if message.body == "slow":
            slow.set()
            assert go_on.wait(2 * PATIENCE)

    engine = Engine(
        [bench.source(Handler(job))],
        bench.transport,
        concurrency=1,
        inline=False,
        clock=bench.clock,
        hooks=bench.hooks,
    )
    state = engine.sources[0]
    state.url = url
    engine.slots.jobs_took([0.0] * 100)
    # As if a thread watched: else the receiver runs no more than one.
    engine.executors._pool._watched = True

    def receive() -> None:
        messages = engine.transport.receive(url, state.options(10, 0))
        assert engine.admit(state, messages, 0, helper=True)
        assert engine.executors.help()
        engine.acker.help()

    receiver = threading.Thread(target=receive)
    receiver.start()
    assert slow.wait(PATIENCE)
    bench.wait_for(MessageSettled, 1)
    go_on.set()
    receiver.join(PATIENCE)
    bench.wait_for(MessageSettled, 2)
    engine.heartbeat.close()
    engine.acker.close()
    engine.executors.close()
    assert engine.acker.join(PATIENCE)
    assert engine.executors.join(PATIENCE) == []


def test_jobs_are_never_more_at_once_than_slots() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*["short"] * 600)
    jobs = Jobs()
    worker = bench.worker(
        bench.source(Handler(jobs)), concurrency=1, executor="threads", shutdown_policy=StopAfter(600)
    )
    assert worker.run().counts["jobs"].settled == 600
    assert jobs.most_at_once == 1


def test_the_long_poll_goes_on_when_the_receives_beside_it_hang() -> None:
    bench = Bench()
    bench.queue()
    hang, let_go = threading.Event(), threading.Event()
    jobs = Jobs()

    def receive(url: str, options: Any) -> None:
        if hang.is_set() and threading.current_thread().name != "sqs-receive-jobs-0":
            assert let_go.wait(PATIENCE)

    bench.transport.before["receive"] = receive
    try:
        with bench.running(bench.source(Handler(jobs)), concurrency=16):
            bench.send(*["short"] * 400)
            bench.wait_for(MessageSettled, 100)
            hang.set()
            bench.send(*["short"] * 400)
            bench.wait_for(MessageSettled, 800 - 3 * 10)
    finally:
        let_go.set()
    assert STALLED < PATIENCE
