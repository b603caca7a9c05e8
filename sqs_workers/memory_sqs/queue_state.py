"""The state machine of a queue: what is waiting, delayed, in flight and gone.

Every step costs O(log n) at most, however deep the queue is.
"""

from __future__ import annotations

import heapq
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable

from sqs_workers.memory_sqs.attributes import QueueSettings
from sqs_workers.memory_sqs.deduplication import Deduplication
from sqs_workers.memory_sqs.records import DELAYED, GONE, IN_FLIGHT, VISIBLE, Message, new_id
from sqs_workers.memory_sqs.timers import Timers

__all__ = ["DeadLetters", "QueueState", "StandardQueue"]

DeadLetters = Callable[[Message], bool]
"""Offered a message before it is handed out; ``True`` if it went to the dead-letter queue."""


class QueueState(ABC):
    """What standard and FIFO queues have in common. The caller holds the backend's lock.

    Moments are on the clock's monotonic scale, in seconds.
    """

    fifo: bool

    def __init__(self, name: str, arn: str, settings: QueueSettings, lock: threading.RLock) -> None:
        self.name = name
        self.arn = arn
        self.settings = settings
        self.uid = new_id()[:13]
        self.changed = threading.Condition(lock)
        self.pollers = 0
        self.wakes = 0
        self.listeners: dict[int, Callable[[], None]] = {}
        self.deleted = False
        self.tags: dict[str, str] = {}
        self.created_s = 0
        self.modified_s = 0
        self.purged_at: float | None = None
        self.deduplication = Deduplication()
        self.counts = [0, 0, 0]
        self.last_number = 0
        self._messages: OrderedDict[int, Message] = OrderedDict()
        # Messages that came from another queue with an older enqueue time; the
        # others are in _messages in the order of theirs.
        self._older: list[tuple[float, int, Message]] = []
        self._timers = Timers()

    # -- time -------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Let delays, visibility timeouts and retention periods that are over take effect."""
        next_due = self._timers.next_due()
        if next_due is not None and next_due <= now:
            for message in self._timers.due(now):
                message.timed_out = message.state == IN_FLIGHT
                self._reveal(message)
        self._drop_expired(now - self.settings.retention)

    def next_due(self) -> float | None:
        """A moment not later than the next one at which a message may become visible by itself."""
        return self._timers.next_due()

    def _drop_expired(self, enqueued_before: float) -> None:
        while self._messages:
            oldest = next(iter(self._messages.values()))
            if oldest.enqueued_at > enqueued_before:
                break
            self.remove(oldest)
        while self._older and self._older[0][0] <= enqueued_before:
            message = heapq.heappop(self._older)[2]
            if message.state != GONE:
                self.remove(message)

    # -- in and out -------------------------------------------------------

    def put(self, message: Message, now: float, delay: float = 0) -> None:
        """Add a message whose ``enqueued_at`` is set."""
        self.last_number += 1
        message.number = self.last_number
        message.sequence = self._sequence(message.number)
        self._messages[message.number] = message
        if message.enqueued_at < now:
            heapq.heappush(self._older, (message.enqueued_at, message.number, message))
        if delay > 0:
            message.state = DELAYED
            self.counts[DELAYED] += 1
            self._timers.set(message, now + delay)
            self._enter(message)
        else:
            message.state = VISIBLE
            self.counts[VISIBLE] += 1
            self._enter(message)

    def take(self, now: float, limit: int, visibility: float, dead: DeadLetters | None) -> list[Message]:
        """Hand out up to ``limit`` visible messages and hide them for ``visibility`` seconds."""
        taken = self._next_visible(limit, dead)
        for message in taken:
            message.receives += 1
            message.receive_count += 1
            message.received_at = now
            message.timed_out = False
            self._timers.set(message, now + visibility)
        return taken

    def messages(self) -> list[Message]:
        """All messages, in the order in which they were put here."""
        return list(self._messages.values())

    def find(self, number: int) -> Message | None:
        return self._messages.get(number)

    def remove(self, message: Message) -> None:
        """Take a message out for good, whatever its state."""
        self.counts[message.state] -= 1
        was = message.state
        message.state = GONE
        self._timers.cancel(message)
        del self._messages[message.number]
        self._left(message, was == IN_FLIGHT)
        message.forget_content()

    def hide_until(self, message: Message, due: float) -> None:
        """Move the end of the visibility timeout of a message in flight."""
        self._timers.set(message, due)

    def release(self, message: Message) -> None:
        """Make a message in flight visible at once."""
        self._timers.cancel(message)
        self._reveal(message)

    def purge(self) -> None:
        for message in list(self._messages.values()):
            self.remove(message)

    def oldest_visible(self) -> Message | None:
        """The next message that could be received, without receiving it."""
        for message in self._messages.values():
            if message.state == VISIBLE:
                return message
        return None

    def notify(self) -> None:
        """Wake whoever waits for a message of this queue."""
        if self.pollers:
            self.changed.notify_all()
        for listener in list(self.listeners.values()):
            listener()

    # -- what differs -----------------------------------------------------

    @abstractmethod
    def apply_delay(self) -> None:
        """Let a changed ``DelaySeconds`` take effect on the messages already there.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html
        """

    @abstractmethod
    def _sequence(self, number: int) -> str: ...

    @abstractmethod
    def _enter(self, message: Message) -> None:
        """Note a message that was just put, visible or delayed."""

    @abstractmethod
    def _reveal(self, message: Message) -> None:
        """From delayed or in flight to visible."""

    @abstractmethod
    def _next_visible(self, limit: int, dead: DeadLetters | None) -> list[Message]:
        """Move up to ``limit`` messages from visible to in flight."""

    @abstractmethod
    def _left(self, message: Message, was_in_flight: bool) -> None:
        """Note a message that was just removed."""


class StandardQueue(QueueState):
    """Any order, in fact that of becoming visible."""

    fifo = False

    def __init__(self, name: str, arn: str, settings: QueueSettings, lock: threading.RLock) -> None:
        super().__init__(name, arn, settings, lock)
        self._ready: deque[Message] = deque()

    def apply_delay(self) -> None:
        """A standard queue's delay is not retroactive."""

    def _sequence(self, number: int) -> str:
        return ""

    def _enter(self, message: Message) -> None:
        if message.state == VISIBLE:
            self._ready.append(message)

    def _reveal(self, message: Message) -> None:
        self.counts[message.state] -= 1
        self.counts[VISIBLE] += 1
        message.state = VISIBLE
        self._ready.append(message)

    def _next_visible(self, limit: int, dead: DeadLetters | None) -> list[Message]:
        taken: list[Message] = []
        ready = self._ready
        while ready and len(taken) < limit:
            message = ready.popleft()
            if message.state != VISIBLE or (dead is not None and dead(message)):
                continue
            message.state = IN_FLIGHT
            taken.append(message)
        self.counts[VISIBLE] -= len(taken)
        self.counts[IN_FLIGHT] += len(taken)
        return taken

    def _left(self, message: Message, was_in_flight: bool) -> None:
        pass
