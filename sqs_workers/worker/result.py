"""What a worker says about itself while it runs, and when it has stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "EXIT_ABANDONED",
    "EXIT_CLEAN",
    "EXIT_FAILED",
    "EXIT_START",
    "JobStats",
    "SourceStats",
    "WorkerResult",
    "WorkerStats",
]

EXIT_CLEAN = 0
"""Everything in hand was settled or given back."""
EXIT_START = 1
"""The worker could not start: a queue is missing, or denied to these credentials. ``run()`` raises."""
EXIT_ABANDONED = 3
"""The stop deadline passed, or a second signal came, before everything had ended."""
EXIT_FAILED = 4
"""The worker could not go on: too many handlers that outlived their timeout, or an error of its own."""


@dataclass(frozen=True, slots=True)
class JobStats:
    """One job of a queue since the worker started, and now.

    :ivar running: messages with its handler.
    :ivar succeeded: runs that succeeded.
    :ivar failed: runs that failed; each attempt counts.
    :ivar durations: seconds that the last runs took, in rising order; of many, 50 that stand for them.
    :ivar last_error: class name of the last error; empty without one.
    """

    running: int = 0
    succeeded: int = 0
    failed: int = 0
    durations: tuple[float, ...] = ()
    last_error: str = ""

    def percentile(self, share: float) -> float | None:
        """Seconds that ``share`` (0 to 1) of the last runs did not exceed; ``None`` before the first."""
        if not self.durations:
            return None
        return self.durations[min(int(share * len(self.durations)), len(self.durations) - 1)]


@dataclass(frozen=True, slots=True)
class SourceStats:
    """Counts of one queue since the worker started, and what is in hand now.

    :ivar received: messages that receives brought.
    :ivar succeeded: handlers that returned.
    :ivar failed: handlers that raised, timed out or got what they could not decode.
    :ivar retried: messages made visible again for another attempt, asked for or after a failure.
    :ivar dead_lettered: messages copied to a dead-letter queue by the failure policy.
    :ivar discarded: messages deleted by the failure policy.
    :ivar released: messages given back unrun.
    :ivar postponed: messages of jobs that are not due yet, each replaced by a new one.
    :ivar expired: messages not started because their visibility timeout had passed while they waited.
    :ivar timed_out: handlers that outlived their timeout.
    :ivar lost: messages whose visibility could not be extended.
    :ivar settled: settlements that SQS took.
    :ivar settle_retries: settlements that SQS failed and that were tried again, entry by entry.
    :ivar delete_failures: deletes that SQS refused to the end.
    :ivar poll_errors: receives that failed.
    :ivar polls: receives that were answered.
    :ivar in_flight: messages with a handler.
    :ivar buffered: messages that wait for a slot.
    :ivar paused: whether a circuit has paused the queue.
    :ivar last_good_poll: age of the last answered receive in seconds; ``None`` before the first.
    :ivar oldest_message: seconds since the oldest message in hand was sent; ``None`` with empty hands. While
        the worker keeps up, it is that of the queue.
    :ivar success_rate: jobs a second that succeeded, over the last minute or the time since ``stats()`` was
        asked for last, whichever is longer.
    :ivar error_rate: share (0 to 1) of the jobs that ended in that time and failed.
    :ivar jobs: name of a job -> how it does; the first 500, and the rest under ``(others)``. Messages without
        a name are under the empty one.
    """

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
    in_flight: int = 0
    buffered: int = 0
    paused: bool = False
    last_good_poll: float | None = None
    oldest_message: float | None = None
    success_rate: float = 0.0
    error_rate: float = 0.0
    jobs: Mapping[str, JobStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A worker at one moment.

    :ivar state: ``idle`` (not running), ``running``, ``paused`` (every queue is) or ``stopping``.
    :ivar sources: queue name -> its counts.
    :ivar in_flight: jobs that run.
    :ivar buffered: messages that wait for a slot.
    :ivar oldest: seconds since receipt of the message held longest; 0.0 without any.
    :ivar acker_backlog: settlements that SQS has not taken yet.
    :ivar rate: jobs a second that the slots can do at the measured duration; 0.0 before the first.
    :ivar last_good_poll: age in seconds of the last answered receive of the queue that waits longest for one;
        ``None`` if some queue has had none.
    :ivar oldest_message: seconds since the oldest message in hand was sent; ``None`` with empty hands.
    :ivar success_rate: jobs a second that succeeded, as in :class:`SourceStats`, of all queues.
    :ivar error_rate: share (0 to 1) of the jobs that failed, likewise.
    """

    state: str
    sources: Mapping[str, SourceStats]
    in_flight: int = 0
    buffered: int = 0
    oldest: float = 0.0
    acker_backlog: int = 0
    rate: float = 0.0
    last_good_poll: float | None = None
    oldest_message: float | None = None
    success_rate: float = 0.0
    error_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """How a worker ended.

    :ivar reason: why it stopped, for instance ``SIGTERM`` or the repr of a shutdown policy.
    :ivar counts: queue name -> its counts.
    :ivar duration: seconds from the request to stop until the end.
    :ivar abandoned: what was left behind at the deadline, as text; empty after a clean stop.
    :ivar exit_code: for ``sys.exit``: 0 clean, 3 something was abandoned, 4 the worker could not go on.
        (A worker that cannot start raises; a program should exit with 1.)
    """

    reason: str
    counts: Mapping[str, SourceStats] = field(default_factory=dict)
    duration: float = 0.0
    abandoned: tuple[str, ...] = ()
    exit_code: int = EXIT_CLEAN

    @property
    def succeeded(self) -> int:
        """Jobs that succeeded, of all queues."""
        return sum(source.succeeded for source in self.counts.values())

    @property
    def failed(self) -> int:
        """Jobs that failed, of all queues."""
        return sum(source.failed for source in self.counts.values())
