"""A beat: sends the jobs of schedules when they are due."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from sqs_workers.exceptions import ConfigurationError, SQSError, UncertainSendError
from sqs_workers.queues.checks import check_policy, is_number
from sqs_workers.schedules.leases import MemoryLease, SlotLease
from sqs_workers.transport.errors import ErrorKind, classify, error_code

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.periodic import Periodic
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["Beat"]

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 100
"""Slots of one schedule that one look sends; the rest comes with the next."""

MAX_AHEAD = 60.0
"""Seconds by which two machines may differ without a word."""

# SQS may have taken the message though nobody said so.
_UNCERTAIN = (ErrorKind.NETWORK, ErrorKind.SERVER, ErrorKind.OTHER)


class StoresMessages(Protocol):
    """What a beat asks of an outbox."""

    def add(self, tx: Any, queue_name: str, message: OutgoingMessage) -> str:
        """Store a ready message in the transaction ``tx``."""
        ...


class Beat:
    """Sends the jobs that ``@queue.periodic(...)`` declares.

    Run two, on two machines, with one :class:`~sqs_workers.sql.DatabaseLease`: together they send the job of a
    slot once. How sure that is depends on the queue:

    ================================  =====================================================================
    FIFO queue                        the slot is claimed and the message sent before either is final: never
                                      lost; sent again within 5 minutes it is dropped by its deduplication id
    standard queue with ``outbox=``   the slot and the message are one transaction: never lost, never twice
                                      (the relay may send twice; the inbox tells by the id)
    standard queue alone              the slot is claimed first: never twice. A beat that is killed between
                                      claim and send, or gets no answer, loses that slot
    ================================  =====================================================================

    A slot passes once: when a clock is put back, what was sent is not sent again.

    :param env: the environment whose queues declare schedules.
    :param lease: remembers the last slot of each schedule. By default in memory, for one beat alone.
    :param outbox: an :class:`~sqs_workers.sql.Outbox` in the database of the lease; a relay has to run.
    :param poll: seconds between two looks at the clock at most; also how late a step of the clock is noticed.
    :param grace: seconds that a slot may have passed and is still sent with ``catch_up="none"``.
    :raises ConfigurationError: a value out of range, or an outbox without a lease in a database.
    """

    def __init__(
        self,
        env: SQSEnv,
        lease: SlotLease | None = None,
        *,
        outbox: StoresMessages | None = None,
        poll: float = 5.0,
        grace: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        if not (is_number(poll) and is_number(grace)) or not 0 < poll <= 60 or grace < 0:
            raise ConfigurationError(
                f"poll is above 0 and at most 60 s, grace 0 or more: {poll!r}, {grace!r}"
            )
        check_policy("lease", lease, "a beat")
        if outbox is not None and (lease is None or isinstance(lease, MemoryLease)):
            raise ConfigurationError("outbox= needs a lease in the same database: DatabaseLease(engine)")
        self._env = env
        self._lease = MemoryLease() if lease is None else lease
        self._outbox = outbox
        self._poll = poll
        self._grace = grace
        self._clock: Clock = env.clock if clock is None else clock
        self._condition = threading.Condition()
        self._stopping = False
        self._next: float | None = None
        self._ahead: set[str] = set()

    def __repr__(self) -> str:
        return f"<Beat {self._lease!r}>"

    @property
    def schedules(self) -> tuple[Periodic, ...]:
        """What it sends: the schedules that the queues of its environment declare by now."""
        return tuple(periodic for _, periodic in self._schedules())

    def run(self, *, handle_signals: bool = True) -> None:
        """Send what is due until :meth:`stop`, SIGTERM or SIGINT.

        :param handle_signals: end at SIGTERM and SIGINT, if this is the main thread.
        :raises ConfigurationError: no queue declares a schedule.
        """
        if not self._schedules():
            raise ConfigurationError(
                "no queue of this environment declares a schedule by @queue.periodic(...): import the modules "
                "that do"
            )
        with self._signals(handle_signals):
            while not self._stopping:
                self.tick()
                with self._condition:
                    if not self._stopping:
                        self._clock.wait(self._condition, self._pause())

    def stop(self) -> None:
        """End :meth:`run` after what is being sent. Safe in signal handlers and from other threads."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def tick(self) -> int:
        """Send what is due now; returns how many jobs. What fails is logged, and tried again the next time."""
        now = self._clock.time()
        self._next = None
        sent = 0
        for queue, periodic in self._schedules():
            if self._stopping:
                break
            try:
                sent += self._work(queue, periodic, now)
            except Exception as error:
                logger.error(
                    "Schedule %s could not be worked (%s); it is tried again",
                    periodic.name,
                    error if isinstance(error, SQSError) else error_code(error),
                    exc_info=None if isinstance(error, SQSError) else error,
                    extra=_fields(periodic),
                )
        return sent

    def _schedules(self) -> list[tuple[Any, Periodic]]:
        return [
            (queue, periodic)
            for queue in list(self._env.queues.values())
            for periodic in getattr(queue, "periodic_jobs", {}).values()
        ]

    def _pause(self) -> float:
        if self._next is None:
            return self._poll
        # What is left over waits a moment, and does not spin.
        return min(max(self._next - self._clock.time(), 0.05), self._poll)

    def _work(self, queue: Any, periodic: Periodic, now: float) -> int:
        last = self._lease.last_slot(periodic.name, int(now))
        self._watch_clock(periodic, last - now)
        sent = 0
        if periodic.catch_up == "all":
            for slot in islice(periodic.slots(last, now), MAX_AT_ONCE):
                if not self._send(queue, periodic, last, slot):
                    # Another beat is at it.
                    break
                last = slot
                sent += 1
        else:
            latest = periodic.latest_slot(last, now)
            if latest is not None:
                if periodic.catch_up == "one" or now - latest <= self._grace:
                    sent += self._send(queue, periodic, last, latest)
                else:
                    self._skip(periodic, last, latest)
                last = latest
        upcoming = periodic.next_slot(last)
        if upcoming is not None and (self._next is None or upcoming < self._next):
            self._next = float(upcoming)
        return sent

    def _watch_clock(self, periodic: Periodic, ahead: float) -> None:
        """Say once that the last slot lies in the future: the schedule is silent until then."""
        if ahead <= MAX_AHEAD:
            self._ahead.discard(periodic.name)
        elif periodic.name not in self._ahead:
            self._ahead.add(periodic.name)
            logger.error(
                "The last slot of schedule %s lies %.0f s ahead: a clock was wrong when it was sent, or is now. "
                "Nothing is sent before that time; if it is too far away, delete the row of the schedule in the "
                "table of slots",
                periodic.name,
                ahead,
                extra=_fields(periodic),
            )

    def _skip(self, periodic: Periodic, last: int, latest: int) -> None:
        with self._lease.claim(periodic.name, last, latest) as claim:
            won = claim.won
        if won:
            logger.warning(
                "Slot %s passed while no beat was running, and is left out (catch_up='none')",
                periodic.id_of(latest),
                extra=_fields(periodic),
            )

    def _send(self, queue: Any, periodic: Periodic, last: int, slot: int) -> bool:
        """Send the job of a slot, if it is ours."""
        message = queue.periodic_message(periodic, periodic.id_of(slot))
        if self._outbox is not None:
            with self._lease.claim(periodic.name, last, slot) as claim:
                if claim.won:
                    self._outbox.add(claim.transaction, queue.name, message)
        elif queue.is_fifo:
            with self._lease.claim(periodic.name, last, slot) as claim:
                if claim.won:
                    queue.send_now(message)
        else:
            with self._lease.claim(periodic.name, last, slot) as claim:
                pass
            if claim.won:
                self._send_at_most_once(queue, periodic, message, last, slot)
        if claim.won:
            logger.info("Slot %s was sent", periodic.id_of(slot), extra=_fields(periodic))
        return claim.won

    def _send_at_most_once(
        self, queue: Any, periodic: Periodic, message: OutgoingMessage, last: int, slot: int
    ) -> None:
        try:
            queue.send_now(message)
        except Exception as error:
            if _may_have_been_sent(error):
                logger.error(
                    "Slot %s may have been sent or not (%s): it is not repeated",
                    periodic.id_of(slot),
                    error_code(error),
                    extra=_fields(periodic),
                )
                return
            self._lease.give_back(periodic.name, slot, last)
            raise

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        if not wanted or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {
            number: signal.signal(number, lambda *_: self.stop())
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _may_have_been_sent(error: Exception) -> bool:
    if isinstance(error, SQSError):
        return isinstance(error, UncertainSendError)
    return classify(error) in _UNCERTAIN


def _fields(periodic: Periodic) -> dict[str, str]:
    return {"queue_name": periodic.queue_name, "job_name": periodic.job_name, "schedule": periodic.name}
