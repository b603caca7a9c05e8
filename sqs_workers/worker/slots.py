"""How much a worker takes in: never more messages than it has free slots, plus half a second of work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from sqs_workers.limits import MAX_BATCH_ENTRIES

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.width import Width
    from sqs_workers.worker.source import SourceState

__all__ = ["BACKLOG_ALLOWANCE", "Slots"]

PREFETCH_SECONDS = 0.5
# What the messages held above the slots may take of memory, by the size of the last ones.
_PREFETCH_BYTES = 64 * 2**20
SHORT_SECONDS = 0.001
_PREFETCH = 100
_PREFETCH_PER_RECEIVE = 25
BACKLOG_ALLOWANCE = 200
"""Settlements that may wait while receiving goes on; beyond, the worker takes in less: memory stays bounded."""


class Slots:
    """Counts slots and says how many messages a receive may ask for. Used under the engine's lock.

    A slot is a job, or a batch of a batch handler. Several queues share the slots by weight: a queue may use
    what the others do not need, and each may always hold one message, so that none starves.

    :param prefetch: messages held above the slots at most; ``None`` for half a second of work at the measured
        rate, which is none for slow jobs.
    """

    def __init__(
        self, sources: Sequence[SourceState], concurrency: int, prefetch: int | None, width: Width
    ) -> None:
        self.sources = sources
        self.concurrency = concurrency
        self.running = 0
        self._allowance = MAX_BATCH_ENTRIES * concurrency
        self._fixed_prefetch = prefetch
        self._width = width
        self._weights = sum(state.source.weight for state in sources)
        self._duration: float | None = None
        self._mean = 1.0
        self.short = False
        """Whether jobs are so short that waking a thread for one costs more than the job."""
        self._round_trip: float | None = None
        self._bytes = 0.0
        self._turn = 0.0
        self.prefetch = prefetch or 0

    # -- measuring

    def jobs_took(self, durations: Iterable[float]) -> None:
        """Take durations of jobs into the average. A slow one counts more than a fast one."""
        for seconds in durations:
            if self._duration is None:
                self._duration = self._mean = seconds
            else:
                self._duration += (seconds - self._duration) * (0.3 if seconds > self._duration else 0.05)
                self._mean += (seconds - self._mean) * 0.1
        self.short = self._mean < SHORT_SECONDS
        if self._fixed_prefetch is None:
            self.prefetch = self._measured_prefetch()

    def received(self, messages: Sequence[Message]) -> None:
        """Take the size of what a receive brought into the average: characters of the bodies, about their bytes."""
        size = sum(len(message.body) for message in messages) / len(messages)
        self._bytes = max(size, self._bytes * 0.9)

    def receive_took(self, seconds: float) -> None:
        """Take a receive that brought messages at once into the average."""
        if self._round_trip is None:
            self._round_trip = seconds
        else:
            self._round_trip += (seconds - self._round_trip) * 0.2

    @property
    def rate(self) -> float:
        """Jobs a second that the slots can do; 0 before the first job has ended."""
        if self._duration is None:
            return 0.0
        return self.concurrency / max(self._duration, 1e-5)

    def _measured_prefetch(self) -> int:
        half_a_second = self.rate * PREFETCH_SECONDS
        if half_a_second < self.concurrency:
            return 0
        # Enough to keep the slots busy for two round trips, and the receives in tens.
        needed = ceil(self.rate * (self._round_trip or 0.05) * 2) + MAX_BATCH_ENTRIES
        most = max(_PREFETCH, _PREFETCH_PER_RECEIVE * self._width.value)
        return int(min(half_a_second, needed, most, _PREFETCH_BYTES / (self._bytes + 1)))

    # -- taking in

    def ask(self, state: SourceState, backlog: int, *, first: bool) -> int:
        """How many messages a receive of ``state`` may ask for now; 0 for none.

        :param first: whether this is the queue's long poll, the one that is always there.
        """
        circuit = state.circuit
        if circuit is not None and circuit.paused:
            return 0
        batch = state.source.batch
        unit = 1 if batch is None else batch.size
        prefetch = self.prefetch if batch is None and not state.received_once_only else 0
        held = state.buffer.load(self._allowance) + state.reserved
        free = self.concurrency * unit + prefetch - self._taken(state, unit)
        free -= max(0, backlog - BACKLOG_ALLOWANCE)
        if len(self.sources) > 1:
            free = self._share(state, free, unit, prefetch, first)
        if circuit is not None and circuit.limit is not None:
            free = min(free, circuit.limit * unit - state.running * unit - held)
        if free <= 0:
            return 0
        if free < MAX_BATCH_ENTRIES and held > prefetch // 2 and unit == 1:
            # Enough is here or on its way: wait until a receive is worth its request.
            return 0
        return min(free, MAX_BATCH_ENTRIES)

    def _taken(self, state: SourceState, unit: int) -> int:
        if len(self.sources) == 1:
            return self.running * unit + state.buffer.load(self._allowance) + state.reserved
        # What an idle queue's long poll may bring takes no slot from the others: it is one message at most.
        return self.running * unit + sum(
            other.buffer.load(self._allowance) + (other.reserved if other is state or other.hot else 0)
            for other in self.sources
        )

    def _share(self, state: SourceState, free: int, unit: int, prefetch: int, first: bool) -> int:
        mine = state.running * unit + state.buffer.load(self._allowance) + state.reserved
        contended = any(other is not state and other.buffer.ready() for other in self.sources)
        if contended:
            share = max(1, self.concurrency * state.source.weight // self._weights) * unit
            share += prefetch * state.source.weight // self._weights
            free = min(free, share - mine)
        if first and mine == 0 and (free <= 0 or not state.hot):
            return 1
        return free

    # -- handing out

    def next_source(self) -> SourceState | None:
        """Which queue's message gets the next free slot; that counts as its turn.

        The queue with the fewest jobs by its weight. Where slots are fewer than queues, that says nothing: of
        those that are level, they take turns, by weight, too.
        """
        if self.running >= self.concurrency:
            return None
        if len(self.sources) == 1:
            return self.sources[0] if _may_start(self.sources[0]) else None
        best: SourceState | None = None
        lowest = 0.0
        for state in self.sources:
            if not _may_start(state):
                continue
            load = state.running / state.source.weight
            if best is None or load < lowest or (load == lowest and state.turn < best.turn):
                best, lowest = state, load
        if best is not None:
            # Not behind the last turn: a queue that had nothing to run has saved nothing up.
            self._turn = max(self._turn, best.turn)
            best.turn = self._turn + 1 / best.source.weight
        return best


def _may_start(state: SourceState) -> bool:
    """Whether the queue has a message, or a batch, to run, and may run it."""
    if not state.buffer.ready():
        return False
    circuit = state.circuit
    if circuit is not None and circuit.limit is not None and state.running >= circuit.limit:
        return False
    batch = state.source.batch
    if batch is None or len(state.buffer) >= batch.size:
        return True
    return state.batch_due is not None and state.batch_due <= state.clock.monotonic()
