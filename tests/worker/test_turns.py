"""Several queues of one worker, and when a worker has nothing left to do."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from sqs_workers.hooks import JobSucceeded, WorkerStopped
from sqs_workers.messages import Message
from sqs_workers.worker import slots
from tests.worker.kit import PATIENCE, Bench, Handler, IdleStop, StopAfter, manual


@pytest.mark.parametrize(
    ("concurrency", "weights", "prefetch", "least"),
    [
        (1, (1, 1), None, (40, 40)),
        (1, (1, 1), 0, (30, 30)),
        (1, (3, 1), None, (60, 20)),
        (2, (1, 1, 1), None, (25, 25, 25)),
        (4, (3, 1), None, (60, 20)),
    ],
)
def test_queues_take_turns_by_weight_with_fewer_slots_than_queues_too(
    concurrency: int, weights: tuple[int, ...], prefetch: int | None, least: tuple[int, ...]
) -> None:
    bench = Bench()
    ran: list[int] = []
    never = threading.Event()
    sources = []
    for number, weight in enumerate(weights):
        bench.queue(str(number))
        bench.send(*(str(each) for each in range(150)), queue=str(number))

        def work(message: Message, number: int = number) -> None:
            ran.append(number)
            # As long as a job that does something.
            never.wait(0.002)

        sources.append(bench.source(Handler(work), str(number), weight=weight))
    bench.worker(*sources, concurrency=concurrency, prefetch=prefetch, shutdown_policy=StopAfter(130)).run()
    # Not the first: a queue whose first receive is late has nothing to run.
    counts = Counter(ran[20:120])
    assert all(counts[number] >= count for number, count in enumerate(least)), counts


def test_a_fifo_queue_is_not_idle_when_a_delete_has_opened_its_group_meanwhile() -> None:
    bench = Bench()
    bench.queue("jobs.fifo")
    bench.send(*(str(number) for number in range(15)), queue="jobs.fifo", group="g")
    ten_are_deleted, polled = threading.Event(), threading.Event()
    first = [True]

    def hold_deletes(*args: Any) -> None:
        assert polled.wait(PATIENCE)

    def receive(url: str, options: Any) -> Any:
        if first:
            first.clear()
            return None
        if polled.is_set():
            return None
        # Asked while the group waits for its deletes, answered when they are through.
        assert bench.counts("jobs.fifo") == (5, 10)
        polled.set()
        assert ten_are_deleted.wait(PATIENCE)
        return []

    bench.transport.before["delete_batch"] = hold_deletes
    bench.transport.before["receive"] = receive
    source = bench.source(name="jobs.fifo", wait_seconds=0)
    with bench.running(source, concurrency=10, receivers=1, shutdown_policy=IdleStop()) as running:
        bench.wait_until(lambda: running.worker.stats().sources["jobs.fifo"].settled == 10)
        bench.wait_until(lambda: running.worker.stats().acker_backlog == 0)
        ten_are_deleted.set()
        result = running.join()
    assert result.succeeded == 15
    assert bench.counts("jobs.fifo") == (0, 0)


def test_a_worker_is_not_idle_while_a_receive_beside_the_long_poll_is_under_way() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*(str(number) for number in range(20)))
    beside, seen_through = threading.Event(), threading.Event()
    polls: list[int] = []
    bench.hooks.add(WorkerStopped, lambda event: seen_through.set())

    class Stop(IdleStop):
        def update_state(self, result: Any) -> None:
            super().update_state(result)
            if self.idle:
                seen_through.set()

    def receive(url: str, options: Any) -> Any:
        if not threading.current_thread().name.endswith("-0"):
            if beside.is_set():
                return []
            messages = bench.transport._inner.receive(url, options)
            beside.set()
            assert seen_through.wait(PATIENCE)
            return messages
        polls.append(1)
        if len(polls) == 2:
            assert beside.wait(PATIENCE)
            return []
        if len(polls) == 3:
            seen_through.set()
        return None

    bench.transport.before["receive"] = receive
    source = bench.source(wait_seconds=0)
    with bench.running(source, concurrency=64, prefetch=0, shutdown_policy=Stop()) as running:
        result = running.join()
    assert result.succeeded == 20
    assert result.counts["jobs"].released == 0


def test_prefetch_is_bounded_by_the_size_of_what_slow_receives_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_PREFETCH_BYTES", 2**20)
    bench = manual()
    bench.queue(VisibilityTimeout="1000")
    body = "x" * 100_000
    for _ in range(60):
        bench.send(body)
    # A network so slow says nothing of how much half a second of work is, but all of how large a message is.
    bench.transport.before["receive"] = lambda *args: bench.clock.advance(2.0)
    with bench.running(bench.source(Handler()), concurrency=2) as running:
        bench.wait_for(JobSucceeded, 40)
        engine = running.worker._engine
        assert engine is not None
        assert 0 < engine.slots.prefetch <= 10
