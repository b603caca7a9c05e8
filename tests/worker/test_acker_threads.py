"""The threads of the acker: none of them is the only one that could send what waits, and all of them end."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from sqs_workers.clock import SYSTEM_CLOCK, ManualClock
from sqs_workers.messages import Message
from sqs_workers.outcome import Delete
from sqs_workers.width import LIMIT, Width
from sqs_workers.worker.acker import Acker
from sqs_workers.worker.held import Held
from sqs_workers.worker.source import SourceState
from tests.worker.kit import PATIENCE, Bench


class Desk:
    """An acker whose deletes hang until they are let go, queue by queue."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.let_go: dict[str, threading.Event] = {}
        self.asked = threading.Semaphore(0)
        self.bench.transport.before["delete_batch"] = self._delete
        self.acker = Acker(self.bench.transport, SYSTEM_CLOCK, lambda held, ok: None)
        # A second passes whenever it looks at the clock.
        seconds = itertools.count()
        self.acker.width = Width(wall=lambda: float(next(seconds)))

    def _delete(self, url: str, receipts: list[str]) -> list[Any]:
        self.asked.release()
        # Longer than the test waits for anything.
        assert self.let_go[url].wait(10 * PATIENCE)
        return [None] * len(receipts)

    def queue(self, name: str) -> SourceState:
        self.bench.queue(name)
        state = SourceState(self.bench.source(name=name), SYSTEM_CLOCK)
        state.url = name
        self.let_go[name] = threading.Event()
        return state

    def add(self, state: SourceState, count: int = 1) -> None:
        messages = [Held(Message(str(n), str(n), "", {}, {}), state, 30.0) for n in range(count)]
        self.acker.add_all(messages, Delete(), more=False)

    def close(self) -> None:
        for event in self.let_go.values():
            event.set()
        assert self.acker.flush(time.monotonic() + PATIENCE)
        self.acker.close()
        assert self.acker.join(PATIENCE)


def test_what_comes_while_a_thread_wakes_does_not_wait_for_its_request() -> None:
    desk = Desk()
    hangs, works = desk.queue("hangs"), desk.queue("works")
    desk.let_go["hangs"].set()
    desk.add(hangs)
    desk.bench.wait_until(lambda: desk.acker._waiting == 1 and not desk.acker.backlog)
    desk.let_go["hangs"].clear()
    desk.let_go["works"].set()
    with desk.acker._condition:
        # The one thread is called for the first, and has not woken when the second comes.
        desk.add(hangs)
        desk.add(works)
    desk.bench.wait_until(lambda: desk.acker.backlog == 1)
    desk.close()


def test_the_rest_of_a_batch_does_not_wait_for_the_request_of_the_first_ten() -> None:
    desk = Desk()
    state = desk.queue("jobs")
    desk.add(state, 15)
    for _ in range(2):
        assert desk.asked.acquire(timeout=PATIENCE)
    desk.close()


def test_requests_that_hang_do_not_keep_others_back() -> None:
    desk = Desk()
    state = desk.queue("jobs")

    def another_has_begun() -> bool:
        desk.add(state, 10)
        return desk.asked.acquire(timeout=0.1)

    for _ in range(LIMIT):
        desk.bench.wait_until(another_has_begun)
    desk.close()


def test_all_threads_end_after_the_width_has_shrunk() -> None:
    desk = Desk()
    state = desk.queue("jobs")

    def all_have_begun() -> bool:
        desk.add(state, 10)
        return len(desk.acker._threads) == LIMIT

    desk.bench.wait_until(all_have_begun)
    desk.acker.width = Width(4)
    desk.close()


def test_messages_that_end_in_bunches_fill_their_requests() -> None:
    clock = ManualClock()
    bench = Bench(clock)
    bench.queue()
    bench.transport.before["delete_batch"] = lambda url, receipts: [None] * len(receipts)
    state = SourceState(bench.source(), clock)
    acker = Acker(bench.transport, clock, lambda held, ok: None)

    def nothing_is_due() -> bool:
        now = clock.monotonic()
        waiting = [lane for lane in acker._lanes if lane.entries]
        return acker._waiting > 0 and all(len(lane.entries) < 10 and lane.due > now for lane in waiting)

    for bunch in range(40):
        ended = [Held(Message(f"{bunch}-{n}", f"{bunch}-{n}", "", {}, {}), state, 30.0) for n in range(16)]
        acker.add_all(ended, Delete())
        bench.wait_until(nothing_is_due)
        clock.advance(0.011)
        bench.wait_until(nothing_is_due)
    assert acker.flush(clock.monotonic() + 1)
    acker.close()
    assert acker.join(PATIENCE)
    # The first few go out in parts: it is not known yet when the next ones come.
    assert bench.transport.calls["delete_batch"] <= 40 * 16 / 10 + 8


def test_threads_beyond_the_width_step_in_when_the_others_hang() -> None:
    desk = Desk()
    states = [desk.queue(f"queue-{n}") for n in range(5)]
    for state in states:
        desk.add(state)
        assert desk.asked.acquire(timeout=PATIENCE)
    for state in states:
        desk.let_go[state.name].set()
    desk.bench.wait_until(lambda: desk.acker._waiting == 5)
    desk.acker.width.value = 3
    for state in states[:3]:
        desk.let_go[state.name].clear()
        desk.add(state)
        assert desk.asked.acquire(timeout=PATIENCE)
    desk.add(states[3])
    desk.bench.wait_until(lambda: desk.acker.backlog == 3)
    desk.close()
