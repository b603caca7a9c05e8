"""A queue while a worker runs: its address, its timings, what is held of it, and its counts."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError, WorkerError
from sqs_workers.limits import DEFAULT_VISIBILITY_TIMEOUT, MAX_VISIBILITY_TIMEOUT
from sqs_workers.transport import ErrorKind, ReceiveOptions, classify, error_code
from sqs_workers.worker.job_counts import JobCounts
from sqs_workers.worker.lanes import Buffer, Lanes

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.transport import Transport
    from sqs_workers.worker.circuit import Circuit
    from sqs_workers.worker.contract import Source
    from sqs_workers.worker.held import Held

__all__ = ["STALLED", "Counts", "SourceState", "check_source"]

logger = logging.getLogger(__name__)

_VISIBILITY = "VisibilityTimeout"
_REDRIVE = "RedrivePolicy"
# Without these, attempts cannot be counted and copies lose their group.
_NEEDED_ATTRIBUTES = ("ApproximateReceiveCount", "MessageGroupId")
STALLED = 1.0
"""Seconds without an answer until receives under way are taken to hang."""


@dataclass(slots=True)
class Counts:
    """What has happened to the messages of one queue since the worker started."""

    received: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    discarded: int = 0
    released: int = 0
    postponed: int = 0
    expired: int = 0
    timed_out: int = 0
    lost: int = 0
    settled: int = 0
    settle_retries: int = 0
    delete_failures: int = 0
    poll_errors: int = 0
    polls: int = 0


def check_source(source: Source) -> None:
    """Refuse a source that cannot work.

    :raises ConfigurationError: naming the queue and what to change.
    """
    where = f"queue {source.name!r}"
    if not 0 <= source.wait_seconds <= 20:
        raise ConfigurationError(f"{where}: wait_seconds is 0 to 20, not {source.wait_seconds!r}")
    if source.weight < 1:
        raise ConfigurationError(f"{where}: weight is 1 or more, not {source.weight!r}")
    for name in ("visibility_timeout", "heartbeat_visibility"):
        value = getattr(source, name)
        if value is not None and not 0 <= value <= MAX_VISIBILITY_TIMEOUT:
            raise ConfigurationError(f"{where}: {name} is 0 to {MAX_VISIBILITY_TIMEOUT} s, not {value!r}")
    if source.heartbeat is not None and source.heartbeat < 0:
        raise ConfigurationError(f"{where}: heartbeat is 0 (none) or more seconds, not {source.heartbeat!r}")
    if source.batch is not None and source.batch.size < 1:
        raise ConfigurationError(f"{where}: the batch size is 1 or more, not {source.batch.size!r}")
    for name in ("visibility_timeout", "heartbeat_visibility"):
        value = getattr(source, name)
        if source.heartbeat and value and source.heartbeat >= value:
            raise ConfigurationError(
                f"{where}: a heartbeat every {source.heartbeat:g} s comes too late for a {name} of {value}; "
                f"leave heartbeat out, or take {value / 3:.1f} s or less"
            )


class SourceState:
    """What the engine knows of one queue. Changed under the engine's lock unless said otherwise."""

    def __init__(self, source: Source, clock: Clock, lock: threading.RLock | None = None) -> None:
        self.source = source
        self.clock = clock
        self.name = source.name
        self.handler = source.handler
        self.url = ""
        self.visibility = float(DEFAULT_VISIBILITY_TIMEOUT)
        self.interval = 0.0
        self.extension = DEFAULT_VISIBILITY_TIMEOUT
        self.receive_visibility = source.visibility_timeout
        self.buffer: Buffer | Lanes = Lanes() if source.fifo else Buffer()
        self.in_hand: dict[str, Held] = {}
        self.counts = Counts()
        self.jobs = JobCounts()
        self.circuit: Circuit | None = None if source.circuit is None else source.circuit.start(clock)
        self.plain = not source.fifo and source.batch is None and self.circuit is None
        """Whether successes may be settled a moment later, several at once: nothing waits for one of them."""
        self.running = 0
        self.turn = 0.0
        """When its next turn is among queues that share the slots, counted in turns of a queue of weight 1."""
        self.reserved = 0
        self.receives = 0
        self.parked = 0
        """Receivers that wait."""
        self.resting = 0
        """Whether the long poll's receiver is among them."""
        self.space = threading.Condition(lock)
        """Receivers beside the long poll wait here until there is room."""
        self.rest = threading.Condition(lock)
        """The long poll's receiver waits here, while others bring messages or there is no room."""
        self.hot = False
        """Whether the last answer was a sign that more messages wait."""
        self.useful_receives = 1
        """Receives that may be under way at once, by the answers of late: one more for each good one."""
        self._beside_at = 0.0
        self.empty: int | None = None
        """What :func:`openings_of` said before the last receive, if that brought nothing and was alone."""
        self.ready = False
        self.batch_wait = 0.0 if source.batch is None else source.batch.wait_seconds
        self.batch_due: float | None = None
        self.started_at = clock.monotonic()
        self.last_good_poll: float | None = None
        self._targets: dict[str, str] = {}
        names = dict.fromkeys((*_NEEDED_ATTRIBUTES, *source.system_attributes))
        self._system_attributes = ("All",) if "All" in names else tuple(names)

    def options(self, max_messages: int, wait_seconds: int) -> ReceiveOptions:
        """What a receive of this queue asks for."""
        return ReceiveOptions(
            max_messages=max_messages,
            wait_seconds=wait_seconds,
            visibility_timeout=self.receive_visibility,
            system_attributes=self._system_attributes,
            message_attributes=self.source.message_attributes,
        )

    def answered(self, *, more: bool, first: bool) -> None:
        """A receive was answered, with or without a sign that more messages wait. Under the engine's lock.

        :param first: whether it was the long poll.
        """
        if not first or not self.hot:
            self._beside_at = self.clock.monotonic()
        self.hot = more
        self.useful_receives = self.useful_receives + 1 if more else 1

    @property
    def attended(self) -> bool:
        """Whether receives are under way on a queue that has messages."""
        return self.hot and self.receives > 0

    @property
    def stalled(self) -> bool:
        """Whether no receive beside the long poll was answered of late: those under way may hang."""
        return self.clock.monotonic() - self._beside_at >= STALLED

    def wake_receivers(self) -> None:
        """Let every receiver that waits look at the state again. Under the engine's lock."""
        self.space.notify_all()
        self.rest.notify_all()

    def target_url(self, name: str) -> str:
        """URL of a dead-letter queue, looked up once. Called by the acker's threads."""
        url = self._targets.get(name)
        if url is None:
            url = self._targets[name] = self.source.resolve_target(name)
        return url

    def prepare(self, transport: Transport) -> None:
        """Find the queue and read its visibility timeout. Any thread, once, before the first receive.

        :raises QueueNotFoundError: there is no such queue.
        :raises WorkerError: these credentials may not use it, or its settings cannot work.
        """
        try:
            self.url = self.source.resolve_url()
        except (QueueNotFoundError, ConfigurationError, WorkerError):
            raise
        except Exception as error:
            if classify(error) is ErrorKind.MISSING:
                raise QueueNotFoundError(
                    f"queue {self.name!r} does not exist; create it before the worker starts",
                    queue_name=self.name,
                ) from error
            if classify(error) in (ErrorKind.DENIED, ErrorKind.INVALID):
                raise WorkerError(
                    f"queue {self.name!r} cannot be looked up: {error_code(error)}; check the permissions "
                    "(sqs:GetQueueUrl) and settings of these credentials"
                ) from error
            raise
        if self.source.visibility_timeout is None:
            if self.source.known_visibility is None:
                self.source.known_visibility = self._read_visibility(transport)
            self._set_visibility(self.source.known_visibility)
        else:
            self._set_visibility(self.source.visibility_timeout)
        self.ready = True

    def _read_visibility(self, transport: Transport) -> int:
        try:
            answer = transport.get_queue_attributes(self.url, [_VISIBILITY, _REDRIVE])
        except Exception as error:
            kind = classify(error)
            if kind is ErrorKind.MISSING:
                raise QueueNotFoundError(
                    f"queue {self.name!r} does not exist; create it before the worker starts",
                    queue_name=self.name,
                ) from error
            if kind not in (ErrorKind.DENIED, ErrorKind.INVALID):
                raise
            logger.warning(
                "The visibility timeout of queue %s cannot be read (%s): %d s are assumed. "
                "Allow sqs:GetQueueAttributes, or set visibility_timeout",
                self.name,
                error_code(error),
                DEFAULT_VISIBILITY_TIMEOUT,
                extra={"queue_name": self.name},
            )
            return DEFAULT_VISIBILITY_TIMEOUT
        redrive = answer.get(_REDRIVE)
        if redrive:
            self.source.known_max_receives = int(json.loads(redrive).get("maxReceiveCount", 0)) or None
        return int(answer.get(_VISIBILITY, DEFAULT_VISIBILITY_TIMEOUT))

    @property
    def received_once_only(self) -> bool:
        """Whether a message that is given back unrun goes to the dead-letter queue: its one receive is used up."""
        return self.source.known_max_receives == 1

    def _set_visibility(self, seconds: int) -> None:
        source = self.source
        if seconds == 0 and source.heartbeat != 0:
            # A message that is never hidden cannot be held: SQS refuses to extend what is not in flight.
            logger.warning(
                "Queue %s hides received messages for 0 s: the worker asks for %d s at each receive",
                self.name,
                DEFAULT_VISIBILITY_TIMEOUT,
                extra={"queue_name": self.name},
            )
            seconds = self.receive_visibility = DEFAULT_VISIBILITY_TIMEOUT
        self.visibility = float(seconds)
        # SQS counts in whole seconds: with one second, the least delay would cost the lease.
        self.extension = (
            max(seconds, 2) if source.heartbeat_visibility is None else source.heartbeat_visibility
        )
        self.interval = seconds / 3 if source.heartbeat is None else source.heartbeat
        if self.interval and self.interval >= seconds:
            raise WorkerError(
                f"queue {self.name!r}: a heartbeat every {self.interval:g} s comes too late for its "
                f"visibility timeout of {seconds} s; leave heartbeat out, or take {seconds / 3:.1f} s or less"
            )
