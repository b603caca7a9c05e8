"""Costs and bookkeeping that no answer shows."""

from __future__ import annotations

from collections import deque
from typing import Any

from sqs_workers.memory_sqs.records import Message
from sqs_workers.memory_sqs.timers import Timers
from tests.memory.driver import receive


def message(number: int) -> Message:
    record = Message(str(number), "x", "")
    record.number = number
    return record


def test_heartbeats_do_not_grow_the_heap_and_the_last_one_counts() -> None:
    timers, record = Timers(), message(1)
    for due in range(10, 1_000):
        timers.set(record, due)
    assert len(timers._heap) == 1
    assert list(timers.due(998)) == []
    assert list(timers.due(999)) == [record]
    assert timers.next_due() is None


def test_an_earlier_moment_wins_over_the_one_set_before() -> None:
    timers, record = Timers(), message(1)
    timers.set(record, 30)
    timers.set(record, 5)
    assert timers.next_due() == 5
    assert list(timers.due(5)) == [record]
    timers.set(record, 40)
    assert list(timers.due(30)) == []
    assert list(timers.due(40)) == [record]


def test_cancelled_entries_are_swept_out() -> None:
    timers = Timers()
    kept = message(0)
    timers.set(kept, 100)
    for number in range(1, 5_000):
        record = message(number)
        timers.set(record, 50)
        timers.cancel(record)
    assert len(timers._heap) < 1_100
    assert timers.next_due() == 50 or timers.next_due() == 100
    assert list(timers.due(100)) == [kept]


def test_a_queue_forgets_the_messages_that_were_deleted(session: Any, client: Any, make_queue: Any) -> None:
    for name, group in (("jobs", {}), ("jobs.fifo", {"MessageGroupId": "a"})):
        url = make_queue(name)
        queue = session.backend.queues[name]
        for number in range(2_000):
            client.send_message(QueueUrl=url, MessageBody=str(number), **group)
            (received,) = receive(client, url)
            client.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
        assert len(queue._messages) == 0
        assert len(queue._timers._heap) < 1_100
        assert len(queue._ready) == 0
    assert queue._groups == {}


class _CountingDeque(deque[Message]):
    looks = 0

    def popleft(self) -> Message:
        self.looks += 1
        return super().popleft()


def test_a_receive_of_a_deep_queue_touches_only_what_it_returns(
    session: Any, client: Any, make_queue: Any
) -> None:
    url = make_queue()
    for _ in range(300):
        client.send_message_batch(
            QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(10)]
        )
    queue = session.backend.queues["jobs"]
    queue._ready = ready = _CountingDeque(queue._ready)
    assert len(receive(client, url, 10)) == 10
    assert ready.looks == 10


def test_a_released_message_stands_in_line_once(
    session: Any, client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="x")
    handle = receive(client, url)[0]["ReceiptHandle"]
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    clock.advance(60)
    client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    assert len(session.backend.queues["jobs"]._ready) == 1
