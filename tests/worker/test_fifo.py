"""FIFO queues: groups side by side, within a group one at a time and in order, whatever fails."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.failure_policies import DeadLetter
from sqs_workers.hooks import JobStarted, JobSucceeded, MessageReleased, MessageSettled
from sqs_workers.messages import Message
from sqs_workers.outcome import Failed, Rejected
from sqs_workers.worker import process_once
from sqs_workers.worker.lanes import Lanes
from tests.worker.kit import PATIENCE, Bench, Handler, StopAfter, client_error

QUEUE = "jobs.fifo"


def test_f40_a_failure_holds_up_its_own_group_alone_and_the_group_comes_back_in_order() -> None:
    bench = Bench()
    bench.queue(QUEUE, VisibilityTimeout="1000")
    bench.send("A1", "A2", "A3", queue=QUEUE, group="A")
    bench.send("B1", "B2", queue=QUEUE, group="B")
    failures = iter([True])

    def a1_fails_once(message: Message) -> None:
        if message.body == "A1" and next(failures, False):
            raise ValueError

    handler = Handler(a1_fails_once)
    with bench.running(bench.source(handler, name=QUEUE), concurrency=4) as running:
        bench.wait_for(JobSucceeded, 5)
        running.worker.stop()
        result = running.join()
    assert [body for body in handler.bodies if body[0] == "A"] == ["A1", "A1", "A2", "A3"]
    assert [body for body in handler.bodies if body[0] == "B"] == ["B1", "B2"]
    assert result.counts[QUEUE].released == 2
    assert bench.counts(QUEUE) == (0, 0)


def test_f40_the_rest_of_a_group_waits_for_the_backoff_of_its_first() -> None:
    bench = Bench()
    bench.queue(QUEUE, VisibilityTimeout="1000")
    bench.send("A1", "A2", queue=QUEUE, group="A")
    handler = Handler(lambda message: Failed(ValueError()), backoff=ConstantBackoff(500))
    with bench.running(bench.source(handler, name=QUEUE), concurrency=2) as running:
        bench.wait_for(MessageSettled, 2)
        assert bench.client.receive_message(QueueUrl=bench.urls[QUEUE]).get("Messages", []) == []
        running.worker.stop()
        running.join()
    assert handler.bodies == ["A1"]


def test_groups_run_side_by_side() -> None:
    bench = Bench()
    bench.queue(QUEUE)
    for group in "ABCD":
        bench.send(f"{group}1", queue=QUEUE, group=group)
    together = threading.Barrier(4)

    def meet(message: Message) -> None:
        together.wait(PATIENCE)

    with bench.running(
        bench.source(Handler(meet), name=QUEUE), concurrency=4, shutdown_policy=StopAfter(4)
    ) as running:
        assert running.join().succeeded == 4


def test_a_stop_gives_back_the_rest_of_a_group_and_its_order_holds() -> None:
    bench = Bench()
    bench.queue(QUEUE, VisibilityTimeout="1000")
    bench.send("A1", "A2", "A3", queue=QUEUE, group="A")
    gate = threading.Event()

    def wait(message: Message) -> None:
        assert gate.wait(PATIENCE)

    handler = Handler(wait)
    with bench.running(bench.source(handler, name=QUEUE), concurrency=4) as running:
        bench.wait_for(JobStarted)
        running.worker.stop()
        bench.wait_for(MessageReleased, 2)
        gate.set()
        running.join()
    after = Handler()
    process_once(bench.source(after, name=QUEUE), bench.transport)
    assert handler.bodies == ["A1"]
    assert after.bodies == ["A2", "A3"]


def test_the_next_of_a_group_runs_when_the_dead_letter_copy_is_taken_and_not_before() -> None:
    bench = Bench()
    bench.queue("dead.fifo")
    bench.queue(QUEUE)
    bench.send("A1", "A2", queue=QUEUE, group="A")
    copies: list[int] = []
    handler = Handler(
        lambda message: Rejected(ValueError()) if message.body == "A1" else None,
        failure_policy=DeadLetter("dead.fifo"),
    )

    def copy(url: str, message: Any) -> None:
        copies.append(len(handler.bodies))
        if len(copies) == 1:
            raise client_error("RequestThrottled", 400, "SendMessage")

    bench.transport.before["send"] = copy
    with bench.running(bench.source(handler, name=QUEUE), concurrency=2) as running:
        bench.wait_for(JobSucceeded)
        running.worker.stop()
        running.join()
    assert copies == [1, 1]
    assert handler.bodies == ["A1", "A2"]
    (moved,) = bench.client.receive_message(QueueUrl=bench.urls["dead.fifo"], AttributeNames=["All"])[
        "Messages"
    ]
    assert moved["Attributes"]["MessageGroupId"] == "A"


def test_a_group_on_a_standard_queue_is_not_serialized() -> None:
    bench = Bench()
    bench.queue()
    bench.send("A1", "A2", group="A")
    together = threading.Barrier(2)

    def meet(message: Message) -> None:
        together.wait(PATIENCE)

    with bench.running(bench.source(Handler(meet)), concurrency=2, shutdown_policy=StopAfter(2)) as running:
        assert running.join().succeeded == 2


def test_process_once_stops_a_group_at_its_first_failure() -> None:
    bench = Bench()
    bench.queue(QUEUE)
    bench.send("A1", "A2", queue=QUEUE, group="A")
    bench.send("B1", queue=QUEUE, group="B")
    handler = Handler(lambda message: Failed(ValueError()) if message.body == "A1" else None)
    result = process_once(bench.source(handler, name=QUEUE), bench.transport)
    assert sorted(handler.bodies) == ["A1", "B1"]
    assert (result.succeeded_count(), result.failed_count()) == (1, 1)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_first_successes_come_in_the_order_of_sending_under_random_failures(concurrency: int) -> None:
    bench = Bench()
    bench.queue(QUEUE)
    groups, length = "ABCDEF", 8
    for number in range(length):
        for group in groups:
            bench.send(f"{group}{number}", queue=QUEUE, group=group)
    chance = random.Random(7)
    lock = threading.Lock()
    order: dict[str, list[str]] = defaultdict(list)
    running_now: set[str] = set()

    def fail_at_random(message: Message) -> None:
        group = message.body[0]
        with lock:
            assert group not in running_now
            running_now.add(group)
            fails = chance.random() < 0.2
        with lock:
            running_now.discard(group)
            if fails:
                raise ValueError
            order[group].append(message.body)

    with bench.running(bench.source(Handler(fail_at_random), name=QUEUE), concurrency=concurrency) as running:
        bench.wait_for(JobSucceeded, len(groups) * length)
        running.worker.stop()
        running.join()
    assert order == {group: [f"{group}{number}" for number in range(length)] for group in groups}


class _Item:
    def __init__(self, group: str, number: int) -> None:
        self.message = Message(f"{group}{number}", "r", "", {"MessageGroupId": group})
        self.group, self.number = group, number


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_lanes_keep_order_and_run_one_of_a_group_at_a_time(data: st.DataObject) -> None:
    lanes = Lanes()
    sent: dict[str, int] = defaultdict(int)
    running: dict[str, _Item] = {}
    last: dict[str, int] = {}
    known = 0
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(["receive", "take", "succeed", "fail", "clear"]))
        if step == "receive":
            items = []
            for group in data.draw(st.lists(st.sampled_from("ABC"), max_size=5)):
                items.append(_Item(group, sent[group]))
                sent[group] += 1
            lanes.extend(items)  # type: ignore[arg-type]
            known += len(items)
        elif step == "take":
            item: Any = lanes.take()
            if item is None:
                assert lanes.ready() == 0
                continue
            known -= 1
            assert item.group not in running
            assert item.number > last.get(item.group, -1)
            last[item.group] = item.number
            running[item.group] = item
        elif step == "clear":
            known -= len(lanes.clear())
            assert known == 0
        elif running:
            group = data.draw(st.sampled_from(sorted(running)))
            rest: list[Any] = lanes.finished(running.pop(group), step == "succeed")  # type: ignore[arg-type]
            known -= len(rest)
            assert step == "fail" or not rest
            assert {other.group for other in rest} <= {group}
            assert [other.number for other in rest] == sorted(other.number for other in rest)
        assert len(lanes) == known
