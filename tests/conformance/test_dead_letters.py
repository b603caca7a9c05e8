"""Dead-letter queues: the redrive policy, what it refuses, what arrives, and who may use a queue as one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

DEAD_LETTERS = guide("sqs-dead-letter-queues")
RETENTION = guide("setting-up-dead-letter-queue-retention")
REFUSED = ("InvalidParameterValue", "InvalidAttributeValue")
FIFO = {"FifoQueue": "true"}


def policy(sqs: Sqs, dead: str, receives: int = 1) -> str:
    return json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": receives})


def pair(sqs: Sqs, receives: int = 1, **attributes: str) -> tuple[str, str]:
    """A queue and its dead-letter queue."""
    dead = sqs.queue()
    return sqs.queue(RedrivePolicy=policy(sqs, dead, receives), **attributes), dead


def set_policy(sqs: Sqs, url: str, value: str) -> None:
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": value})


def fail(sqs: Sqs, url: str, receives: int = 1) -> None:
    """Receive as often as the policy allows, and once more to make SQS move the message."""
    for _ in range(receives):
        assert len(sqs.receive(url, VisibilityTimeout=0)) == 1
    assert sqs.receive(url, VisibilityTimeout=0) == []


@documented(DEAD_LETTERS)
@pytest.mark.parametrize("receives", [1, 3])
def test_a_message_is_received_max_receive_count_times_and_then_moved(sqs: Sqs, receives: int) -> None:
    url, dead = pair(sqs, receives)
    sqs.send(url, "poison")
    fail(sqs, url, receives)
    assert sqs.receive_again(dead)["Body"] == "poison"
    assert sqs.counts(url) == (0, 0, 0)


@documented(DEAD_LETTERS)
def test_a_message_deleted_in_time_is_not_moved(sqs: Sqs) -> None:
    url, dead = pair(sqs)
    sqs.send(url)
    sqs.delete(url, sqs.receive_one(url))
    assert sqs.receive(url) == []
    assert sqs.receive(dead) == []


@documented(DEAD_LETTERS)
def test_a_moved_message_keeps_its_id_body_attributes_and_the_time_of_sending(sqs: Sqs) -> None:
    url, dead = pair(sqs)
    attributes = {"kind": {"DataType": "String", "StringValue": "mail"}}
    sqs.send(url, "poison", MessageAttributes=attributes)
    first = sqs.receive_one(url, VisibilityTimeout=0)
    assert sqs.receive(url) == []
    moved = sqs.receive_again(dead, MessageAttributeNames=["All"])
    for part in ("MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
        assert moved[part] == first[part]
    assert moved["Attributes"]["SentTimestamp"] == first["Attributes"]["SentTimestamp"]


@documented(api("Message"))
def test_a_moved_message_names_the_queue_it_came_from(sqs: Sqs) -> None:
    url, dead = pair(sqs)
    sqs.send(url)
    fail(sqs, url)
    assert sqs.receive_again(dead)["Attributes"]["DeadLetterQueueSourceArn"] == sqs.arn(url)


@documented(api("ReceiveMessage"))
def test_the_receive_count_goes_on_across_queues(sqs: Sqs) -> None:
    url, dead = pair(sqs, 2)
    sqs.send(url)
    fail(sqs, url, 2)
    assert sqs.receive_again(dead)["Attributes"]["ApproximateReceiveCount"] == "3"


@documented(DEAD_LETTERS)
def test_other_messages_are_received_while_the_poison_is_moved(sqs: Sqs) -> None:
    url, dead = pair(sqs)
    sqs.send(url, "poison")
    sqs.receive_one(url, VisibilityTimeout=0)
    sqs.send(url, "fine")
    assert sqs.eventually(lambda: sqs.bodies(url)) == ["fine"]
    assert sqs.receive_again(dead)["Body"] == "poison"


@documented(RETENTION)
@memory_only("days pass")
def test_the_retention_of_a_moved_standard_message_counts_from_its_first_sending(sqs: Sqs) -> None:
    url, dead = pair(sqs, MessageRetentionPeriod="1209600")
    sqs.send(url)
    sqs.elapse(86_400)
    fail(sqs, url)
    sqs.elapse(3 * 86_400 - 60)
    assert sqs.counts(dead) == (1, 0, 0)
    sqs.elapse(61)
    assert sqs.counts(dead) == (0, 0, 0)


@documented(RETENTION)
@memory_only("days pass")
def test_the_retention_of_a_moved_fifo_message_starts_again(sqs: Sqs) -> None:
    dead = sqs.fifo()
    url = sqs.fifo(RedrivePolicy=policy(sqs, dead), MessageRetentionPeriod="1209600")
    sqs.send_in_group(url, "poison")
    sqs.elapse(86_400)
    fail(sqs, url)
    sqs.elapse(4 * 86_400 - 60)
    assert sqs.counts(dead) == (1, 0, 0)
    sqs.elapse(61)
    assert sqs.counts(dead) == (0, 0, 0)


@documented(DEAD_LETTERS)
def test_a_group_goes_on_after_its_poison_was_moved(sqs: Sqs) -> None:
    dead = sqs.fifo()
    url = sqs.fifo(RedrivePolicy=policy(sqs, dead))
    sqs.send_in_group(url, "poison", "next")
    sqs.hide(url, sqs.receive_one(url, MaxNumberOfMessages=1), 0)
    assert sqs.eventually(lambda: sqs.bodies(url)) == ["next"]
    assert sqs.receive_again(dead)["Body"] == "poison"


@documented(guide("sqs-configure-dead-letter-queue-redrive"))
def test_a_moved_fifo_message_keeps_its_group_and_has_its_id_as_deduplication_id(sqs: Sqs) -> None:
    dead = sqs.fifo()
    url = sqs.fifo(RedrivePolicy=policy(sqs, dead))
    sqs.send_in_group(url, "poison", group="mail")
    fail(sqs, url)
    moved = sqs.receive_again(dead)
    assert moved["Attributes"]["MessageGroupId"] == "mail"
    assert moved["Attributes"]["MessageDeduplicationId"] == moved["MessageId"]


# The redrive policy


@documented(api("SetQueueAttributes"))
def test_a_redrive_policy_is_returned_as_json(sqs: Sqs) -> None:
    dead, url = sqs.queue(), sqs.queue()
    set_policy(sqs, url, policy(sqs, dead, 5))
    found = json.loads(sqs.attributes(url, "RedrivePolicy")["RedrivePolicy"])
    assert found["deadLetterTargetArn"] == sqs.arn(dead)
    assert int(found["maxReceiveCount"]) == 5


@documented(api("SetQueueAttributes"))
def test_an_empty_redrive_policy_removes_it(sqs: Sqs) -> None:
    url, dead = pair(sqs)
    set_policy(sqs, url, "")
    assert sqs.attributes(url, "RedrivePolicy") == {}
    sqs.send(url)
    for _ in range(3):
        assert len(sqs.receive(url, VisibilityTimeout=0)) == 1
    assert sqs.receive(dead) == []


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize("receives", [0, 1001, "many"])
def test_a_max_receive_count_outside_of_1_to_1000_is_refused(sqs: Sqs, receives: Any) -> None:
    dead, url = sqs.queue(), sqs.queue()
    with sqs.refused(*REFUSED):
        set_policy(sqs, url, policy(sqs, dead, receives))


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize("receives", [1, 1000, "10"])
def test_a_max_receive_count_may_be_a_number_or_its_digits(sqs: Sqs, receives: Any) -> None:
    dead, url = sqs.queue(), sqs.queue()
    set_policy(sqs, url, policy(sqs, dead, receives))


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize(
    "value",
    ["no json", "[]", '{"maxReceiveCount": 5}', '{"deadLetterTargetArn": "dummy", "maxReceiveCount": 42}'],
    ids=["no-json", "no-map", "no-target", "no-arn"],
)
def test_a_malformed_redrive_policy_is_refused(sqs: Sqs, value: str) -> None:
    url = sqs.queue()
    with sqs.refused(*REFUSED):
        set_policy(sqs, url, value)
    assert sqs.attributes(url, "RedrivePolicy") == {}


@documented(api("SetQueueAttributes"))
def test_a_redrive_policy_without_a_count_is_refused(sqs: Sqs) -> None:
    dead, url = sqs.queue(), sqs.queue()
    value = json.dumps({"deadLetterTargetArn": sqs.arn(dead)})
    with sqs.refused(*REFUSED):
        set_policy(sqs, url, value)


@documented(guide("sqs-configure-dead-letter-queue"))
def test_the_dead_letter_queue_must_exist(sqs: Sqs) -> None:
    url = sqs.queue()
    value = policy(sqs, url).replace(sqs.arn(url), sqs.arn(url) + "-missing")
    with sqs.refused(*REFUSED, "AWS.SimpleQueueService.NonExistentQueue"):
        set_policy(sqs, url, value)


@documented(guide("sqs-configure-dead-letter-queue"))
@pytest.mark.parametrize("source", ["standard", "fifo"])
def test_a_queue_and_its_dead_letter_queue_must_be_of_one_type(sqs: Sqs, source: str) -> None:
    standard, fifo = sqs.queue(), sqs.fifo()
    url, dead = (standard, fifo) if source == "standard" else (fifo, standard)
    with sqs.refused(*REFUSED):
        set_policy(sqs, url, policy(sqs, dead))


# The redrive allow policy


def permit(permission: str, *sources: str) -> str:
    value: dict[str, Any] = {"redrivePermission": permission}
    if sources:
        value["sourceQueueArns"] = list(sources)
    return json.dumps(value)


@documented(api("SetQueueAttributes"))
def test_a_queue_that_denies_all_cannot_be_a_dead_letter_queue(sqs: Sqs) -> None:
    dead = sqs.queue(RedriveAllowPolicy=permit("denyAll"))
    url = sqs.queue()
    with sqs.refused(*REFUSED):
        set_policy(sqs, url, policy(sqs, dead))


@documented(api("SetQueueAttributes"))
def test_a_queue_may_allow_its_sources_by_arn(sqs: Sqs) -> None:
    friend, stranger = sqs.queue(), sqs.queue()
    dead = sqs.queue(RedriveAllowPolicy=permit("byQueue", sqs.arn(friend)))
    set_policy(sqs, friend, policy(sqs, dead))
    with sqs.refused(*REFUSED):
        set_policy(sqs, stranger, policy(sqs, dead))


@documented(api("SetQueueAttributes"))
def test_a_queue_that_allows_all_takes_any_source(sqs: Sqs) -> None:
    dead = sqs.queue(RedriveAllowPolicy=permit("allowAll"))
    url = sqs.queue(RedrivePolicy=policy(sqs, dead))
    assert json.loads(sqs.attributes(dead, "RedriveAllowPolicy")["RedriveAllowPolicy"]) == {
        "redrivePermission": "allowAll"
    }
    assert sqs.attributes(url, "RedrivePolicy")


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize(
    "value",
    [
        "no json",
        permit("sometimes"),
        permit("allowAll", "arn:aws:sqs:us-east-1:123456789012:queue"),
        permit("byQueue"),
        permit("byQueue", *(f"arn:aws:sqs:us-east-1:123456789012:queue-{number}" for number in range(11))),
    ],
    ids=[
        "no-json",
        "unknown-permission",
        "sources-with-allow-all",
        "by-queue-without-sources",
        "eleven-sources",
    ],
)
def test_a_malformed_redrive_allow_policy_is_refused(sqs: Sqs, value: str) -> None:
    url = sqs.queue()
    with sqs.refused(*REFUSED):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"RedriveAllowPolicy": value})


# Who uses a queue as dead-letter queue


@documented(api("ListDeadLetterSourceQueues"))
def test_the_sources_of_a_dead_letter_queue_are_listed(sqs: Sqs) -> None:
    dead = sqs.queue()
    sources = sorted(sqs.queue(RedrivePolicy=policy(sqs, dead)) for _ in range(3))
    sqs.queue()
    assert sorted(sqs.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]) == sources


@documented(api("ListDeadLetterSourceQueues"))
def test_a_queue_without_sources_lists_none(sqs: Sqs) -> None:
    assert sqs.client.list_dead_letter_source_queues(QueueUrl=sqs.queue())["queueUrls"] == []


@documented(api("ListDeadLetterSourceQueues"))
def test_sources_are_listed_in_pages(sqs: Sqs) -> None:
    dead = sqs.queue()
    sources = {sqs.queue(RedrivePolicy=policy(sqs, dead)) for _ in range(3)}
    first = sqs.client.list_dead_letter_source_queues(QueueUrl=dead, MaxResults=2)
    second = sqs.client.list_dead_letter_source_queues(
        QueueUrl=dead, MaxResults=2, NextToken=first["NextToken"]
    )
    assert [len(page["queueUrls"]) for page in (first, second)] == [2, 1]
    assert "NextToken" not in second
    assert {*first["queueUrls"], *second["queueUrls"]} == sources
