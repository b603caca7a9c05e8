"""StartMessageMoveTask and its companions: redriving a dead-letter queue.

A task makes progress whenever somebody calls the backend, as far as the clock
allows: without a rate everything is moved by the next call, with one the
messages due since the start.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from sqs_workers.memory_sqs.account import Account, MoveTask
from sqs_workers.memory_sqs.faults import Fault, invalid_parameter, no_such_queue, resource_not_found
from sqs_workers.memory_sqs.queue_state import QueueState
from sqs_workers.memory_sqs.records import VISIBLE, Message, new_id

__all__ = [
    "cancel_message_move_task",
    "list_message_move_tasks",
    "next_step_due",
    "run_tasks",
    "start_message_move_task",
]

_MAX_PER_SECOND = 500
_MAX_RESULTS = 10
# Keeps 0.1 + 0.2 seconds at ten a second from being two messages.
_ROUNDING = 1e-9


def start_message_move_task(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    source = account.queue_by_arn(params["SourceArn"])
    if source is None:
        raise _no_queue("SourceArn")
    if not any(_is_source(queue, source) for queue in account.queues.values()):
        raise invalid_parameter("Source queue must be configured as a Dead Letter Queue.")
    destination_arn = params.get("DestinationArn")
    if destination_arn is not None:
        _check_destination(account, source, destination_arn)
    rate = params.get("MaxNumberOfMessagesPerSecond")
    if rate is not None and not 1 <= rate <= _MAX_PER_SECOND:
        raise invalid_parameter(
            f"Value {rate} for parameter MaxNumberOfMessagesPerSecond is invalid. "
            f"Reason: You must enter a number that's between 1 and {_MAX_PER_SECOND}."
        )
    if any(task.source is source and task.status == "RUNNING" for task in account.tasks):
        raise invalid_parameter(
            "There is already a task running. Only one active task is allowed for a source queue "
            "arn at a given time."
        )
    now = account.clock.monotonic()
    source.tick(now)
    document = {"taskId": new_id(), "sourceArn": source.arn}
    handle = base64.b64encode(json.dumps(document).encode()).decode()
    task = MoveTask(
        handle=handle,
        source=source,
        destination_arn=destination_arn,
        per_second=rate,
        to_move=source.counts[VISIBLE],
        started_at=now,
        started_ms=account.now_ms(),
    )
    account.tasks.append(task)
    account.running_tasks += 1
    # Polls in progress compute anew when to look again.
    for queue in account.queues.values():
        queue.notify()
    return {"TaskHandle": handle}


def list_message_move_tasks(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    limit = params.get("MaxResults", 1)
    if not 1 <= limit <= _MAX_RESULTS:
        raise invalid_parameter(
            f"Value {limit} for parameter MaxResults is invalid. "
            f"Reason: Value for parameter MaxResults must be between 1 and {_MAX_RESULTS}."
        )
    source = account.queue_by_arn(params["SourceArn"])
    if source is None:
        raise _no_queue("SourceArn")
    newest_first = [task for task in reversed(account.tasks) if task.source is source]
    return {"Results": [_describe(task) for task in newest_first[:limit]]}


def cancel_message_move_task(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        document = json.loads(base64.b64decode(params["TaskHandle"], validate=True))
        task_id, source_arn = document["taskId"], document["sourceArn"]
    except (ValueError, binascii.Error, KeyError, TypeError):
        raise invalid_parameter("Value for parameter TaskHandle is invalid.") from None
    if not isinstance(source_arn, str) or account.queue_by_arn(source_arn) is None:
        raise _no_queue("SourceArn")
    for task in account.tasks:
        if task.status == "RUNNING" and json.loads(base64.b64decode(task.handle))["taskId"] == task_id:
            _finish(account, task, "CANCELLED")
            return {"ApproximateNumberOfMessagesMoved": task.moved}
    raise resource_not_found("Task does not exist.")


def run_tasks(account: Account) -> None:
    """Move what the running tasks have become entitled to move."""
    if not account.running_tasks:
        return
    now = account.clock.monotonic()
    for task in account.tasks:
        if task.status == "RUNNING":
            _run(account, task, now)


def next_step_due(account: Account) -> float | None:
    """The moment at which a running task moves its next message."""
    if not account.running_tasks:
        return None
    return min(
        task.started_at + (task.moved + 1) / (task.per_second or _MAX_PER_SECOND)
        for task in account.tasks
        if task.status == "RUNNING"
    )


def _run(account: Account, task: MoveTask, now: float) -> None:
    if task.source.deleted:
        _finish(account, task, "FAILED", no_such_queue().code)
        return
    task.source.tick(now)
    allowed = task.to_move
    if task.per_second is not None:
        allowed = min(allowed, int((now - task.started_at) * task.per_second + _ROUNDING))
    while task.moved < allowed:
        message = task.source.oldest_visible()
        if message is None:
            break
        try:
            target = _target(account, task, message)
        except Fault as fault:
            _finish(account, task, "FAILED", fault.code)
            return
        _move(account, task.source, target, message, now)
        task.moved += 1
    if task.moved >= task.to_move or not task.source.counts[VISIBLE]:
        _finish(account, task, "COMPLETED")


def _target(account: Account, task: MoveTask, message: Message) -> QueueState:
    arn = task.destination_arn or message.source_arn
    if arn is None:
        # The message was sent to the dead-letter queue and did not come from a source queue.
        raise Fault("CouldNotDetermineMessageSource", "The source of the message is not known.")
    target = account.queue_by_arn(arn)
    if target is None:
        raise no_such_queue()
    return target


def _move(account: Account, source: QueueState, target: QueueState, message: Message, now: float) -> None:
    """A redriven message is a new one: id, enqueue time and receive count begin anew."""
    moved = message.copy_for_other_queue()
    moved.id = new_id()
    moved.enqueued_at = now
    moved.sent_ms = account.now_ms()
    moved.receive_count = 0
    moved.first_received_ms = None
    moved.source_arn = None
    source.remove(message)
    target.tick(now)
    target.put(moved, now)
    target.notify()


def _finish(account: Account, task: MoveTask, status: str, failure: str | None = None) -> None:
    task.status = status
    task.failure = failure
    account.running_tasks -= 1


def _is_source(queue: QueueState, dead_letter_queue: QueueState) -> bool:
    policy = queue.settings.redrive
    return policy is not None and policy.target_arn == dead_letter_queue.arn


def _check_destination(account: Account, source: QueueState, arn: str) -> None:
    destination = account.queue_by_arn(arn)
    if destination is None:
        raise _no_queue("DestinationArn")
    if destination is source:
        raise invalid_parameter("Source queue arn and destination queue arn cannot be the same.")
    if destination.fifo != source.fifo:
        raise invalid_parameter("Source and destination queues must be of the same type.")


def _no_queue(parameter: str) -> Fault:
    return resource_not_found(f"The resource that you specified for the {parameter} parameter doesn't exist.")


def _describe(task: MoveTask) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Status": task.status,
        "SourceArn": task.source.arn,
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "StartedTimestamp": task.started_ms,
    }
    if task.status == "RUNNING":
        entry["TaskHandle"] = task.handle
    if task.destination_arn is not None:
        entry["DestinationArn"] = task.destination_arn
    if task.per_second is not None:
        entry["MaxNumberOfMessagesPerSecond"] = task.per_second
    if task.failure is not None:
        entry["FailureReason"] = task.failure
    return entry
