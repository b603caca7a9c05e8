from __future__ import annotations

import json
from typing import Any

import pytest

from tests.memory.driver import arn, bodies, counts, receive, redrive, refused


def fail(client: Any, clock: Any, url: str, times: int) -> None:
    for _ in range(times):
        receive(client, url, VisibilityTimeout=1)
        clock.advance(1)


def test_a_message_received_once_too_often_moves_and_keeps_its_identity(
    client: Any, clock: Any, make_queue: Any
) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 2))
    sent = client.send_message(QueueUrl=url, MessageBody="bad")
    fail(client, clock, url, 2)
    assert counts(client, url)[0] == 1
    assert receive(client, url) == []
    assert counts(client, url) == (0, 0, 0)
    (message,) = receive(client, dead)
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(client, url)
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"


def test_a_receive_goes_past_the_messages_that_it_moves(client: Any, clock: Any, make_queue: Any) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="bad")
    fail(client, clock, url, 1)
    client.send_message(QueueUrl=url, MessageBody="good")
    assert bodies(receive(client, url, 1)) == ["good"]
    assert bodies(receive(client, dead)) == ["bad"]


def test_a_dead_letter_queue_with_its_own_policy_counts_its_own_receives(
    client: Any, clock: Any, make_queue: Any
) -> None:
    last = make_queue("last")
    middle = make_queue("middle", RedrivePolicy=redrive(client, last, 1))
    url = make_queue("jobs", RedrivePolicy=redrive(client, middle, 3))
    client.send_message(QueueUrl=url, MessageBody="bad")
    fail(client, clock, url, 4)
    assert bodies(receive(client, middle, VisibilityTimeout=1)) == ["bad"]
    clock.advance(1)
    assert receive(client, middle) == []
    (message,) = receive(client, last)
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(client, middle)


def test_a_standard_message_ages_on_in_the_dead_letter_queue_and_a_fifo_message_begins_anew(
    client: Any, clock: Any, make_queue: Any
) -> None:
    for suffix, left in (("", 0), (".fifo", 1)):
        dead = make_queue("dead" + suffix, MessageRetentionPeriod="100")
        url = make_queue("jobs" + suffix, RedrivePolicy=redrive(client, dead, 1))
        group = {"MessageGroupId": "a"} if suffix else {}
        client.send_message(QueueUrl=url, MessageBody="bad", **group)
        clock.advance(60)
        fail(client, clock, url, 2)
        assert counts(client, dead)[0] == 1
        clock.advance(40)
        assert counts(client, dead)[0] == left


def test_a_fifo_group_goes_on_after_its_message_was_dead_lettered(
    client: Any, clock: Any, make_queue: Any
) -> None:
    dead = make_queue("dead.fifo")
    url = make_queue("jobs.fifo", RedrivePolicy=redrive(client, dead, 1))
    for text in ("a1", "a2", "a3"):
        client.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="a")
    receive(client, url, 1, VisibilityTimeout=1)
    clock.advance(1)
    assert bodies(receive(client, url, 1)) == ["a2"]
    assert receive(client, url) == []
    (message,) = receive(client, dead)
    assert message["Attributes"]["MessageGroupId"] == "a"


def test_messages_stay_when_the_dead_letter_queue_is_gone(client: Any, clock: Any, make_queue: Any) -> None:
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="bad")
    client.delete_queue(QueueUrl=dead)
    fail(client, clock, url, 3)
    assert counts(client, url) == (1, 0, 0)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("no json", "not a valid JSON map"),
        ("[]", "not a valid JSON map"),
        ('{"maxReceiveCount": 1}', "deadLetterTargetArn"),
        ('{"deadLetterTargetArn": "dummy", "maxReceiveCount": 42}', "Invalid value for deadLetterTargetArn"),
        ('{"deadLetterTargetArn": "ARN"}', "maxReceiveCount"),
        ('{"deadLetterTargetArn": "ARN", "maxReceiveCount": 0}', "maxReceiveCount"),
        ('{"deadLetterTargetArn": "ARN", "maxReceiveCount": 1001}', "maxReceiveCount"),
        ('{"deadLetterTargetArn": "ARN", "maxReceiveCount": true}', "maxReceiveCount"),
        ('{"deadLetterTargetArn": "ARN", "maxReceiveCount": 1, "x": 1}', "unknown"),
        ('{"deadLetterTargetArn": "ARN0", "maxReceiveCount": 1}', "does not exist"),
        ('{"deadLetterTargetArn": "ARN.fifo", "maxReceiveCount": 1}', "same type"),
    ],
)
def test_a_wrong_redrive_policy_is_refused(client: Any, make_queue: Any, policy: str, reason: str) -> None:
    dead = make_queue("dead")
    make_queue("dead.fifo")
    with refused("InvalidParameterValue", reason):
        make_queue("jobs", RedrivePolicy=policy.replace("ARN", arn(client, dead)))


def test_the_redrive_allow_policy_decides_whose_dead_letter_queue_it_may_be(
    client: Any, make_queue: Any
) -> None:
    url = make_queue("jobs")
    only_jobs = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn(client, url)]})
    picky = make_queue("picky", RedriveAllowPolicy=only_jobs)
    closed = make_queue("closed", RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    with refused("InvalidParameterValue", "RedriveAllowPolicy"):
        make_queue("other", RedrivePolicy=redrive(client, picky, 1))
    client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": redrive(client, picky, 1)})
    with refused("InvalidParameterValue", "RedriveAllowPolicy"):
        client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": redrive(client, closed, 1)})
    assert client.list_dead_letter_source_queues(QueueUrl=picky)["queueUrls"] == [url]


def stuck(client: Any, clock: Any, make_queue: Any, number: int) -> tuple[str, str]:
    """A queue and its dead-letter queue with that many messages in it."""
    dead = make_queue("dead")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    for n in range(number):
        client.send_message(QueueUrl=url, MessageBody=str(n))
    fail(client, clock, url, 2)
    assert counts(client, dead) == (number, 0, 0)
    return url, dead


def test_a_move_task_brings_messages_back_as_new_ones(client: Any, clock: Any, make_queue: Any) -> None:
    url, dead = stuck(client, clock, make_queue, 3)
    handle = client.start_message_move_task(SourceArn=arn(client, dead))["TaskHandle"]
    assert handle
    messages = receive(client, url)
    assert sorted(bodies(messages)) == ["0", "1", "2"]
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in messages} == {"1"}
    assert "DeadLetterQueueSourceArn" not in messages[0]["Attributes"]
    (task,) = client.list_message_move_tasks(SourceArn=arn(client, dead))["Results"]
    assert task["Status"] == "COMPLETED"
    assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (3, 3)
    assert "TaskHandle" not in task


def test_a_move_task_keeps_to_its_rate_and_can_be_cancelled(client: Any, clock: Any, make_queue: Any) -> None:
    url, dead = stuck(client, clock, make_queue, 5)
    source = arn(client, dead)
    handle = client.start_message_move_task(SourceArn=source, MaxNumberOfMessagesPerSecond=2)["TaskHandle"]
    with refused("InvalidParameterValue", "already a task running"):
        client.start_message_move_task(SourceArn=source)
    assert counts(client, url)[0] == 0
    clock.advance(1)
    assert counts(client, url)[0] == 2
    (task,) = client.list_message_move_tasks(SourceArn=source)["Results"]
    assert (task["Status"], task["TaskHandle"], task["MaxNumberOfMessagesPerSecond"]) == (
        "RUNNING",
        handle,
        2,
    )
    clock.advance(0.5)
    assert client.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] == 3
    clock.advance(10)
    assert counts(client, dead)[0] == 2
    with refused("ResourceNotFoundException", "Task does not exist"):
        client.cancel_message_move_task(TaskHandle=handle)


def test_a_move_task_fails_when_its_destination_or_the_origin_of_a_message_is_not_there(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url, dead = stuck(client, clock, make_queue, 1)
    client.start_message_move_task(SourceArn=arn(client, dead), MaxNumberOfMessagesPerSecond=1)
    client.delete_queue(QueueUrl=url)
    clock.advance(5)
    (task,) = client.list_message_move_tasks(SourceArn=arn(client, dead))["Results"]
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    assert counts(client, dead)[0] == 1
    client.purge_queue(QueueUrl=dead)
    client.send_message(QueueUrl=dead, MessageBody="sent here")
    make_queue("user", RedrivePolicy=redrive(client, dead, 1))
    client.start_message_move_task(SourceArn=arn(client, dead))
    tasks = client.list_message_move_tasks(SourceArn=arn(client, dead), MaxResults=10)["Results"]
    assert [t["FailureReason"] for t in tasks] == [
        "CouldNotDetermineMessageSource",
        "AWS.SimpleQueueService.NonExistentQueue",
    ]


def test_a_move_task_needs_a_dead_letter_queue_and_an_existing_destination(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url, dead = stuck(client, clock, make_queue, 1)
    with refused("InvalidParameterValue", "must be configured as a Dead Letter Queue"):
        client.start_message_move_task(SourceArn=arn(client, url))
    with refused("ResourceNotFoundException", "SourceArn"):
        client.start_message_move_task(SourceArn=arn(client, dead) + "x")
    with refused("ResourceNotFoundException", "DestinationArn"):
        client.start_message_move_task(SourceArn=arn(client, dead), DestinationArn=arn(client, dead) + "x")
    with refused("InvalidParameterValue", "between 1 and 500"):
        client.start_message_move_task(SourceArn=arn(client, dead), MaxNumberOfMessagesPerSecond=501)
    with refused("InvalidParameterValue", "TaskHandle"):
        client.cancel_message_move_task(TaskHandle="nonsense")


def test_a_moved_message_expires_before_a_younger_one_that_was_there_first(
    client: Any, clock: Any, make_queue: Any
) -> None:
    dead = make_queue("dead", MessageRetentionPeriod="100")
    url = make_queue("jobs", RedrivePolicy=redrive(client, dead, 1))
    client.send_message(QueueUrl=url, MessageBody="old")
    clock.advance(60)
    client.send_message(QueueUrl=dead, MessageBody="young")
    fail(client, clock, url, 2)
    assert counts(client, dead)[0] == 2
    clock.advance(40)
    assert bodies(receive(client, dead)) == ["young"]
