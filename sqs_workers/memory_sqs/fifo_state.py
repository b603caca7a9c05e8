"""The state machine of a FIFO queue: order and blocking within message groups.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
"""

from __future__ import annotations

import heapq
import threading

from sqs_workers.memory_sqs.attributes import QueueSettings
from sqs_workers.memory_sqs.queue_state import DeadLetters, QueueState
from sqs_workers.memory_sqs.records import DELAYED, IN_FLIGHT, VISIBLE, Message

__all__ = ["FifoQueue"]

_FIRST_SEQUENCE = 18_850_000_000_000_000_000
_SEQUENCE_STEP = 256


class _Group:
    """The messages of one group: those not in flight by their order, and how many are in flight."""

    __slots__ = ("announced", "in_flight", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, Message]] = []
        self.in_flight = 0
        # Number of the head for which the group stands in the queue's heap.
        self.announced: int | None = None

    def head(self) -> Message | None:
        waiting = self.waiting
        while waiting:
            message = waiting[0][1]
            if message.state in (VISIBLE, DELAYED):
                return message
            heapq.heappop(waiting)
        return None


class FifoQueue(QueueState):
    """Groups with a visible head and nothing in flight are ready, the oldest head first.

    A group is blocked while any message of it is in flight; a message that
    becomes visible again goes back to its old place.
    """

    fifo = True

    def __init__(self, name: str, arn: str, settings: QueueSettings, lock: threading.RLock) -> None:
        super().__init__(name, arn, settings, lock)
        self._groups: dict[str, _Group] = {}
        self._ready: list[tuple[int, str]] = []

    def _sequence(self, number: int) -> str:
        return str(_FIRST_SEQUENCE + number * _SEQUENCE_STEP)

    def apply_delay(self) -> None:
        """A FIFO queue's delay is retroactive: it holds for the messages already there, too."""
        for message in self._messages.values():
            if message.state == DELAYED:
                self._timers.set(message, message.enqueued_at + self.settings.delay)

    def _enter(self, message: Message) -> None:
        group_id = message.group_id or ""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group()
        heapq.heappush(group.waiting, (message.number, message))
        self._announce(group_id, group)

    def _announce(self, group_id: str, group: _Group) -> None:
        if group.in_flight:
            return
        head = group.head()
        if head is None:
            del self._groups[group_id]
        elif head.state == VISIBLE and group.announced != head.number:
            group.announced = head.number
            heapq.heappush(self._ready, (head.number, group_id))

    def _reveal(self, message: Message) -> None:
        was_in_flight = message.state == IN_FLIGHT
        self.counts[message.state] -= 1
        self.counts[VISIBLE] += 1
        message.state = VISIBLE
        group_id = message.group_id or ""
        group = self._groups[group_id]
        if was_in_flight:
            group.in_flight -= 1
            heapq.heappush(group.waiting, (message.number, message))
        self._announce(group_id, group)

    def _next_visible(self, limit: int, dead: DeadLetters | None) -> list[Message]:
        taken: list[Message] = []
        while self._ready and len(taken) < limit:
            number, group_id = heapq.heappop(self._ready)
            group = self._groups.get(group_id)
            if group is None or group.announced != number:
                continue
            group.announced = None
            if not group.in_flight:
                self._take_from(group_id, group, limit, taken, dead)
        return taken

    def _take_from(
        self, group_id: str, group: _Group, limit: int, taken: list[Message], dead: DeadLetters | None
    ) -> None:
        while len(taken) < limit:
            head = group.head()
            if head is None or head.state != VISIBLE:
                break
            if dead is not None and dead(head):
                continue
            heapq.heappop(group.waiting)
            head.state = IN_FLIGHT
            self.counts[VISIBLE] -= 1
            self.counts[IN_FLIGHT] += 1
            group.in_flight += 1
            taken.append(head)
        # Every message may have gone to the dead-letter queue, or a delayed one be next.
        if self._groups.get(group_id) is group:
            self._announce(group_id, group)

    def _left(self, message: Message, was_in_flight: bool) -> None:
        group_id = message.group_id or ""
        group = self._groups.get(group_id)
        if group is None:
            return
        if was_in_flight:
            group.in_flight -= 1
        self._announce(group_id, group)
