"""The engine: from receipt to settlement. It knows a transport, handlers and policies, and nothing else.

The journey of a message, step by step:

1. a receiver (``poller``) asks for no more than ``slots`` allows, and hands what comes to
   :meth:`Engine.admit`;
2. ``heartbeat`` holds the message from its receipt;
3. :meth:`Engine.dispatch` gives it a slot, in the order that ``lanes`` keeps, and ``executors`` call the
   handler;
4. :meth:`Engine.claim` ends its run, once; ``steps`` turn the outcome into a settlement;
5. ``acker`` settles it;
6. :meth:`Engine.free_slots` gives the slot to the next;
7. the shutdown policy sees the result.

One lock guards phases, buffers and counts; it is reentrant. The locks of heartbeat and acker are taken inside
of it, never around it. Signal handlers take none (see ``lifecycle``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqs_workers.outcome import (
    Delete,
    MoveTo,
    Outcome,
    Postponed,
    Settlement,
    Succeeded,
    Unrun,
    Unsettled,
)
from sqs_workers.transport import connections_of
from sqs_workers.width import Width
from sqs_workers.worker import batches, circuit, steps
from sqs_workers.worker.acker import Acker
from sqs_workers.worker.executors import STOP_SHARE, Executors, Work
from sqs_workers.worker.heartbeat import Heartbeat
from sqs_workers.worker.held import Held, Phase, ReceiptControl
from sqs_workers.worker.releases import Releases
from sqs_workers.worker.shutdown import ShutdownWatch, Watch
from sqs_workers.worker.slots import BACKLOG_ALLOWANCE, Slots
from sqs_workers.worker.source import SourceState

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.hooks import HookRegistry
    from sqs_workers.messages import Message
    from sqs_workers.transport import Transport
    from sqs_workers.worker.contract import Source

__all__ = ["Engine"]

logger = logging.getLogger(__name__)

_FAILED = "an earlier job of the group failed"
_DROPPED = "an earlier message of the group was dropped"
_SUCCEEDED = Succeeded()


class Engine:
    """What a running worker consists of, and the steps of a message through it."""

    def __init__(
        self,
        sources: Sequence[Source],
        transport: Transport,
        *,
        concurrency: int,
        inline: bool,
        clock: Clock,
        hooks: HookRegistry,
        shutdown_policy: object = None,
        shutdown_timeout: float = 30.0,
        prefetch: int | None = None,
        receivers: int | None = None,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.hooks = hooks
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        """The thread that runs the worker waits here."""
        self.sources = [SourceState(source, clock, self.lock) for source in sources]
        self.width = Width(receivers)
        self.slots = Slots(self.sources, concurrency, prefetch, self.width)
        self.heartbeat = Heartbeat(transport, clock, hooks, self._late_extension)
        self.acker = Acker(transport, clock, self._settled, self._backlog_fell)
        self.control = ReceiptControl(transport, self.heartbeat, hooks)
        self.executors = Executors(self, concurrency, inline=inline)
        self.releases = Releases(self)
        self.watch: Watch = ShutdownWatch(shutdown_policy, self)
        self.stop_reason: str | None = None
        """Why the worker stops. Set without the lock by a signal handler: nothing is started after that."""
        self.stop_now = False
        """A second signal: wait for nothing more."""
        self.stop_began = 0.0
        self._stop_begun = False
        self.shutdown_timeout = shutdown_timeout
        self.error: BaseException | None = None
        self.stopped = False

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for: nothing is received or started any more."""
        return self.stop_reason is not None

    def connected(self) -> None:
        """The transport is there: how much it can carry at once is known."""
        connections = connections_of(self.transport)
        self.width.share(connections)
        self.acker.width.share(connections)

    # -- 1 and 2: receipt

    def ask(self, state: SourceState, *, first: bool) -> int:
        """Reserve room for a receive, as much as there is; 0 if it must wait. Under the lock."""
        count = self._room(state, first=first)
        state.reserved += count
        return count

    def park(self, state: SourceState, timeout: float | None, *, first: bool) -> None:
        """A receiver of ``state`` waits until it may ask again. Under the lock."""
        state.parked += 1
        state.resting += first
        try:
            self.clock.wait(state.rest if first else state.space, timeout)
        finally:
            state.parked -= 1
            state.resting -= first

    def _room(self, state: SourceState, *, first: bool) -> int:
        if first:
            # While receives beside it bring messages, the long poll rests: it is for when there are none.
            worth_it = not state.attended or state.stalled
            if worth_it and state.attended:
                self.width.wanted()
        else:
            worth_it = state.hot and state.receives < min(state.useful_receives, self.width.value)
        return self.slots.ask(state, self.acker.backlog, first=first) if worth_it else 0

    def room_beside(self, state: SourceState) -> bool:
        """Whether a receive besides those under way would be worth its request. Under the lock."""
        return self._room(state, first=False) > 0

    def admit(
        self, state: SourceState, messages: Sequence[Message], reserved: int, *, helper: bool = False
    ) -> bool:
        """Take in what a receive brought; ``False`` if the engine is gone: the caller must give it back.

        :param helper: whether the calling thread asks the executors afterwards what it may run itself.
        """
        taken: list[Held] = []
        with self.lock:
            state.counts.received += len(messages)
            now = self.clock.monotonic()
            for message in messages:
                if not message.received_at:
                    message.received_at = now
                known = state.in_hand.get(message.message_id)
                if known is not None:
                    # SQS gave it out again while it is here: one run, settled by the newer receipt.
                    known.adopt(message)
                    self.heartbeat.discard(known)
                else:
                    known = Held(message, state, state.visibility)
                    message.lease = known
                    message.control = self.control
                    state.in_hand[message.message_id] = known
                    taken.append(known)
            self.heartbeat.add([state.in_hand[message.message_id] for message in messages])
        steps.received(self.hooks, taken)
        with self.lock:
            state.reserved -= reserved
            if self.stopped:
                return False
            state.buffer.extend(taken)
            if self.stopping:
                self.wake_receivers()
                return True
            if state.circuit is not None and state.circuit.paused:
                self.releases.waiting(state, "paused")
            elif taken:
                batches.arm(self, state)
                if helper:
                    self.executors.expect_help()
                self.dispatch()
            self.wake_receivers()
        return True

    # -- 3: a slot

    def dispatch(self) -> None:
        """Give free slots to waiting messages. Under the lock."""
        while self.stop_reason is None:
            state = self.slots.next_source()
            if state is None:
                return
            work = self._take(state)
            if not work:
                continue
            self.slots.running += 1
            state.running += 1
            self.executors.start(Work(state, work))

    def _take(self, state: SourceState) -> list[Held]:
        if state.source.batch is None:
            held = state.buffer.take()
            taken = [] if held is None else [held]
        else:
            taken = state.buffer.take_batch(state.source.batch.size)
            batches.taken(self, state)
        now = self.clock.monotonic()
        alive = []
        held_up: set[str | None] = set()
        for held in taken:
            if state.source.fifo and held.message.group_id in held_up:
                self.releases.give_back(held, _DROPPED)
                state.buffer.finished(held, False)
            elif held.expires_at > now and not held.lost:
                held.phase = Phase.RUNNING
                alive.append(held)
            else:
                held_up.add(held.message.group_id)
                self._drop_expired(held)
        return alive

    def _drop_expired(self, held: Held) -> None:
        # Another worker may have it by now. Its receipt may not even be valid: nothing is asked of SQS.
        held.source.counts.expired += 1
        logger.warning(
            "Message %s of queue %s is not started: its visibility timeout ended while it waited",
            held.message.message_id,
            held.source.name,
            extra={"queue_name": held.source.name, "message_id": held.message.message_id},
        )
        held.phase = Phase.SETTLING
        self.let_go(held)
        # Later, because hooks hear of it, and must not be called under the lock.
        self.heartbeat.set_alarm(held, 0.0, partial(self.acker.add, held, steps.LEAVE))
        self._end_of_turn(held, proceed=False, reason=_DROPPED)

    # -- 4 and 5: the end of a job

    def claim(self, held: Held) -> bool:
        """Whether the caller is the one who ends this message's run."""
        with self.lock:
            if held.phase is not Phase.RUNNING:
                return False
            held.phase = Phase.SETTLING
            self.let_go(held)
            return True

    def conclude(self, held: Held, outcome: Outcome) -> None:
        """Settle a claimed message as its outcome demands."""
        duration = self.clock.monotonic() - held.started_at if held.started_at else 0.0
        ran = not isinstance(outcome, (Unrun, Postponed))
        action: Settlement = steps.LEAVE
        try:
            action = steps.settle(held, outcome)
            steps.report(self.hooks, held, outcome, action, duration)
            if ran:
                circuit.feed(self, held.source, outcome)
        finally:
            # Whatever a policy raised: a group must not wait for a message that is never settled.
            self.acker.add(held, action, more=bool(held.source.in_hand) and not self.stopping)
            if not isinstance(action, MoveTo):
                self._end_of_turn(held, proceed=isinstance(action, Delete), reason=_FAILED)
        if ran:
            self.watch.ended(held, outcome)

    def succeeded(self, ended: Sequence[tuple[Held, float]], *, wake: bool = True) -> None:
        """Settle messages of plain queues whose jobs have succeeded, each with the seconds that it took.

        :param wake: as for :meth:`Acker.add_all`.
        """
        by_source: dict[SourceState, list[Held]] = {}
        with self.lock:
            claimed = [(held, took) for held, took in ended if held.phase is Phase.RUNNING]
            for held, _ in claimed:
                held.phase = Phase.SETTLING
                held.source.in_hand.pop(held.message.message_id, None)
                by_source.setdefault(held.source, []).append(held)
            self.heartbeat.discard_all(held for held, _ in claimed)
        try:
            steps.succeeded(self.hooks, claimed)
        finally:
            for state, done in by_source.items():
                more = bool(state.in_hand) and not self.stopping
                self.acker.add_all(done, steps.DELETE, more=more, wake=wake)
        if self.watch.watches:
            for held, _ in claimed:
                self.watch.ended(held, _SUCCEEDED)

    def let_go(self, held: Held) -> None:
        """Hold the message no longer: it is about to be settled."""
        held.source.in_hand.pop(held.message.message_id, None)
        self.heartbeat.discard(held)

    def _end_of_turn(self, held: Held, *, proceed: bool, reason: str) -> None:
        """Let the next of the group run, or give the others back. After the settlement was handed on."""
        if not held.source.source.fifo:
            return
        with self.lock:
            rest = held.source.buffer.finished(held, proceed)
            # Behind the failed one in the acker's order; while that is in flight or visible before them, SQS
            # hands none of these out ahead of it.
            for other in rest:
                self.releases.give_back(other, reason)
            if proceed:
                self.dispatch()
            self.changed.notify_all()

    # -- 6: the slot

    def free_slots(self, ended: Sequence[tuple[SourceState, float | None]]) -> None:
        """Jobs or batches no longer take a slot: of which queue, and the seconds they ran, for the rate."""
        with self.lock:
            self.slots.running -= len(ended)
            for state, _ in ended:
                state.running -= 1
            self.slots.jobs_took(seconds for _, seconds in ended if seconds is not None)
            if not self.stopping:
                self.dispatch()
                self.wake_receivers()
            if self.stopping or (self.executors.inline and not self.slots.running):
                self.changed.notify_all()

    def wake_receivers(self) -> None:
        """Wake a receiver of each queue if there is room for what it would ask for. Under the lock."""
        for state in self.sources:
            if state.resting and self._room(state, first=True):
                state.rest.notify()
            if state.parked > state.resting and self.room_beside(state):
                # This one wakes the next, if there is still room.
                state.space.notify()

    # -- 7 and the rest

    def _settled(self, held: Held, ok: bool) -> None:
        steps.settled(self.hooks, held, ok)
        if ok and held.message.after_delete is not None:
            steps.clean_up(held)
        if isinstance(held.action, MoveTo):
            self._end_of_turn(held, proceed=ok, reason=_FAILED)

    def _backlog_fell(self, before: int) -> None:
        # Receivers that waited because of it have nobody else to wake them once all jobs have ended.
        if before > BACKLOG_ALLOWANCE:
            with self.lock:
                self.wake_receivers()

    def _late_extension(self, held: Held) -> None:
        self.acker.again(held)

    def request_stop(self, reason: str) -> None:
        """Begin to stop: what waits for a slot is given back at once, and everybody is told."""
        with self.lock:
            if self.stop_reason is None:
                self.stop_reason = reason
            if self._stop_begun:
                return
            self._stop_begun = True
            self.stop_began = self.clock.monotonic()
            try:
                for held in self.executors.withdraw():
                    self.releases.give_back(held, "stopping")
                    self._end_of_turn(held, proceed=False, reason="stopping")
                for state in self.sources:
                    self.releases.at_stop(state)
                self.executors.arm_interrupt(self.shutdown_timeout * STOP_SHARE)
            finally:
                self.wake_all()

    def wake_all(self) -> None:
        """Let every waiting thread look at the state again."""
        with self.lock:
            for state in self.sources:
                state.wake_receivers()
            self.changed.notify_all()
            self.executors.wake()

    def fail(self, error: BaseException, reason: str) -> None:
        """Stop because the worker cannot go on; ``run()`` raises ``error``."""
        with self.lock:
            if self.error is None:
                self.error = error
            self.request_stop(reason)

    def give_up_waiting(self, held: Held, error: BaseException) -> bool:
        """Leave a message whose handler cannot be ended to its visibility timeout; whether it still ran."""
        held.zombie = True
        if not self.claim(held):
            return False
        self.conclude(held, Unsettled("its handler cannot be ended", error))
        return True
