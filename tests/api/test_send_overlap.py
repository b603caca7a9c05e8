"""The calls of a batch overlap as far as that helps."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from sqs_workers.width import Places, Width

PATIENCE = 10.0


class Costs:
    """Calls of a length and a cost that the test decides."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def places(self, **options: Any) -> Places:
        settings = {"start": 8, "least": 1, "limit": 8, "spare": 1.0, **options}
        return Places(Width(wall=lambda: self.now, cpu=lambda: self.used, **settings))

    def make(self, places: Places, seconds: float, cost: float, calls: int = 100) -> None:
        for _ in range(calls):
            self.used += cost
            places.answered(seconds)


@pytest.mark.parametrize(
    ("seconds", "cost", "at_once"),
    [(0.002, 0.0021, 1), (0.012, 0.002, 6), (0.1, 0.001, 8), (0.001, 0.0006, 2)],
)
def test_as_many_as_keep_a_processor_busy(seconds: float, cost: float, at_once: int) -> None:
    costs = Costs()
    places = costs.places()
    costs.make(places, seconds, cost)
    assert places.overlap is (at_once > 1)
    for _ in range(at_once):
        places.take()
    taken = threading.Event()
    waiting = threading.Thread(target=lambda: (places.take(), taken.set()), daemon=True)
    waiting.start()
    assert not taken.wait(0.1)
    places.give_back()
    assert taken.wait(PATIENCE)


def test_calls_that_hang_are_followed_by_others() -> None:
    costs = Costs()
    places = costs.places(start=1)
    places.take()
    seconds = iter(range(1, 1000))

    def taken_all() -> None:
        for _ in range(7):
            places.take()

    # A second passes whenever it looks at the clock.
    places._width._wall = lambda: float(next(seconds))
    thread = threading.Thread(target=taken_all, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_waits_for_no_call_of_its_parent(sqs_env: Any) -> None:
    queue = sqs_env.queue("jobs")
    places = queue.sender.places
    for _ in range(8):
        places.take()
    child = os.fork()
    if child == 0:
        fresh = queue.sender.places
        fresh.take()
        os._exit(0 if fresh is not places else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert queue.sender.places is places
