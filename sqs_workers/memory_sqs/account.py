"""The queues of one imaginary AWS account in one region, and the lock over all of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sqs_workers.clock import Clock, SteppableClock
from sqs_workers.limits import MAX_IN_FLIGHT_STANDARD
from sqs_workers.memory_sqs.faults import no_such_queue
from sqs_workers.memory_sqs.queue_state import QueueState
from sqs_workers.memory_sqs.records import Message

__all__ = ["Account", "MoveTask", "ReceiveAttempt", "dead_letter"]


@dataclass
class MoveTask:
    """One StartMessageMoveTask. ``started_at`` is on the clock's monotonic scale."""

    handle: str
    source: QueueState
    destination_arn: str | None
    per_second: int | None
    to_move: int
    started_at: float
    started_ms: int
    moved: int = 0
    status: str = "RUNNING"
    failure: str | None = None


@dataclass
class ReceiveAttempt:
    """What a receive with a ReceiveRequestAttemptId returned, to be returned again."""

    until: float
    visibility: int
    messages: list[Message] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)
    dues: list[float | None] = field(default_factory=list)


class Account:
    """Shared state. Every method expects the caller to hold ``lock``."""

    def __init__(
        self,
        clock: Clock | None = None,
        region_name: str = "us-east-1",
        account_id: str = "123456789012",
        endpoint_url: str | None = None,
    ) -> None:
        self.clock: Clock = clock if clock is not None else SteppableClock()
        self.region_name = region_name
        self.account_id = account_id
        self.endpoint_url = (endpoint_url or f"https://sqs.{region_name}.amazonaws.com").rstrip("/")
        self.max_in_flight = MAX_IN_FLIGHT_STANDARD
        self.lock = threading.RLock()
        self.queues: dict[str, QueueState] = {}
        self.deleted_at: dict[str, float] = {}
        self.tasks: list[MoveTask] = []
        self.running_tasks = 0
        self.attempts: OrderedDict[tuple[str, str], ReceiveAttempt] = OrderedDict()
        self._by_url: dict[str, QueueState] = {}

    def url(self, name: str) -> str:
        return f"{self.endpoint_url}/{self.account_id}/{name}"

    def arn(self, name: str) -> str:
        return f"arn:aws:sqs:{self.region_name}:{self.account_id}:{name}"

    def queue_by_url(self, url: str) -> QueueState:
        """The queue whose account and name end the path of ``url``, on whatever host.

        :raises Fault: ``AWS.SimpleQueueService.NonExistentQueue``.
        """
        queue = self._by_url.get(url)
        if queue is None:
            try:
                parts = urlsplit(url).path.rstrip("/").split("/")
            except ValueError:
                parts = []
            if len(parts) < 2 or parts[-2] != self.account_id or parts[-1] not in self.queues:
                raise no_such_queue()
            queue = self._by_url[url] = self.queues[parts[-1]]
        return queue

    def queue_by_arn(self, arn: str) -> QueueState | None:
        prefix, _, name = arn.rpartition(":")
        queue = self.queues.get(name)
        return queue if queue is not None and queue.arn == arn and prefix else None

    def add_queue(self, queue: QueueState) -> None:
        self.queues[queue.name] = queue

    def drop_queue(self, queue: QueueState, now: float) -> None:
        """Forget the queue and all of its messages, and end the polls on it."""
        queue.deleted = True
        del self.queues[queue.name]
        self._by_url = {url: known for url, known in self._by_url.items() if known is not queue}
        self.deleted_at[queue.name] = now
        queue.notify()

    def now_ms(self) -> int:
        return int(self.clock.time() * 1000)


def dead_letter(account: Account, source: QueueState, message: Message, now: float) -> bool:
    """Move ``message`` to the dead-letter queue if it was received often enough.

    A standard queue's message keeps its enqueue time, a FIFO queue's gets a new one:
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html
    In a FIFO queue its message id replaces its deduplication id:
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html

    What counts are the receives from this queue: a message that came here from another
    queue shows a higher ``ApproximateReceiveCount``, which goes on growing.

    Returns ``False``, and the message stays, while the dead-letter queue does not exist.
    """
    policy = source.settings.redrive
    if policy is None or message.receives < policy.max_receive_count:
        return False
    target = account.queue_by_arn(policy.target_arn)
    if target is None or target is source:
        return False
    moved = message.copy_for_other_queue()
    moved.source_arn = source.arn
    if target.fifo:
        moved.enqueued_at = now
        moved.deduplication_id = moved.id
    source.remove(message)
    target.tick(now)
    target.put(moved, now)
    target.notify()
    return True
