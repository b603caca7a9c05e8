"""Short and long polls."""

from __future__ import annotations

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

POLLING = guide("sqs-short-and-long-polling")


@documented(POLLING)
def test_a_long_poll_returns_at_once_if_a_message_is_there(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "there")
    assert sqs.bodies(url, WaitTimeSeconds=20) == ["there"]


@documented(POLLING)
def test_a_long_poll_wakes_when_a_message_arrives(sqs: Sqs) -> None:
    url = sqs.queue()
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.send(url, "arrived")
    assert poll.result() == ["arrived"]


@documented(POLLING)
def test_a_long_poll_wakes_when_a_batch_arrives(sqs: Sqs) -> None:
    url = sqs.queue()
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.client.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "arrived"}])
    assert poll.result() == ["arrived"]


@documented(POLLING)
def test_a_long_poll_wakes_when_a_delay_ends(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "delayed", DelaySeconds=1)
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.elapse(1)
    assert poll.result() == ["delayed"]


@documented(POLLING)
def test_a_long_poll_wakes_when_a_message_becomes_visible_again(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url, "again")
    sqs.receive_one(url)
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.elapse(1)
    assert poll.result() == ["again"]


@documented(POLLING)
def test_a_long_poll_wakes_when_a_message_is_released(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "released")
    message = sqs.receive_one(url)
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.hide(url, message, 0)
    assert poll.result() == ["released"]


@documented(POLLING)
def test_a_long_poll_on_a_fifo_queue_wakes_when_the_group_is_free_again(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "first", "second")
    first = sqs.receive_one(url, MaxNumberOfMessages=1)
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.delete(url, first)
    assert poll.result() == ["second"]


@documented(POLLING)
def test_a_long_poll_without_a_message_ends_empty_after_its_time(sqs: Sqs) -> None:
    url = sqs.queue()
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=1))
    assert poll.running
    sqs.elapse(1)
    assert poll.result() == []


@documented(POLLING)
@memory_only("19 seconds pass")
def test_a_long_poll_waits_for_20_seconds_and_no_less(sqs: Sqs) -> None:
    url = sqs.queue()
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=20))
    sqs.elapse(19)
    sqs.send(url, "just in time")
    assert poll.result() == ["just in time"]


@documented(api("CreateQueue"))
def test_the_waiting_time_of_the_queue_makes_every_receive_a_long_poll(sqs: Sqs) -> None:
    url = sqs.queue(ReceiveMessageWaitTimeSeconds="20")
    poll = sqs.in_background(lambda: sqs.bodies(url))
    sqs.send(url, "arrived")
    assert poll.result() == ["arrived"]


@documented(POLLING)
def test_the_waiting_time_of_a_receive_overrides_that_of_the_queue(sqs: Sqs) -> None:
    url = sqs.queue(ReceiveMessageWaitTimeSeconds="20")
    assert sqs.receive(url, WaitTimeSeconds=0) == []


@documented(POLLING)
def test_one_message_wakes_one_of_two_long_polls(sqs: Sqs) -> None:
    url = sqs.queue()
    polls = [sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=1)) for _ in range(2)]
    sqs.send(url, "for one")
    sqs.elapse(1)
    assert sorted(poll.result() for poll in polls) == [[], ["for one"]]
