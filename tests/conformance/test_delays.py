"""Delay queues and message timers."""

from __future__ import annotations

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only


@documented(guide("sqs-message-timers"))
def test_a_delayed_message_is_invisible_until_its_delay_is_over(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, DelaySeconds=1)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert sqs.receive_again(url)["Attributes"]["ApproximateReceiveCount"] == "1"


@documented(guide("sqs-message-timers"))
@memory_only("15 minutes pass")
def test_a_message_may_be_delayed_by_15_minutes_to_the_second(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, DelaySeconds=900)
    sqs.elapse(899)
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 0, 1)
    sqs.elapse(1)
    assert sqs.counts(url) == (1, 0, 0)
    assert len(sqs.receive(url)) == 1


@documented(api("SendMessage"))
@pytest.mark.parametrize("delay", [-1, 901])
def test_a_delay_out_of_range_is_refused(sqs: Sqs, delay: int) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, DelaySeconds=delay)


@documented(guide("sqs-delay-queues"))
def test_the_delay_of_the_queue_holds_for_messages_without_their_own(sqs: Sqs) -> None:
    url = sqs.queue(DelaySeconds="1")
    sqs.send(url)
    assert sqs.counts(url) == (0, 0, 1)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    sqs.receive_again(url)


@documented(guide("sqs-message-timers"))
def test_the_delay_of_a_message_overrides_that_of_the_queue(sqs: Sqs) -> None:
    url = sqs.queue(DelaySeconds="900")
    sqs.send(url, "now", DelaySeconds=0)
    sqs.send(url, "later")
    assert sqs.bodies(url) == ["now"]


@documented(guide("sqs-delay-queues"))
@memory_only("100 seconds pass")
def test_a_new_delay_of_a_standard_queue_leaves_messages_already_there(sqs: Sqs) -> None:
    url = sqs.queue(DelaySeconds="100")
    sqs.send(url)
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "10"})
    sqs.elapse(50)
    assert sqs.receive(url) == []
    sqs.elapse(50)
    assert len(sqs.receive(url)) == 1


@documented(guide("sqs-delay-queues"))
@memory_only("10 seconds pass")
def test_a_new_delay_of_a_fifo_queue_holds_for_messages_already_there(sqs: Sqs) -> None:
    url = sqs.fifo(DelaySeconds="100")
    sqs.send_in_group(url, "body")
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "10"})
    sqs.elapse(10)
    assert sqs.bodies(url) == ["body"]


@documented(api("SendMessage"))
def test_a_message_of_a_fifo_queue_cannot_have_its_own_delay(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageGroupId="g", MessageDeduplicationId="d", DelaySeconds=2)


@documented(guide("sqs-delay-queues"))
def test_a_fifo_queue_may_delay_all_of_its_messages(sqs: Sqs) -> None:
    url = sqs.fifo(DelaySeconds="1")
    sqs.send_in_group(url, "first", "second")
    assert sqs.receive(url) == []
    sqs.elapse(1.2)
    assert sqs.eventually(lambda: sqs.bodies(url)) == ["first", "second"]
