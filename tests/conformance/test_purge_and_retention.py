"""How messages end without being deleted: purge, retention; and how many may be in flight."""

from __future__ import annotations

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only


@documented(api("PurgeQueue"))
def test_purge_removes_available_messages(sqs: Sqs) -> None:
    url = sqs.queue()
    for _ in range(3):
        sqs.send(url)
    sqs.client.purge_queue(QueueUrl=url)
    sqs.propagate()
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("PurgeQueue"))
def test_purge_removes_messages_in_flight(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    sqs.receive_one(url)
    sqs.client.purge_queue(QueueUrl=url)
    sqs.propagate()
    sqs.elapse(1.2)
    assert sqs.receive(url) == []


@documented(api("PurgeQueue"))
def test_purge_leaves_the_queue_and_its_attributes(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="7")
    sqs.client.purge_queue(QueueUrl=url)
    sqs.propagate()
    assert sqs.attributes(url, "VisibilityTimeout") == {"VisibilityTimeout": "7"}
    sqs.send(url, "after")
    assert sqs.bodies(url) == ["after"]


@documented(api("PurgeQueue"))
def test_a_second_purge_within_60_seconds_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.purge_queue(QueueUrl=url)
    with sqs.refused("AWS.SimpleQueueService.PurgeQueueInProgress", modeled="PurgeQueueInProgress") as caught:
        sqs.client.purge_queue(QueueUrl=url)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@documented(api("PurgeQueue"))
@memory_only("60 seconds pass")
def test_a_purge_60_seconds_later_is_accepted(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.purge_queue(QueueUrl=url)
    sqs.elapse(60)
    sqs.send(url)
    sqs.client.purge_queue(QueueUrl=url)
    sqs.elapse(60)
    assert sqs.receive(url) == []


@documented(api("PurgeQueue"))
def test_the_60_seconds_are_counted_for_each_queue(sqs: Sqs) -> None:
    for url in (sqs.queue(), sqs.queue()):
        sqs.client.purge_queue(QueueUrl=url)


@documented(api("CreateQueue"))
@memory_only("4 days pass")
def test_a_message_is_kept_for_four_days_by_default(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    sqs.elapse(345_599)
    assert sqs.counts(url) == (1, 0, 0)
    sqs.elapse(1)
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("CreateQueue"))
@memory_only("a minute passes")
def test_receiving_a_message_does_not_prolong_its_retention(sqs: Sqs) -> None:
    url = sqs.queue(MessageRetentionPeriod="60", VisibilityTimeout="5")
    sqs.send(url)
    sqs.elapse(50)
    sqs.receive_one(url)
    sqs.elapse(11)
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("SetQueueAttributes"))
@memory_only("15 minutes pass")
def test_a_shorter_retention_ends_messages_already_there(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "old")
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": "60"})
    sqs.elapse(900)
    assert sqs.receive(url) == []


@documented(api("CreateQueue"))
@memory_only("a minute passes")
def test_an_expired_message_frees_its_group(sqs: Sqs) -> None:
    url = sqs.fifo(MessageRetentionPeriod="60", VisibilityTimeout="600")
    sqs.send_in_group(url, "expires in flight")
    sqs.receive_one(url)
    sqs.elapse(30)
    sqs.send_in_group(url, "next")
    assert sqs.receive(url) == []
    sqs.elapse(31)
    assert sqs.bodies(url) == ["next"]


@documented(guide("quotas-messages"))
@memory_only("120,000 messages")
def test_120_000_messages_of_a_standard_queue_may_be_in_flight(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="43200")
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
    for _ in range(12_000):
        sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
        last = sqs.receive(url)
    sqs.send(url, "one more")
    assert sqs.counts(url) == (1, 120_000, 0)
    with sqs.refused("OverLimit", modeled="OverLimit"):
        sqs.receive(url)
    poll = sqs.in_background(lambda: sqs.bodies(url, WaitTimeSeconds=1))
    sqs.elapse(1)
    assert poll.result() == [], "a long poll gets no error"
    sqs.delete(url, last[0])
    assert sqs.bodies(url) == ["one more"]


@documented(api("ChangeMessageVisibility"))
@memory_only("120,000 messages")
def test_120_000_messages_of_a_fifo_queue_may_be_in_flight_and_more_come_without_an_error(sqs: Sqs) -> None:
    url = sqs.fifo(VisibilityTimeout="43200")
    for group in range(12_000):
        entries = [
            {
                "Id": n,
                "MessageBody": "x",
                "MessageGroupId": str(group),
                "MessageDeduplicationId": f"{group}-{n}",
            }
            for n in "0123456789"
        ]
        sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
        last = sqs.receive(url)
    sqs.send_in_group(url, "one more")
    assert sqs.counts(url) == (1, 120_000, 0)
    assert sqs.receive(url) == []
    sqs.delete(url, last[0])
    assert sqs.bodies(url) == ["one more"]
