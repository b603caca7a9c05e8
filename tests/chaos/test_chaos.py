"""Workers that are killed, stopped, frozen and lied to: nothing is lost, and little is run twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from pathlib import Path

import pytest

from sqs_workers import create_fifo_queue, create_standard_queue
from sqs_workers.transport import Mode
from tests.chaos.bench import Bench, children_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VISIBILITY = 5


def send(bench: Bench, groups: dict[str, int]) -> None:
    with bench.queue.add_batch():
        for number in range(max(groups.values())):
            for group, size in groups.items():
                if number < size:
                    bench.queue.add_job("work", _group_id=group, group=group, number=number)


def every(groups: dict[str, int]) -> set[tuple[str, int]]:
    return {(group, number) for group, size in groups.items() for number in range(size)}


def test_with_kills_freezes_and_a_faulty_endpoint_every_job_is_done_and_few_run_twice(
    endpoint: str, tmp_path: Path, transport: Mode
) -> None:
    groups = {"one": 5000}
    bench = Bench(endpoint, tmp_path, "chaos", transport, processes=2, concurrency=8)
    create_standard_queue(bench.env, "chaos", visibility_timeout=VISIBILITY)
    send(bench, groups)
    chance = random.Random(11)
    in_flight_at_kills = 0
    pause = threading.Event()

    with bench.closing():
        bench.faults("*:throttle:0.05", "*:reset:0.02", "*:lost:0.01")
        workers = [bench.start_worker(), bench.start_worker()]
        for _ in range(12):
            started = len(bench.noted("start"))
            bench.wait_until(
                lambda started=started: len(bench.noted("start")) > started + 50 or len(bench.done()) == 5000,  # type: ignore[misc]
                60,
                "the workers go on",
            )
            victim = chance.randrange(2)
            match chance.choice(["kill parent", "kill child", "term", "freeze"]):
                case "kill parent":
                    in_flight_at_kills += bench.counts()[1]
                    bench.stop(workers[victim], signal.SIGKILL)
                    workers[victim] = bench.start_worker()
                case "kill child":
                    in_flight_at_kills += bench.counts()[1]
                    for child in children_of(workers[victim].pid)[:1]:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(child, signal.SIGKILL)
                case "term":
                    assert bench.stop(workers[victim], signal.SIGTERM) == 0
                    workers[victim] = bench.start_worker()
                case "freeze":
                    frozen = children_of(workers[victim].pid)
                    for child in frozen:
                        os.kill(child, signal.SIGSTOP)
                    pause.wait(1)
                    for child in frozen:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(child, signal.SIGCONT)
        bench.wait_until(lambda: bench.done() == every(groups), 120, "every job is done")
        bench.faults()
        bench.wait_until(lambda: bench.counts() == (0, 0), 60, "the queue is empty")
        assert [bench.stop(worker, signal.SIGTERM) for worker in workers] == [0, 0]

    assert bench.done() == every(groups)
    again = sum(bench.runs().values()) - len(bench.runs())
    assert again <= in_flight_at_kills, (
        f"{again} jobs ran again, {in_flight_at_kills} were in flight at a kill"
    )


def test_with_sigterm_alone_no_job_runs_twice_and_none_is_left_hidden(
    endpoint: str, tmp_path: Path, transport: Mode
) -> None:
    groups = {"one": 2000}
    bench = Bench(endpoint, tmp_path, "deploys", transport, processes=2, concurrency=8)
    create_standard_queue(bench.env, "deploys", visibility_timeout=600)
    send(bench, groups)

    with bench.closing():
        for _ in range(4):
            worker = bench.start_worker()
            started = len(bench.noted("start"))
            bench.wait_until(
                lambda started=started: len(bench.noted("start")) > started + 100,  # type: ignore[misc]
                60,
                "the worker works",
            )
            assert bench.stop(worker, signal.SIGTERM) == 0
            visible, hidden = bench.counts()
            assert hidden == 0, "a stopped worker hides nothing"
            assert visible + len(bench.done()) == 2000
        worker = bench.start_worker()
        bench.wait_until(lambda: bench.counts() == (0, 0), 120, "the queue is empty")
        assert bench.stop(worker, signal.SIGTERM) == 0

    assert bench.done() == every(groups)
    assert set(bench.runs().values()) == {1}


def test_in_every_group_the_first_successes_keep_the_order_of_sending(
    endpoint: str, tmp_path: Path, transport: Mode
) -> None:
    groups = {f"g{number}": 50 for number in range(20)}
    bench = Bench(endpoint, tmp_path, "ordered.fifo", transport, concurrency=8, failures=0.05)
    create_fifo_queue(
        bench.env, "ordered.fifo", content_based_deduplication=True, visibility_timeout=VISIBILITY
    )
    send(bench, groups)

    with bench.closing():
        workers = [bench.start_worker(), bench.start_worker()]
        for victim in (0, 1, 0):
            started = len(bench.noted("start"))
            bench.wait_until(
                lambda started=started: len(bench.noted("start")) > started + 100,  # type: ignore[misc]
                60,
                "the workers go on",
            )
            bench.stop(workers[victim], signal.SIGKILL)
            workers[victim] = bench.start_worker()
        bench.wait_until(lambda: bench.done() == every(groups), 200, "every job is done")

    first_successes: dict[str, list[int]] = {group: [] for group in groups}
    for group, number in bench.noted("done"):
        if number not in first_successes[group]:
            first_successes[group].append(number)
    assert first_successes == {group: list(range(50)) for group in groups}
