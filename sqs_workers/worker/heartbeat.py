"""Keeps every held message hidden from other workers: one scheduler for all, ten extensions a call.

A message is held from its receipt until its settlement goes out, waiting in the buffer included. The same
scheduler watches the timeouts of jobs and any other deadline of the engine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from sqs_workers.hooks import LeaseLost, VisibilityExtended
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_VISIBILITY_TIMEOUT
from sqs_workers.transport import EntryError, ErrorKind, classify, classify_code, error_code
from sqs_workers.worker.calls import CallThreads
from sqs_workers.worker.held import Held, Phase, event_fields, log_fields
from sqs_workers.worker.rings import Rings

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.hooks import HookRegistry
    from sqs_workers.transport import Transport
    from sqs_workers.worker.source import SourceState

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)

_BEAT = "beat"
_ALARM = "alarm"
# Calls at once: a hanging call must not cost the leases of all the other messages.
_CALL_THREADS = 4
_ALARM_THREADS = 2
_RETRY_SECONDS = 1.0
# From when on the end of the 12 hours is announced, in seconds before it.
_LIMIT_NOTICE = 1800.0
_LIMIT_MARGIN = 2.0


class Heartbeat:
    """Extends visibility timeouts, and calls alarms when they are due.

    :param on_late_extension: called with a message whose visibility was changed for good while an extension
        was under way, so that the order in which SQS saw the two is unknown.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        hooks: HookRegistry,
        on_late_extension: Callable[[Held], object],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._hooks = hooks
        self._on_late_extension = on_late_extension
        self._condition = threading.Condition()
        self._rings: Rings[Any] = Rings()
        self._alarms: dict[object, tuple[float, Callable[[], object]]] = {}
        self._wake_at: float | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._extending = 0
        self._calls = CallThreads("sqs-heartbeat-call", _CALL_THREADS, clock)
        # Not beside the requests: timeouts and the deadlines of a stop must not wait for a dead connection.
        self._alarm_calls = CallThreads("sqs-heartbeat-alarm", _ALARM_THREADS, clock)

    # -- what the engine asks for

    def add(self, messages: Iterable[Held]) -> None:
        """Hold messages that have just been received."""
        with self._condition:
            earliest: float | None = None
            for held in messages:
                interval = held.source.interval
                if interval:
                    held.beat_interval = interval
                    due = held.received_at + interval
                    self._rings.add(_BEAT, interval, held, due)
                    if earliest is None or due < earliest:
                        earliest = due
            if earliest is not None:
                self._see_to(earliest)

    def discard(self, held: Held) -> None:
        """Let go of a message that is about to be settled."""
        with self._condition:
            self._drop(held)

    def discard_all(self, messages: Iterable[Held]) -> None:
        """Let go of messages that are about to be settled."""
        with self._condition:
            for held in messages:
                self._drop(held)

    def reschedule(self, held: Held) -> None:
        """The handler has set the visibility itself: extend when that time comes near its end."""
        with self._condition:
            watched = held.beat_interval is not None
            self._drop(held)
            if watched and not held.released_by_handler and held.phase <= Phase.RUNNING:
                self._schedule_next(held)

    def set_alarm(self, key: object, seconds: float, call: Callable[[], object]) -> None:
        """Call ``call`` in a thread of the heartbeat after ``seconds``, unless cancelled or set anew."""
        with self._condition:
            self._drop_alarm(key)
            self._alarms[key] = (seconds, call)
            self._set(_ALARM, seconds, key, self._clock.monotonic() + seconds)

    def cancel_alarm(self, key: object) -> None:
        """Forget an alarm, if it has not been called."""
        with self._condition:
            self._drop_alarm(key)

    def wait_for_extensions(self, deadline: float) -> None:
        """Wait for the extensions under way, until ``deadline`` (monotonic) at most."""
        with self._condition:
            while self._extending:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return
                self._clock.wait(self._condition, left)

    def close(self) -> None:
        """End the scheduler; nothing is extended any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._calls.close()
        self._alarm_calls.close()

    def join(self, timeout: float) -> bool:
        """Wait for the threads (real seconds); whether all have ended."""
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
        return self._calls.join(timeout) and self._alarm_calls.join(timeout)

    # -- the scheduler

    def _set(self, kind: str, length: float, key: Any, due: float) -> None:
        self._rings.add(kind, length, key, due)
        self._see_to(due)

    def _see_to(self, due: float) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="sqs-heartbeat", daemon=True)
            self._thread.start()
        elif self._wake_at is None or due < self._wake_at:
            self._wake_at = due
            self._condition.notify_all()

    def _drop(self, held: Held) -> None:
        if held.beat_interval is not None:
            self._rings.discard(_BEAT, held.beat_interval, held)
            held.beat_interval = None

    def _drop_alarm(self, key: object) -> None:
        alarm = self._alarms.pop(key, None)
        if alarm is not None:
            self._rings.discard(_ALARM, alarm[0], key)

    def _schedule_next(self, held: Held) -> None:
        # As long before the end of the lease as the regular beat is. Leases of few seconds keep a third.
        source = held.source
        now = self._clock.monotonic()
        left = held.expires_at - now
        margin = max(source.extension - source.interval, 0.0)
        wait = left - margin if left > margin else left / 3
        held.beat_interval = round(wait, 1) if wait > 1 else wait
        self._set(_BEAT, held.beat_interval, held, now + wait)

    def _schedule_notice(self, held: Held, now: float) -> None:
        wait = held.received_at + MAX_VISIBILITY_TIMEOUT - _LIMIT_NOTICE - now
        if wait > 0 and not held.told_of_limit:
            held.beat_interval = wait
            self._set(_BEAT, wait, held, now + wait)

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._closed:
                    return
                now = self._clock.monotonic()
                due = self._rings.pop_due(now)
                if not due:
                    self._wake_at = self._rings.next_due()
                    timeout = None if self._wake_at is None else self._wake_at - now
                    self._clock.wait(self._condition, timeout)
                    continue
                alarms = [self._alarms.pop(key)[1] for kind, key in due if kind == _ALARM]
                beats = self._to_extend([key for kind, key in due if kind == _BEAT], now)
                self._extending += len(beats)
            for alarm in alarms:
                self._alarm_calls.submit(alarm)
            for source, seconds, batch in beats:
                self._calls.submit(partial(self._extend_all, source, seconds, batch))

    def _to_extend(self, due: list[Held], now: float) -> list[tuple[SourceState, int, list[Held]]]:
        """Tens of messages of one queue that are extended by the same time."""
        groups: dict[tuple[SourceState, int], list[Held]] = {}
        for held in due:
            held.beat_interval = None
            if held.phase > Phase.RUNNING or held.zombie or held.lost:
                continue
            seconds = self._extension(held, now)
            if now + seconds <= held.expires_at:
                # The handler asked for more than an extension would give: never shorten it.
                if _can_grow(held):
                    self._schedule_next(held)
                else:
                    self._schedule_notice(held, now)
                continue
            groups.setdefault((held.source, seconds), []).append(held)
        return [
            (source, seconds, batch[start : start + MAX_BATCH_ENTRIES])
            for (source, seconds), batch in groups.items()
            for start in range(0, len(batch), MAX_BATCH_ENTRIES)
        ]

    def _extension(self, held: Held, now: float) -> int:
        left = held.received_at + MAX_VISIBILITY_TIMEOUT - now
        if left <= _LIMIT_NOTICE and not held.told_of_limit:
            held.told_of_limit = True
            logger.warning(
                "Message %s of queue %s is in flight for nearly 12 hours: SQS shows it again in %d s",
                held.message.message_id,
                held.source.name,
                left,
                extra=log_fields(held, now - held.started_at),
            )
        return max(int(min(held.source.extension, left - _LIMIT_MARGIN)), 0)

    # -- one call

    def _extend_all(self, source: SourceState, seconds: int, batch: list[Held]) -> None:
        try:
            self._extend(source, seconds, batch)
        finally:
            with self._condition:
                self._extending -= 1
                self._condition.notify_all()

    def _extend(self, source: SourceState, seconds: int, batch: list[Held]) -> None:
        asked_at = self._clock.monotonic()
        batch = [held for held in batch if held.phase <= Phase.RUNNING and not held.zombie]
        if not batch:
            return
        results: list[EntryError | None]
        entries = [(held.message.receipt_handle, seconds) for held in batch]
        try:
            results = self._transport.change_visibility_batch(source.url, entries)
        except Exception as error:  # noqa: BLE001 - classified, and tried again while the lease lives
            kind, code = classify(error), error_code(error)
            if len(batch) > 1 and kind in (ErrorKind.RECEIPT, ErrorKind.INVALID):
                # One entry spoils the request: the others must not be lost to it.
                for held in batch:
                    self._extend(source, seconds, [held])
                return
            logger.warning(
                "The visibility of %d message(s) of queue %s could not be extended: %s",
                len(batch),
                source.name,
                code,
                extra={"queue_name": source.name},
            )
            for held in batch:
                self._not_extended(held, kind, code)
            return
        for held, result in zip(batch, results, strict=True):
            if result is None:
                self._extended(held, seconds, asked_at)
            elif result.sender_fault:
                self._not_extended(held, ErrorKind.RECEIPT, result.code)
            else:
                self._not_extended(held, classify_code(result.code), result.code)

    def _extended(self, held: Held, seconds: int, asked_at: float) -> None:
        with self._condition:
            settled = held.phase > Phase.RUNNING
            if not settled and held.beat_interval is None and not held.released_by_handler:
                # Counted from the question: the true end is a little later.
                held.expires_at = asked_at + seconds
                if not _can_grow(held):
                    self._schedule_notice(held, asked_at)
                else:
                    interval = held.source.interval
                    held.beat_interval = interval
                    self._set(_BEAT, interval, held, asked_at + interval)
        if settled and held.final_visibility is not None:
            self._on_late_extension(held)
        elif not settled and self._hooks.wants(VisibilityExtended):
            self._hooks.emit(VisibilityExtended(**event_fields(held), seconds=seconds))  # type: ignore[arg-type]

    def _not_extended(self, held: Held, kind: ErrorKind, code: str) -> None:
        now = self._clock.monotonic()
        with self._condition:
            if held.phase > Phase.RUNNING or held.lost or held.zombie or held.deleted_by_handler:
                # Settled meanwhile: that the receipt is gone is no news.
                return
            left = held.expires_at - now
            if left > 0 and kind not in (ErrorKind.RECEIPT, ErrorKind.INVALID, ErrorKind.MISSING):
                wait = min(_RETRY_SECONDS, held.source.interval / 4, left)
                held.beat_interval = wait
                self._set(_BEAT, wait, held, now + wait)
                return
            held.lost = True
            held.source.counts.lost += 1
        logger.warning(
            "The hold on message %s of queue %s is lost (%s): another worker may run it too",
            held.message.message_id,
            held.source.name,
            code,
            extra=log_fields(held, now - held.started_at),
        )
        if self._hooks.wants(LeaseLost):
            self._hooks.emit(LeaseLost(**event_fields(held), code=code))  # type: ignore[arg-type]


def _can_grow(held: Held) -> bool:
    # Within a second of the 12 hours, SQS would refuse what there is left to ask for.
    return held.expires_at < held.received_at + MAX_VISIBILITY_TIMEOUT - _LIMIT_MARGIN - 1
