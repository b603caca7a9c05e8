"""Exactly-once sending to FIFO queues."""

from __future__ import annotations

import hashlib

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

ONCE = guide("FIFO-queues-exactly-once-processing")


@documented(ONCE)
def test_a_second_message_of_the_same_id_is_accepted_and_not_delivered(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send(url, "first", MessageGroupId="g", MessageDeduplicationId="d")
    second = sqs.send(url, "second", MessageGroupId="g", MessageDeduplicationId="d")
    assert second["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert sqs.bodies(url) == ["first"]


@documented(api("SendMessage"))
def test_without_an_id_and_without_deduplication_by_content_a_message_is_refused(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageGroupId="g")


@documented(api("SendMessageBatch"))
def test_a_batch_without_any_id_delivers_nothing(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidParameterValue"):
        sqs.client.send_message_batch(
            QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "body", "MessageGroupId": "g"}]
        )
    assert sqs.receive(url) == []


@documented(ONCE)
def test_the_id_is_the_sha_256_of_the_body_when_content_decides(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    sqs.send(url, "päyload", MessageGroupId="g")
    attributes = sqs.receive_one(url)["Attributes"]
    assert attributes["MessageDeduplicationId"] == hashlib.sha256("päyload".encode()).hexdigest()


@documented(api("SendMessage"))
def test_attributes_take_no_part_when_content_decides(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    for value in "12":
        attributes = {"n": {"DataType": "String", "StringValue": value}}
        sqs.send(url, "same", MessageGroupId="g", MessageAttributes=attributes)
    sqs.send(url, "other", MessageGroupId="g")
    assert sqs.bodies(url) == ["same", "other"]


@documented(api("SendMessage"))
def test_an_explicit_id_overrides_the_content(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    sqs.send(url, "same", MessageGroupId="g", MessageDeduplicationId="1")
    sqs.send(url, "same", MessageGroupId="g", MessageDeduplicationId="2")
    assert sqs.bodies(url) == ["same", "same"]


@documented(api("SendMessage"))
def test_an_explicit_id_equal_to_the_hash_of_a_body_is_a_duplicate_of_it(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    sqs.send(url, "first", MessageGroupId="g")
    sqs.send(url, "second", MessageGroupId="g", MessageDeduplicationId=hashlib.sha256(b"first").hexdigest())
    assert sqs.bodies(url) == ["first"]


@documented(api("SendMessage"))
def test_an_id_is_remembered_after_its_message_was_deleted(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send(url, MessageGroupId="g", MessageDeduplicationId="d")
    sqs.delete(url, sqs.receive_one(url))
    sqs.send(url, "again", MessageGroupId="g", MessageDeduplicationId="d")
    assert sqs.receive(url) == []


@documented(ONCE)
@memory_only("5 minutes pass")
def test_an_id_is_remembered_for_five_minutes(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send(url, "first", MessageGroupId="g", MessageDeduplicationId="d")
    sqs.delete(url, sqs.receive_one(url))
    sqs.elapse(299)
    sqs.send(url, "second", MessageGroupId="g", MessageDeduplicationId="d")
    assert sqs.receive(url) == []
    sqs.elapse(2)
    sqs.send(url, "third", MessageGroupId="g", MessageDeduplicationId="d")
    assert sqs.bodies(url) == ["third"]


@documented(api("SetQueueAttributes"))
def test_an_id_counts_for_the_whole_queue_by_default(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send(url, "a", MessageGroupId="a", MessageDeduplicationId="d")
    sqs.send(url, "b", MessageGroupId="b", MessageDeduplicationId="d")
    assert sqs.bodies(url) == ["a"]


@documented(guide("high-throughput-fifo"))
def test_an_id_counts_for_its_group_if_the_queue_says_so(sqs: Sqs) -> None:
    url = sqs.fifo(DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    for group in "aba":
        sqs.send(url, group, MessageGroupId=group, MessageDeduplicationId="d")
    assert sorted(sqs.bodies(url)) == ["a", "b"]


@documented(api("SendMessageBatch"))
def test_duplicates_within_one_batch_are_delivered_once(sqs: Sqs) -> None:
    url = sqs.fifo()
    entries = [
        {"Id": str(n), "MessageBody": str(n), "MessageGroupId": "g", "MessageDeduplicationId": "d"}
        for n in range(3)
    ]
    answer = sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert len(answer["Successful"]) == 3
    assert sqs.bodies(url) == ["0"]


@documented(ONCE)
def test_an_id_of_one_queue_means_nothing_to_another(sqs: Sqs) -> None:
    for url in (sqs.fifo(), sqs.fifo()):
        sqs.send(url, "body", MessageGroupId="g", MessageDeduplicationId="d")
        assert sqs.bodies(url) == ["body"]
