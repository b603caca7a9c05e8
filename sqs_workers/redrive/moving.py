"""Moving a whole dead-letter queue by a task of SQS.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError, SQSError
from sqs_workers.limits import MAX_MOVES_PER_SECOND
from sqs_workers.redrive.finding import depth, queue_attributes
from sqs_workers.redrive.holding import pause

__all__ = ["MoveTask", "cancel_move", "follow_move", "move_tasks", "start_move"]

_RUNNING = ("RUNNING", "CANCELLING")
_COMES_BACK = 0.05


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A task of SQS's that moves letters.

    :ivar status: ``RUNNING``, ``COMPLETED``, ``CANCELLING``, ``CANCELLED`` or ``FAILED``.
    :ivar moved: messages moved so far, approximately.
    :ivar to_move: messages that there were at the start, approximately; ``None`` if SQS does not say.
    :ivar destination: ARN of the target; ``None`` for the queues that the letters failed in.
    :ivar rate: messages a second at most; ``None`` leaves it to SQS.
    :ivar started_at: Unix seconds.
    :ivar failure: why it failed.
    :ivar handle: with which it is cancelled; ``None`` unless it runs.
    """

    status: str
    moved: int
    to_move: int | None
    destination: str | None
    rate: int | None
    started_at: float
    failure: str | None
    handle: str | None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.status in _RUNNING


def start_move(client: Any, url: str, *, to: str | None = None, rate: int | None = None) -> str:
    """Let SQS move all letters; returns the handle of the task.

    The copies have new message ids, and keep attributes, those that say why they were dead letters too.
    Without ``to``, SQS moves each letter to the queue that it came from, which it knows only of those that a
    redrive policy moved: the task fails at the first letter that a worker's failure policy copied.

    :param to: URL of the target.
    :param rate: messages a second, 1 to 500; ``None`` leaves it to SQS.
    :raises ConfigurationError: the rate is out of range.
    """
    if rate is not None and not 1 <= rate <= MAX_MOVES_PER_SECOND:
        raise ConfigurationError(f"a task moves 1 to {MAX_MOVES_PER_SECOND} messages a second, not {rate!r}")
    request: dict[str, Any] = {"SourceArn": _arn(client, url)}
    if to is not None:
        request["DestinationArn"] = _arn(client, to)
    if rate is not None:
        request["MaxNumberOfMessagesPerSecond"] = rate
    handle: str = client.start_message_move_task(**request)["TaskHandle"]
    return handle


def move_tasks(client: Any, url: str) -> list[MoveTask]:
    """The last tasks of a dead-letter queue, up to ten, the newest first."""
    answer = client.list_message_move_tasks(SourceArn=_arn(client, url), MaxResults=10)
    return [
        MoveTask(
            task["Status"],
            int(task.get("ApproximateNumberOfMessagesMoved") or 0),
            task.get("ApproximateNumberOfMessagesToMove"),
            task.get("DestinationArn"),
            task.get("MaxNumberOfMessagesPerSecond"),
            float(task.get("StartedTimestamp") or 0) / 1000,
            task.get("FailureReason"),
            task.get("TaskHandle"),
        )
        for task in answer.get("Results") or ()
    ]


def cancel_move(client: Any, url: str) -> int:
    """End the running task; returns how many messages it has moved. They are not moved back.

    :raises SQSError: no task runs.
    """
    for task in move_tasks(client, url):
        if task.handle is not None:
            answer = client.cancel_message_move_task(TaskHandle=task.handle)
            return int(answer.get("ApproximateNumberOfMessagesMoved") or 0)
    raise SQSError(f"no task moves the messages of {url}")


def follow_move(
    client: Any,
    url: str,
    *,
    clock: Clock = SYSTEM_CLOCK,
    interval: float = 2.0,
    progress: Callable[[MoveTask], None] | None = None,
) -> MoveTask:
    """Wait for the end of the newest task, and cancel it if letters come back.

    They do if the dead-letter queue holds, beyond what the task has still to move, more than a twentieth of
    what it has moved.

    :param interval: seconds between two looks.
    :raises SQSError: there is no task.
    """
    while True:
        tasks = move_tasks(client, url)
        if not tasks:
            raise SQSError(f"no task has moved messages of {url}")
        task = tasks[0]
        if progress is not None:
            progress(task)
        if not task.running:
            return task
        if task.to_move is not None and task.status == "RUNNING":
            extra = depth(queue_attributes(client, url)) - (task.to_move - task.moved)
            if task.moved and extra > max(10, task.moved * _COMES_BACK):
                cancel_move(client, url)
        pause(clock, interval)


def _arn(client: Any, url: str) -> str:
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn
