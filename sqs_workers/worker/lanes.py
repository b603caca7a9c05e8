"""Messages that wait for a slot: in order of arrival, or one lane for each message group of a FIFO queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.worker.held import Held

__all__ = ["Buffer", "Lanes"]


class Buffer:
    """The waiting messages of a standard queue, message groups (fair queues) or not: all may run at once."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Held] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def extend(self, messages: Iterable[Held]) -> None:
        """Take in messages in the order in which SQS gave them."""
        self._waiting.extend(messages)

    def ready(self) -> int:
        """How many messages may start now."""
        return len(self._waiting)

    def load(self, allowance: int) -> int:
        """How many slots the waiting messages will take."""
        return len(self._waiting)

    def take(self) -> Held | None:
        """The next message that may start, or ``None``."""
        return self._waiting.popleft() if self._waiting else None

    def take_batch(self, size: int) -> list[Held]:
        """Up to ``size`` messages that may start together."""
        return [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]

    def finished(self, message: Held, proceed: bool) -> list[Held]:
        """A message that was taken has ended; returns those that must not run any more: none here."""
        return []

    def clear(self) -> list[Held]:
        """Remove and return everything that waits."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting


class Lanes:
    """The waiting messages of a FIFO queue: groups side by side, within a group one at a time and in order.

    After a message that did not leave the queue, the others of its group that are here come back from
    :meth:`finished` to be given back unrun, and the group is forgotten: what a later receive brings of it
    is in order again, for SQS hands out nothing of a group while one of its messages is in flight.
    """

    __slots__ = ("_busy", "_lanes", "_ready", "_waiting")

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Held]] = {}
        # How many messages of the group are with a handler: more than one only in a batch.
        self._busy: dict[str, int] = {}
        self._ready: deque[str] = deque()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def extend(self, messages: Iterable[Held]) -> None:
        """Take in messages in the order in which SQS gave them."""
        for message in messages:
            group = _group(message)
            lane = self._lanes.get(group)
            if lane is None:
                lane = self._lanes[group] = deque()
                if group not in self._busy:
                    self._ready.append(group)
            lane.append(message)
            self._waiting += 1

    def ready(self) -> int:
        """How many groups have a message that may start now."""
        return len(self._ready)

    def load(self, allowance: int) -> int:
        """How many slots the waiting messages will take.

        SQS gives out a group's messages together. Those behind another of their group take no slot until
        that has ended, and must not keep other groups out: up to ``allowance`` of them do not count.
        """
        ready = len(self._ready)
        return ready + max(0, self._waiting - ready - allowance)

    def take(self) -> Held | None:
        """The first message of a group of which none runs, or ``None``."""
        if not self._ready:
            return None
        group = self._ready.popleft()
        lane = self._lanes[group]
        message = lane.popleft()
        if not lane:
            del self._lanes[group]
        self._busy[group] = 1
        self._waiting -= 1
        return message

    def take_batch(self, size: int) -> list[Held]:
        """Up to ``size`` messages of groups of which none runs, each group's in order."""
        batch: list[Held] = []
        while self._ready and len(batch) < size:
            group = self._ready.popleft()
            lane = self._lanes[group]
            taken = [lane.popleft() for _ in range(min(size - len(batch), len(lane)))]
            if not lane:
                del self._lanes[group]
            self._busy[group] = len(taken)
            batch.extend(taken)
        self._waiting -= len(batch)
        return batch

    def finished(self, message: Held, proceed: bool) -> list[Held]:
        """A message that was taken has ended.

        :param proceed: whether it has left the queue, so that the next of its group may run.
        :returns: the messages that must be given back unrun, in order.
        """
        group = _group(message)
        rest: list[Held] = []
        if not proceed and group in self._lanes:
            rest = list(self._lanes.pop(group))
            self._waiting -= len(rest)
        running = self._busy.get(group, 0) - 1
        if running > 0:
            self._busy[group] = running
            return rest
        self._busy.pop(group, None)
        if group in self._lanes:
            self._ready.append(group)
        return rest

    def clear(self) -> list[Held]:
        """Remove and return everything that waits."""
        waiting = [message for lane in self._lanes.values() for message in lane]
        self._lanes.clear()
        self._ready.clear()
        self._waiting = 0
        return waiting


def _group(message: Held) -> str:
    return message.message.group_id or ""
