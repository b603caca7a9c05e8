"""How many receives are under way at once: as many as bring something, and no more than help."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sqs_workers.hooks import MessageSettled
from sqs_workers.transport import Boto3Transport, connections_of
from sqs_workers.transport.queue_object import QueueObjectTransport
from sqs_workers.width import LIMIT, Width
from tests.worker.kit import Bench, Handler


class Requests:
    """Requests of a length and a cost that the test decides, and the clocks that they move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0

    def width(self, fixed: int | None = None) -> Width:
        return Width(fixed, wall=lambda: self.now, cpu=lambda: self.used)

    def make(self, width: Width, seconds: float, cost: float, count: int = 200) -> int:
        """Each takes ``seconds`` and ``cost`` seconds of the processor."""
        for _ in range(count):
            self.now += cost
            self.used += cost
            width.answered(seconds)
        return width.value


@pytest.mark.parametrize(
    ("seconds", "cost", "value"),
    [(0.024, 0.0040, 13), (0.012, 0.0030, 9), (0.002, 0.0030, 3), (0.1, 0.001, LIMIT), (0.0, 0.0, 3)],
)
def test_the_width_is_what_keeps_a_processor_busy(seconds: float, cost: float, value: int) -> None:
    requests = Requests()
    width = requests.width()
    assert width.value == 3
    assert requests.make(width, seconds, cost) == value


def test_it_follows_the_network() -> None:
    requests = Requests()
    width = requests.width()
    assert requests.make(width, 0.1, 0.001) == LIMIT
    assert requests.make(width, 0.004, 0.001) == 9
    assert requests.make(width, 0.1, 0.001) == LIMIT


def test_requests_that_wait_for_the_processor_are_no_reason_for_more() -> None:
    requests = Requests()
    width = requests.width()
    for _ in range(50):
        # One of ten is quick; the others found the processor taken.
        requests.make(width, 0.003, 0.003, count=1)
        requests.make(width, 0.1, 0.003, count=9)
    assert width.value <= 4


def test_requests_that_hang_are_followed_by_others() -> None:
    requests = Requests()
    width = requests.width()
    requests.make(width, 0.003, 0.003)
    assert width.value == 3
    requests.now += 0.2
    width.wanted()
    assert width.value == 3
    for more in range(4, 20):
        requests.now += 0.3
        width.wanted()
        width.wanted()
        assert width.value == min(more, LIMIT)


def test_a_fixed_width_stays() -> None:
    requests = Requests()
    width = requests.width(7)
    width.share(10)
    requests.now += 10
    width.wanted()
    assert requests.make(width, 0.1, 0.001) == 7


@pytest.mark.parametrize(("connections", "limit"), [(None, LIMIT), (64, LIMIT), (10, 4), (1, 3)])
def test_a_client_with_few_connections_is_not_taken_up(connections: int | None, limit: int) -> None:
    requests = Requests()
    width = requests.width()
    width.share(connections)
    assert requests.make(width, 0.1, 0.001) == limit


def test_a_transport_says_how_many_connections_it_keeps() -> None:
    class Meta:
        class config:
            max_pool_connections = 10

    class Client:
        meta = Meta

    through_boto3 = Boto3Transport(lambda: Client)
    assert connections_of(through_boto3) == 10
    over = QueueObjectTransport(through_boto3, "https://queue", lambda: None, monotonic=time.monotonic)
    assert connections_of(over) == 10
    assert connections_of(object()) is None


@contextmanager
def counted_receives(bench: Bench, seconds: float) -> Iterator[list[int]]:
    """The number of receives under way at each receive, while each takes ``seconds``."""
    lock, never = threading.Lock(), threading.Event()
    under_way: list[int] = [0]
    seen: list[int] = []

    def receive(*args: Any) -> None:
        with lock:
            under_way[0] += 1
            seen.append(under_way[0])
        # What the network takes.
        never.wait(seconds)
        with lock:
            under_way[0] -= 1

    bench.transport.before["receive"] = receive
    yield seen


@pytest.mark.parametrize(("connections", "at_least", "at_most"), [(None, 5, LIMIT), (10, 3, 4)])
def test_receives_overlap_as_far_as_the_transport_allows(
    connections: int | None, at_least: int, at_most: int
) -> None:
    bench = Bench()
    bench.queue()
    for number in range(0, 1500, 10):
        bench.send(*(str(each) for each in range(number, number + 10)))
    bench.transport.connections = connections  # type: ignore[attr-defined]
    with (
        counted_receives(bench, 0.01) as seen,
        bench.running(bench.source(Handler()), concurrency=64),
    ):
        bench.wait_for(MessageSettled, 1500)
    assert at_least <= max(seen) <= at_most


def test_an_answer_with_little_ends_the_receives_beside_the_long_poll() -> None:
    bench = Bench()
    bench.queue()
    with bench.running(bench.source(Handler()), concurrency=64) as running:
        bench.send(*(str(number) for number in range(300)))
        bench.wait_for(MessageSettled, 300)
        bench.send("alone")
        bench.wait_for(MessageSettled, 301)
        engine = running.worker._engine
        assert engine is not None
        state = engine.sources[0]
        with engine.lock:
            assert not engine.room_beside(state)
        before = bench.transport.calls["receive"]
        for number in range(5):
            bench.send(f"again {number}")
            bench.wait_for(MessageSettled, 302 + number)
        # One receive brought each, and one waits.
        assert bench.transport.calls["receive"] - before <= 6
