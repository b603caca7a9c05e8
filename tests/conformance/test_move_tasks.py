"""Message move tasks: sending dead letters back."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

REDRIVE = guide("sqs-configure-dead-letter-queue-redrive")
MISSING = "ResourceNotFoundException"


def dead_letters(sqs: Sqs, *bodies: str) -> tuple[str, str]:
    """A queue and its dead-letter queue, in which these messages have landed."""
    dead = sqs.queue()
    policy = json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": 1})
    url = sqs.queue(RedrivePolicy=policy)
    for body in bodies:
        sqs.send(url, body)
    if bodies:
        sqs.receive(url, VisibilityTimeout=0)
        assert sqs.receive(url) == []
    return url, dead


def start(sqs: Sqs, dead: str, **options: Any) -> str:
    return sqs.client.start_message_move_task(SourceArn=sqs.arn(dead), **options)["TaskHandle"]  # type: ignore[no-any-return]


def tasks(sqs: Sqs, dead: str, **options: Any) -> list[dict[str, Any]]:
    return sqs.client.list_message_move_tasks(SourceArn=sqs.arn(dead), **options).get("Results", [])  # type: ignore[no-any-return]


def finished(sqs: Sqs, dead: str) -> dict[str, Any]:
    sqs.propagate(1)
    sqs.eventually(lambda: tasks(sqs, dead)[0]["Status"] != "RUNNING")
    return tasks(sqs, dead)[0]


@documented(api("StartMessageMoveTask"))
def test_messages_go_back_to_the_queue_they_came_from(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, "a", "b")
    start(sqs, dead)
    task = finished(sqs, dead)
    assert task["Status"] == "COMPLETED"
    assert task["ApproximateNumberOfMessagesMoved"] == 2
    assert sorted(sqs.bodies(url)) == ["a", "b"]
    assert sqs.counts(dead) == (0, 0, 0)


@documented(api("StartMessageMoveTask"))
def test_messages_of_several_sources_each_go_back_to_their_own(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, "a")
    policy = json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": 1})
    other = sqs.queue(RedrivePolicy=policy)
    sqs.send(other, "b")
    sqs.receive(other, VisibilityTimeout=0)
    assert sqs.receive(other) == []
    start(sqs, dead)
    assert finished(sqs, dead)["ApproximateNumberOfMessagesMoved"] == 2
    assert sqs.bodies(url) == ["a"]
    assert sqs.bodies(other) == ["b"]


@documented(api("StartMessageMoveTask"))
def test_messages_may_go_to_another_queue(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, "a")
    elsewhere = sqs.queue()
    start(sqs, dead, DestinationArn=sqs.arn(elsewhere))
    assert finished(sqs, dead)["DestinationArn"] == sqs.arn(elsewhere)
    assert sqs.bodies(elsewhere) == ["a"]
    assert sqs.receive(url) == []


@documented(REDRIVE)
def test_a_moved_message_is_a_new_message_received_for_the_first_time(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, "a")
    old = sqs.receive_one(dead, VisibilityTimeout=0)["MessageId"]
    start(sqs, dead)
    finished(sqs, dead)
    message = sqs.receive_again(url)
    assert message["MessageId"] != old
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in message["Attributes"]


@documented(api("StartMessageMoveTask"))
def test_a_queue_that_is_nobodys_dead_letter_queue_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        start(sqs, url)


@documented(api("StartMessageMoveTask"))
def test_a_missing_source_is_refused(sqs: Sqs) -> None:
    arn = sqs.arn(sqs.queue()) + "-missing"
    with sqs.refused(MISSING, modeled=MISSING):
        sqs.client.start_message_move_task(SourceArn=arn)


@documented(api("StartMessageMoveTask"))
def test_a_missing_destination_is_refused(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs)
    arn = sqs.arn(dead) + "-missing"
    with sqs.refused(MISSING, modeled=MISSING):
        start(sqs, dead, DestinationArn=arn)


@documented(api("StartMessageMoveTask"))
@pytest.mark.parametrize("rate", [0, 501])
def test_a_rate_out_of_range_is_refused(sqs: Sqs, rate: int) -> None:
    _url, dead = dead_letters(sqs)
    with sqs.refused("InvalidParameterValue"):
        start(sqs, dead, MaxNumberOfMessagesPerSecond=rate)


@documented(api("StartMessageMoveTask"))
def test_a_queue_has_one_running_task_at_a_time(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs, "a", "b", "c")
    start(sqs, dead, MaxNumberOfMessagesPerSecond=1)
    with sqs.refused("InvalidParameterValue"):
        start(sqs, dead)


@documented(api("ListMessageMoveTasks"))
def test_a_running_task_is_listed_with_its_handle_rate_and_numbers(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs, "a", "b", "c")
    handle = start(sqs, dead, MaxNumberOfMessagesPerSecond=1)
    (task,) = tasks(sqs, dead)
    assert task["TaskHandle"] == handle
    assert task["Status"] == "RUNNING"
    assert task["SourceArn"] == sqs.arn(dead)
    assert task["MaxNumberOfMessagesPerSecond"] == 1
    assert task["ApproximateNumberOfMessagesToMove"] == 3
    assert task["StartedTimestamp"] > 0
    assert "DestinationArn" not in task


@documented(api("ListMessageMoveTasks"))
def test_a_finished_task_has_no_handle(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs, "a")
    start(sqs, dead)
    assert "TaskHandle" not in finished(sqs, dead)


@documented(api("StartMessageMoveTask"))
@memory_only("seconds pass one by one")
def test_the_rate_is_kept(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, *"abcdef")
    start(sqs, dead, MaxNumberOfMessagesPerSecond=2)
    moved = []
    for _ in range(4):
        sqs.elapse(1)
        moved.append(tasks(sqs, dead)[0]["ApproximateNumberOfMessagesMoved"])
    assert moved[-1] == 6
    assert all(after - before <= 2 for before, after in itertools.pairwise(moved))
    assert tasks(sqs, dead)[0]["Status"] == "COMPLETED"
    assert len(sqs.receive(url)) == 6


@documented(api("CancelMessageMoveTask"))
def test_a_cancelled_task_moves_no_more_and_leaves_what_it_moved(sqs: Sqs) -> None:
    url, dead = dead_letters(sqs, *"abcdef")
    handle = start(sqs, dead, MaxNumberOfMessagesPerSecond=1)
    sqs.propagate(2)
    moved = sqs.client.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    sqs.propagate(10)
    assert sqs.eventually(lambda: tasks(sqs, dead)[0]["Status"] == "CANCELLED")
    arrived, left = sqs.counts(url)[0], sqs.counts(dead)[0]
    assert moved <= arrived < 6
    assert arrived + left == 6


@documented(api("CancelMessageMoveTask"))
def test_only_a_running_task_can_be_cancelled(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs, "a")
    handle = start(sqs, dead)
    finished(sqs, dead)
    with sqs.refused(MISSING, "AWS.SimpleQueueService.UnsupportedOperation", "InvalidParameterValue"):
        sqs.client.cancel_message_move_task(TaskHandle=handle)


@documented(api("CancelMessageMoveTask"))
def test_something_that_is_no_task_handle_is_refused(sqs: Sqs) -> None:
    with sqs.refused("InvalidParameterValue"):
        sqs.client.cancel_message_move_task(TaskHandle="no handle")


@documented(api("ListMessageMoveTasks"))
def test_the_newest_task_is_listed_first_and_alone_by_default(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs)
    for _ in range(3):
        start(sqs, dead)
        finished(sqs, dead)
    assert len(tasks(sqs, dead)) == 1
    started = [task["StartedTimestamp"] for task in tasks(sqs, dead, MaxResults=10)]
    assert len(started) == 3
    assert started == sorted(started, reverse=True)


@documented(api("ListMessageMoveTasks"))
@pytest.mark.parametrize("limit", [0, 11])
def test_the_number_of_listed_tasks_has_a_range(sqs: Sqs, limit: int) -> None:
    _url, dead = dead_letters(sqs)
    with sqs.refused("InvalidParameterValue"):
        tasks(sqs, dead, MaxResults=limit)


@documented(api("ListMessageMoveTasks"))
def test_tasks_of_a_missing_queue_are_refused(sqs: Sqs) -> None:
    arn = sqs.arn(sqs.queue()) + "-missing"
    with sqs.refused(MISSING, modeled=MISSING):
        sqs.client.list_message_move_tasks(SourceArn=arn)


@documented(api("ListMessageMoveTasks"))
@memory_only("seconds pass one by one")
def test_a_task_whose_destination_is_deleted_fails_with_the_reason(sqs: Sqs) -> None:
    _url, dead = dead_letters(sqs, *"abcdef")
    elsewhere = sqs.queue()
    start(sqs, dead, DestinationArn=sqs.arn(elsewhere), MaxNumberOfMessagesPerSecond=1)
    sqs.elapse(1)
    sqs.client.delete_queue(QueueUrl=elsewhere)
    sqs.elapse(70)
    (task,) = tasks(sqs, dead)
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
