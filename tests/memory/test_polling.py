from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sqs_workers.clock import ManualClock, SteppableClock
from sqs_workers.memory_sqs import MemorySession
from tests.memory.driver import bodies, receive, redrive


@pytest.fixture
def pool(clock: ManualClock) -> Any:
    with ThreadPoolExecutor(4) as executor:
        yield executor
        # Ends the polls that a failed test left waiting: none lasts longer than 20 seconds.
        clock.advance(20)


def test_a_long_poll_wakes_when_a_message_arrives(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue(ReceiveMessageWaitTimeSeconds="20")
    poll = pool.submit(receive, client, url)
    clock.wait_for_waiters(1)
    client.send_message(QueueUrl=url, MessageBody="one")
    assert bodies(poll.result(10)) == ["one"]


def test_a_long_poll_ends_without_messages_when_its_time_is_over(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue()
    poll = pool.submit(receive, client, url, WaitTimeSeconds=5)
    clock.wait_for_waiters(1)
    clock.advance(4.5)
    clock.wait_for_waiters(1)
    assert not poll.done()
    clock.advance(0.5)
    assert poll.result(10) == []


def test_a_long_poll_wakes_when_time_makes_a_message_visible(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=3)
    poll = pool.submit(receive, client, url, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    clock.advance(3)
    assert bodies(poll.result(10)) == ["delayed"]
    poll = pool.submit(receive, client, url, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    clock.advance(19)
    clock.wait_for_waiters(1)
    clock.advance(1)
    assert poll.result(10) == []


def test_a_long_poll_wakes_when_a_message_is_released_or_its_timeout_shortened(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    for timeout in (0, 2):
        (message,) = receive(client, url)
        poll = pool.submit(receive, client, url, WaitTimeSeconds=20, VisibilityTimeout=0)
        clock.wait_for_waiters(1)
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=timeout
        )
        clock.advance(timeout)
        assert bodies(poll.result(10)) == ["one"]


def test_a_long_poll_wakes_when_a_delete_unblocks_a_group(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue("jobs.fifo")
    for text in ("a1", "a2"):
        client.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="a")
    (message,) = receive(client, url, 1)
    poll = pool.submit(receive, client, url, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert bodies(poll.result(10)) == ["a2"]


def test_a_long_poll_of_a_dead_letter_queue_wakes_when_a_message_is_moved_there(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="bad")
    receive(client, url, VisibilityTimeout=0)
    poll = pool.submit(receive, client, dead, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    assert receive(client, url) == []
    assert bodies(poll.result(10)) == ["bad"]


def test_a_long_poll_sees_a_move_task_make_progress(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="bad")
    receive(client, url, VisibilityTimeout=0)
    assert receive(client, url) == []
    poll = pool.submit(receive, client, url, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    source = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client.start_message_move_task(SourceArn=source, MaxNumberOfMessagesPerSecond=1)
    clock.wait_for_waiters(1)
    clock.advance(1)
    assert bodies(poll.result(10)) == ["bad"]


def test_a_long_poll_ends_with_an_error_when_its_queue_is_deleted(
    client: Any, clock: Any, make_queue: Any, pool: Any
) -> None:
    url = make_queue()
    poll = pool.submit(receive, client, url, WaitTimeSeconds=20)
    clock.wait_for_waiters(1)
    client.delete_queue(QueueUrl=url)
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        poll.result(10)


def test_one_message_ends_one_of_two_long_polls(client: Any, clock: Any, make_queue: Any, pool: Any) -> None:
    url = make_queue()
    polls = [pool.submit(receive, client, url, WaitTimeSeconds=20) for _ in range(2)]
    clock.wait_for_waiters(2)
    client.send_message(QueueUrl=url, MessageBody="one")
    clock.wait_for_waiters(1)
    clock.advance(20)
    assert sorted(len(poll.result(10)) for poll in polls) == [0, 1]


def test_a_single_thread_can_skip_its_own_waiting() -> None:
    clock = ManualClock(auto_advance=True)
    client: Any = MemorySession(clock=clock).client("sqs")
    url = client.create_queue(QueueName="jobs")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=7)
    assert bodies(receive(client, url, WaitTimeSeconds=20)) == ["delayed"]
    assert clock.monotonic() == 7
    assert receive(client, url, WaitTimeSeconds=20) == []
    assert clock.monotonic() == 27


def test_the_default_clock_runs_and_can_be_pushed_forward() -> None:
    session = MemorySession()
    assert isinstance(session.clock, SteppableClock)
    client: Any = session.client("sqs")
    url = client.create_queue(QueueName="jobs")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="one")
    assert len(receive(client, url)) == 1
    session.clock.advance(30)
    assert len(receive(client, url)) == 1


def test_an_event_loop_can_poll_without_a_thread(session: Any, client: Any, make_queue: Any) -> None:
    url = make_queue()
    backend = session.backend

    async def poll() -> list[str]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        unsubscribe = backend.subscribe(url, lambda: loop.call_soon_threadsafe(arrived.set))
        try:
            while True:
                look = backend.receive_now({"QueueUrl": url, "WaitTimeSeconds": 20})
                if look.answer:
                    return bodies(look.answer["Messages"])
                arrived.clear()
                await asyncio.wait_for(arrived.wait(), 10)
        finally:
            unsubscribe()

    async def main() -> list[str]:
        task = asyncio.ensure_future(poll())
        await asyncio.sleep(0)
        await asyncio.to_thread(client.send_message, QueueUrl=url, MessageBody="one")
        return await task

    assert asyncio.run(main()) == ["one"]
    assert backend.queues["jobs"].listeners == {}


def test_a_look_tells_how_long_the_request_may_wait_and_when_to_look_again(
    session: Any, client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue(ReceiveMessageWaitTimeSeconds="15")
    backend = session.backend
    look = backend.receive_now({"QueueUrl": url})
    assert (look.answer, look.wait_seconds, look.next_in) == ({}, 15, None)
    client.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=9)
    clock.advance(2)
    look = backend.receive_now({"QueueUrl": url, "WaitTimeSeconds": 3})
    assert (look.answer, look.wait_seconds, look.next_in) == ({}, 3, 7)


def test_subscribers_hear_when_the_moment_to_look_again_may_have_moved(
    session: Any, client: Any, clock: Any, make_queue: Any
) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="bad")
    heard: list[str] = []
    unsubscribe = session.backend.subscribe(url, lambda: heard.append("jobs"))
    (message,) = receive(client, url)
    client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=3
    )
    assert heard == ["jobs"]
    clock.advance(3)
    assert receive(client, url) == []
    source = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client.start_message_move_task(SourceArn=source, MaxNumberOfMessagesPerSecond=1)
    assert heard == ["jobs"] * 2
    unsubscribe()
    client.send_message(QueueUrl=url, MessageBody="x")
    assert heard == ["jobs"] * 2
