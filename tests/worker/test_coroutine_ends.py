"""Coroutines that end in one turn of the event loop: each is settled once, and all of them together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sqs_workers.hooks import JobFailed, JobSucceeded
from sqs_workers.messages import Message
from sqs_workers.worker import PauseOn
from sqs_workers.worker.engine import Engine
from sqs_workers.worker.loop import LoopThread
from tests.worker.kit import PATIENCE, AsyncHandler, Bench, StopAfter


class Meeting:
    """Jobs that wait for one another and end in the same turn."""

    def __init__(self, guests: int) -> None:
        self._guests = guests
        self._waiting: list[asyncio.Future[None]] = []

    async def attend(self, message: Message) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        if len(self._waiting) == self._guests:
            for other in self._waiting:
                other.set_result(None)
        await mine


@pytest.mark.parametrize("policies", [{}, {"timeout": 30}])
@pytest.mark.parametrize("circuit", [None, PauseOn((ConnectionError,))])
def test_they_are_settled_together(
    policies: dict[str, Any], circuit: PauseOn | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[int] = []
    succeeded = Engine.succeeded

    def counted(engine: Engine, ended: Sequence[Any], *, wake: bool) -> None:
        together.append(len(ended))
        succeeded(engine, ended, wake=wake)

    monkeypatch.setattr(Engine, "succeeded", counted)
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefgh")
    source = bench.source(AsyncHandler(Meeting(8).attend, **policies), circuit=circuit)
    result = bench.worker(source, concurrency=8, shutdown_policy=StopAfter(8)).run()
    assert (result.succeeded, result.failed) == (8, 0)
    assert together == [8]
    assert bench.counts() == (0, 0)
    assert bench.transport.calls["delete_batch"] == 1


def test_one_that_fails_among_them_fails_alone() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="600")
    bench.send(*"abcdef")
    meeting = Meeting(6)

    async def attend(message: Message) -> None:
        await meeting.attend(message)
        if message.body == "c":
            raise ValueError("c")

    handler = AsyncHandler(attend, backoff=lambda count: 600.0)
    with bench.running(bench.source(handler), concurrency=6) as running:
        bench.wait_for(JobSucceeded, 5)
        bench.wait_for(JobFailed, 1)
        running.worker.stop()
        result = running.join()
    assert (result.succeeded, result.failed) == (5, 1)
    assert bench.counts() == (0, 1)


def test_those_of_a_fifo_queue_end_in_their_order() -> None:
    bench = Bench()
    bench.queue("jobs.fifo")
    bench.send(*"abcdefgh", queue="jobs.fifo", group="g")
    seen: list[str] = []

    async def note(message: Message) -> None:
        await asyncio.sleep(0)
        seen.append(message.body)

    source = bench.source(AsyncHandler(note), name="jobs.fifo")
    result = bench.worker(source, concurrency=4, shutdown_policy=StopAfter(8)).run()
    assert result.succeeded == 8
    assert seen == list("abcdefgh")


def test_their_success_brings_a_paused_queue_back_to_its_full_width() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="600")
    bench.send(*(str(number) for number in range(40)))
    calls: list[str] = []

    async def use(message: Message) -> None:
        calls.append(message.body)
        if len(calls) <= 2:
            raise ConnectionError

    circuit = PauseOn((ConnectionError,), failures=2, min_pause=0.05)
    source = bench.source(AsyncHandler(use), circuit=circuit)
    with bench.running(source, concurrency=2) as running:
        # Growing by doubling from 1, a circuit that hears of no success would work on one by one for ever.
        bench.wait_for(JobSucceeded, 40)
        state = running.worker._engine.sources[0]  # type: ignore[union-attr]
        assert state.circuit is not None
        assert (state.circuit.paused, state.circuit.limit) == (False, None)


def test_a_loop_runs_all_that_came_before_it_woke_and_what_comes_after() -> None:
    loop = LoopThread()
    ran: list[int] = []
    done = threading.Event()

    def job(number: int) -> Callable[[], Any]:
        async def run() -> None:
            ran.append(number)
            if number == 49:
                done.set()

        return run

    for number in range(50):
        loop.submit(job(number))
    assert done.wait(PATIENCE)
    assert ran == list(range(50))
    loop.close()
    assert loop.join(PATIENCE)
