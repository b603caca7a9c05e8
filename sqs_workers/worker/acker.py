"""Settles messages, each once: deletes and visibility changes in tens, dead-letter copies one by one.

A queue that drains fast fills its batches; a lone slow job is settled at once. Whatever fails is tried again,
entry by entry, while the message is still ours; a job is never run again because its delete failed here.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from sqs_workers.limits import MAX_BATCH_ENTRIES
from sqs_workers.outcome import ChangeVisibility, Delete, Leave, MoveTo, Settlement
from sqs_workers.transport import EntryError, ErrorKind, classify, classify_code, error_code
from sqs_workers.width import Width
from sqs_workers.worker.ack_lanes import Lane, Lanes
from sqs_workers.worker.calls import join_all, start_thread
from sqs_workers.worker.denied import DeniedNotice
from sqs_workers.worker.held import Held, Phase, log_fields
from sqs_workers.worker.moves import send_copy

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.transport import Transport
    from sqs_workers.worker.source import SourceState

__all__ = ["Acker"]

logger = logging.getLogger(__name__)

_RETRY_FIRST = 0.2
_RETRY_MAX = 5.0
_DENIED_ATTEMPTS = 3


class Acker:
    """Batches of settlements and the threads that send them.

    :param on_settled: called for each message when SQS took its settlement, or refused it to the end.
    :param on_less: called, without a lock, when the backlog has become smaller, with what it was.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        on_settled: Callable[[Held, bool], object],
        on_less: Callable[[int], object] = lambda before: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._on_settled = on_settled
        self._on_less = on_less
        self.width = Width()
        lock = threading.RLock()
        self._condition = threading.Condition(lock)
        self._idle_condition = threading.Condition(lock)
        self._lanes = Lanes()
        self._retries: list[tuple[float, int, Lane, Held]] = []
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._flushing = False
        self._untold = False  # Whether something waits of which no thread was told.
        self._closed = False
        self._denied = DeniedNotice(clock)
        self.patient = True
        """Whether what these credentials may not do is tried again for as long as the message is ours."""
        self.backlog = 0
        """Messages whose settlement SQS has not taken yet."""
        self.made_visible = 0
        """Changes of visibility that SQS has taken: what an earlier receive did not bring may be there now."""

    # -- what the engine asks for

    def add(self, held: Held, action: Settlement, *, more: bool = True) -> None:
        """Carry out ``action`` soon.

        :param more: whether other messages of that queue are in hand, so that waiting may fill a batch.
        """
        self.add_all((held,), action, more=more)

    def add_all(
        self, messages: Sequence[Held], action: Settlement, *, more: bool = True, wake: bool = True
    ) -> None:
        """As :meth:`add`, for several messages of one queue.

        :param wake: ``False`` if the caller is about to call :meth:`help` or, before anything slow, :meth:`tell`.
        """
        for held in messages:
            held.action = action
        wanted = [] if isinstance(action, Leave) else [h for h in messages if not h.deleted_by_handler]
        if len(wanted) < len(messages):
            self._done([held for held in messages if held not in wanted], True, counted=False)
        if not wanted:
            return
        with self._condition:
            lane = self._lane_of(wanted[0], action)
            now = self._clock.monotonic()
            before = lane.add(wanted, now)
            self.backlog += len(wanted)
            if not before:
                lane.due = now + self._linger(lane, more)
            elif not more and lane.due > now:
                lane.due = now
            elif before // MAX_BATCH_ENTRIES == len(lane.entries) // MAX_BATCH_ENTRIES:
                return
            self._untold = not wake
            if wake:
                self._wake()

    def help(self) -> None:
        """Make one of the requests that are due in the calling thread, and see that somebody looks after the rest."""
        with self._condition:
            work = self._take_due(self._clock.monotonic())
            self.tell()
        if work is not None:
            self._carry_out(*work)

    def tell(self) -> None:
        """See that somebody looks after what was added without waking anybody."""
        if self._untold:
            with self._condition:
                self._untold = False
                if self._lanes.waiting:
                    self._wake()

    def again(self, held: Held) -> None:
        """Repeat a change of visibility that an extension may have undone."""
        seconds = held.final_visibility
        if seconds is None:
            return
        with self._condition:
            lane = self._lane_of(held, ChangeVisibility(seconds))
            lane.entries.append(held)
            lane.due = self._clock.monotonic()
            self.backlog += 1
            self._wake()

    def flush(self, deadline: float) -> bool:
        """Send everything at once from now on, and wait until it is done or ``deadline`` (monotonic)."""
        with self._condition:
            self._flushing = True
            now = self._clock.monotonic()
            for lane in self._lanes:
                lane.due = min(lane.due, now)
            self._condition.notify_all()
            while self.backlog:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._idle_condition, left)
            return True

    def left_behind(self) -> dict[str, int]:
        """Queue name -> number of messages not settled yet."""
        with self._condition:
            left = Counter(lane.source.name for _, _, lane, _ in self._retries)
            for lane in self._lanes:
                left[lane.source.name] += len(lane.entries)
            left["(requests under way)"] = self.backlog - left.total()
            return {name: count for name, count in left.items() if count > 0}

    def close(self) -> None:
        """End the threads."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the threads (real seconds); whether all have ended."""
        return not join_all(self._threads, timeout)

    # -- batching

    def _lane_of(self, held: Held, action: Settlement) -> Lane:
        kind: str
        settle: Callable[[SourceState, list[Held]], None]
        match action:
            case Delete():
                kind, settle = "delete", self._delete
            case ChangeVisibility():
                kind, settle = "visibility", self._change_visibility
            case MoveTo():
                kind, settle = "move", self._move
            case Leave():
                raise ValueError("a message that is left needs no request")
            case _:
                assert_never(action)
        return self._lanes.get(held.source, kind, settle)

    def _linger(self, lane: Lane, more: bool) -> float:
        return lane.linger if more and not self._flushing else 0.0

    def _wake(self) -> None:
        if len(self._threads) - self._waiting >= self.width.value:
            self.width.wanted()
        if self._waiting:
            self._condition.notify()
        elif len(self._threads) < self.width.value and not self._closed:
            thread = threading.Thread(target=self._run, name=f"sqs-acker-{len(self._threads)}", daemon=True)
            if start_thread(thread, others=len(self._threads)):
                self._threads.append(thread)

    def _run(self) -> None:
        while True:
            with self._condition:
                work = self._next()
                if work is None:
                    return
            self._carry_out(*work)

    def _carry_out(self, lane: Lane, batch: list[Held]) -> None:
        try:
            lane.settle(lane.source, batch)
        except BaseException:
            logger.exception(
                "Settling messages of queue %s failed",
                lane.source.name,
                extra={"queue_name": lane.source.name},
            )
            self._failed(lane.source, batch, ErrorKind.OTHER, "unexpected error")

    def _next(self) -> tuple[Lane, list[Held]] | None:
        while True:
            if len(self._threads) - self._waiting > self.width.value and not self._closed:
                # Those that are busy take what there is.
                self._wait(None)
                continue
            now = self._clock.monotonic()
            self._requeue_due(now)
            work = self._take_due(now)
            if work is not None and self._lanes.waiting:
                self._wake()  # This thread may have been woken for them, too, and its request may hang.
            if work is not None or self._closed:
                return work
            due = self._lanes.next_due
            if self._retries:
                due = self._retries[0][0] if due is None else min(due, self._retries[0][0])
            self._wait(None if due is None else due - now)

    def _take_due(self, now: float) -> tuple[Lane, list[Held]] | None:
        work = self._lanes.take(now)
        if work is not None and work[0].entries:
            work[0].due = now + self._linger(work[0], True)
        return work

    def _wait(self, seconds: float | None) -> None:
        self._waiting += 1
        try:
            self._clock.wait(self._condition, seconds)
        finally:
            self._waiting -= 1

    def _requeue_due(self, now: float) -> None:
        while self._retries and self._retries[0][0] <= now:
            _, _, lane, held = heapq.heappop(self._retries)
            lane.entries.appendleft(held)
            lane.due = now

    # -- sending

    def _delete(self, source: SourceState, batch: list[Held]) -> None:
        receipts = [held.message.receipt_handle for held in batch]
        self._send(source, batch, self._delete, lambda: self._transport.delete_batch(source.url, receipts))

    def _change_visibility(self, source: SourceState, batch: list[Held]) -> None:
        entries: list[tuple[str, int]] = []
        for held in batch:
            held.final_visibility = held.visibility_to_ask_for(self._clock.monotonic())
            entries.append((held.message.receipt_handle, held.final_visibility))
        call = partial(self._transport.change_visibility_batch, source.url, entries)
        self._send(source, batch, self._change_visibility, call)

    def _send(
        self,
        source: SourceState,
        batch: list[Held],
        again: Callable[[SourceState, list[Held]], None],
        call: Callable[[], list[EntryError | None]],
    ) -> None:
        began = self._clock.monotonic()
        try:
            results = call()
        except Exception as error:  # noqa: BLE001 - classified and tried again
            kind = classify(error)
            if len(batch) > 1 and kind in (ErrorKind.RECEIPT, ErrorKind.INVALID):
                # One entry spoils the request: the others must not pay for it.
                for held in batch:
                    again(source, [held])
            else:
                self._failed(source, batch, kind, error_code(error))
            return
        with self._condition:
            self.width.answered(self._clock.monotonic() - began)
        if len(results) != len(batch):
            self._failed(source, batch, ErrorKind.OTHER, f"{len(results)} results for {len(batch)} messages")
            return
        self._done([held for held, result in zip(batch, results, strict=True) if result is None], True)
        for held, result in zip(batch, results, strict=True):
            if result is None:
                continue
            if result.sender_fault:
                self._failed(source, [held], ErrorKind.INVALID, result.code)
            else:
                self._failed(source, [held], classify_code(result.code), result.code)

    def _move(self, source: SourceState, batch: list[Held]) -> None:
        for held in batch:
            error = send_copy(self._transport, source, held)
            if error is not None:
                # The original stays until the copy is taken.
                self._failed(source, [held], classify(error), error_code(error))
                continue
            # Only now may the original go; from here on it is a delete like any other.
            held.attempts = 0
            held.copied = True
            with self._condition:
                lane = self._lane_of(held, Delete())
                lane.entries.append(held)
                lane.due = self._clock.monotonic()
                self._wake()

    def _failed(self, source: SourceState, batch: list[Held], kind: ErrorKind, code: str) -> None:
        deletes = [held for held in batch if held.final_visibility is None]
        copying = isinstance(batch[0].action, MoveTo) and not batch[0].copied
        if kind is ErrorKind.DENIED and not copying:
            self._denied.say(source.name, "delete" if deletes else "change the visibility of", code)
        hopeless = kind in (ErrorKind.RECEIPT, ErrorKind.INVALID, ErrorKind.MISSING)
        now = self._clock.monotonic()
        gone: list[Held] = []
        with self._condition:
            for held in batch:
                held.attempts += 1
                denied = kind is ErrorKind.DENIED and not self.patient and held.attempts >= _DENIED_ATTEMPTS
                if hopeless or denied or (held.expires_at <= now and held.attempts > 1):
                    gone.append(held)
                    continue
                wait = min(_RETRY_FIRST * 2.0 ** (held.attempts - 1), _RETRY_MAX) * random.uniform(0.5, 1.0)  # noqa: S311
                lane = self._retry_lane(held)
                source.counts.settle_retries += 1
                heapq.heappush(self._retries, (now + wait, next(self._numbers), lane, held))
            self._wake()
        for held in gone:
            logger.warning(
                "Message %s of queue %s was not settled (%s): SQS may show it again",
                held.message.message_id,
                source.name,
                code,
                extra=log_fields(held),
            )
            self._done([held], False)

    def _retry_lane(self, held: Held) -> Lane:
        if held.final_visibility is not None:
            return self._lane_of(held, ChangeVisibility(held.final_visibility))
        if isinstance(held.action, MoveTo) and not held.copied:
            return self._lane_of(held, held.action)
        return self._lane_of(held, Delete())

    def _done(self, batch: Sequence[Held], ok: bool, *, counted: bool = True) -> None:
        try:
            for held in batch:
                repeated = held.phase is Phase.DONE
                held.phase = Phase.DONE
                if repeated:
                    continue
                try:
                    self._on_settled(held, ok)
                except Exception:
                    # The request is done, whatever hears of it.
                    logger.exception(
                        "What follows message %s failed", held.message.message_id, extra=log_fields(held)
                    )
        finally:
            if counted and batch:
                with self._condition:
                    self.made_visible += sum(isinstance(held.action, ChangeVisibility) for held in batch)
                    before = self.backlog
                    self.backlog -= len(batch)
                    if not self.backlog:
                        self._idle_condition.notify_all()
                self._on_less(before)
