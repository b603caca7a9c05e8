"""Pauses a queue while what its jobs depend on is down."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.outcome import Failed, Outcome, RetryRequested, Unsettled

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.source import SourceState

__all__ = ["Circuit", "PauseOn", "feed"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PauseOn:
    """When to pause a queue, and how to find out that it may go on.

    :param errors: exception classes that say that a dependency is down, for instance
        ``(sqlalchemy.exc.OperationalError,)``.
    :param when: says of any other exception whether a dependency is down, for instance
        ``sqs_workers.sql.is_temporary``. Must not block.
    :param failures: failures with such an error in a row that pause the queue; 3 by default.
    :param min_pause: seconds until the first probe; 1 by default. Doubled, with jitter, after each that
        fails.
    :param max_pause: seconds between probes at most; 60 by default.
    :param probe: called without arguments instead of running a job; the dependency is up if it raises nothing
        and does not answer ``False``. ``None``: a single job is the probe.
    :raises ConfigurationError: neither errors nor a predicate, or a number out of range.
    """

    errors: tuple[type[BaseException], ...] = ()
    failures: int = 3
    min_pause: float = 1.0
    max_pause: float = 60.0
    probe: Callable[[], object] | None = None
    when: Callable[[BaseException], bool] | None = None

    def __post_init__(self) -> None:
        errors: Any = self.errors
        if isinstance(errors, type):
            errors = (errors,)
            object.__setattr__(self, "errors", errors)
        if not isinstance(errors, tuple) or not all(_is_error_class(cls) for cls in errors):
            raise ConfigurationError(f"PauseOn takes a tuple of exception classes, not {errors!r}")
        if not errors and self.when is None:
            raise ConfigurationError("PauseOn needs exception classes (errors=) or a predicate (when=)")
        if self.failures < 1:
            raise ConfigurationError(f"PauseOn: failures is 1 or more, not {self.failures!r}")
        if not 0 < self.min_pause <= self.max_pause:
            raise ConfigurationError(
                f"PauseOn: min_pause {self.min_pause!r} is above 0 and at most max_pause {self.max_pause!r}"
            )

    def means_down(self, error: BaseException) -> bool:
        """Whether ``error`` says that a dependency is down. A predicate that raises is logged: it does not."""
        if isinstance(error, self.errors):
            return True
        if self.when is None:
            return False
        try:
            return bool(self.when(error))
        except Exception:
            logger.exception("The predicate of PauseOn failed on %s", type(error).__name__)
            return False

    def start(self, clock: Clock) -> Circuit:
        """The state of this policy for one queue of one worker."""
        return Circuit(self, clock)


class _State(Enum):
    CLOSED = "closed"
    PAUSED = "paused"
    PROBING = "probing"


class Circuit:
    """Counts failures and says how many jobs may run. Used under the engine's lock, but for :meth:`ping`."""

    def __init__(self, policy: PauseOn, clock: Clock) -> None:
        self.policy = policy
        self._clock = clock
        self._state = _State.CLOSED
        self._in_a_row = 0
        self._pause = 0.0
        self._limit: int | None = None
        self._due = 0.0

    @property
    def paused(self) -> bool:
        """Whether no job may start now."""
        return self._state is _State.PAUSED

    @property
    def limit(self) -> int | None:
        """Jobs that may run at once; ``None`` for no limit of the circuit's."""
        return 0 if self.paused else self._limit

    @property
    def wait(self) -> float:
        """Seconds until the next probe, while paused."""
        return max(0.0, self._due - self._clock.monotonic())

    def record(self, error: BaseException | None) -> bool:
        """A job has ended, with ``error`` or without; whether that has paused the queue just now."""
        if error is None or not self.policy.means_down(error):
            self._in_a_row = 0
            self._recovered()
            return False
        self._in_a_row += 1
        if self.paused or (self._state is _State.CLOSED and self._in_a_row < self.policy.failures):
            return False
        self._open()
        return True

    def resume(self) -> None:
        """The pause is over: one job may run as a probe."""
        if self.paused:
            self._state = _State.PROBING
            self._limit = 1

    def ping(self) -> bool:
        """Call the probe, outside of any lock; whether the dependency is up."""
        if self.policy.probe is None:
            return True
        try:
            return self.policy.probe() is not False
        except Exception as error:  # noqa: BLE001 - whatever a probe raises means: not yet
            logger.info("The probe of a paused queue failed: %s", type(error).__name__)
            return False

    def ping_failed(self) -> None:
        """The probe says: not yet."""
        self._open()

    def _open(self) -> None:
        policy = self.policy
        self._pause = min(max(self._pause * 2, policy.min_pause), policy.max_pause)
        self._due = self._clock.monotonic() + self._pause * random.uniform(0.8, 1.0)  # noqa: S311
        self._state = _State.PAUSED

    def _recovered(self) -> None:
        # Grows back by doubling: what has just come up gets no full load at once.
        if self._state is not _State.PROBING:
            return
        self._limit = (self._limit or 1) * 2
        if self._limit > 64:
            self._limit = None
            self._pause = 0.0
            self._state = _State.CLOSED


def feed(engine: Engine, state: SourceState, outcome: Outcome) -> None:
    """Tell the circuit of a queue, if it has one, how a job ended."""
    circuit = state.circuit
    if circuit is None or isinstance(outcome, (RetryRequested, Unsettled)):
        return
    error = outcome.error if isinstance(outcome, Failed) else None
    with engine.lock:
        if circuit.record(error):
            logger.warning(
                "Queue %s is paused for %.1f s: its jobs fail with %s",
                state.name,
                circuit.wait,
                type(error).__name__,
                extra={"queue_name": state.name},
            )
            engine.releases.waiting(state, "paused")
            state.wake_receivers()


def _is_error_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
