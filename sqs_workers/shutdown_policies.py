"""When a worker stops by itself.

A policy is an object with two methods; the worker calls both from one thread::

    class AfterFailures:
        def __init__(self, limit):
            self.limit = limit
            self.failures = 0

        def update_state(self, batch_processing_result):
            self.failures += batch_processing_result.failed_count()

        def need_shutdown(self):
            return self.failures >= self.limit

A worker tells a policy that has a method ``use_clock`` which clock to read, when it starts.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.core import BatchProcessingResult

__all__ = [
    "ASAP_SHUTDOWN",
    "NEVER_SHUTDOWN",
    "AndShutdown",
    "IdleShutdown",
    "MaxTasksShutdown",
    "NeverShutdown",
    "OrShutdown",
    "ShutdownPolicy",
]


class ShutdownPolicy(Protocol):
    """Decides when a worker stops."""

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        """Called after each poll that brought nothing, and whenever jobs have ended."""
        ...

    def need_shutdown(self) -> bool:
        """Whether the worker shall stop now."""
        ...


class NeverShutdown:
    """Stop only when told to: the default."""

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        """Nothing changes."""

    def need_shutdown(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NeverShutdown()"


class IdleShutdown:
    """Stop when no job has come for some time.

    :param idle_seconds: seconds, 0 or more; 0 stops at the first poll that brings nothing.
    """

    def __init__(self, idle_seconds: float) -> None:
        if not idle_seconds >= 0:
            raise ConfigurationError(f"idle_seconds must be 0 or more, not {idle_seconds!r}")
        self.idle_seconds = idle_seconds
        self._clock: Clock = SYSTEM_CLOCK
        self._is_idle = False
        self._last_seen = self._clock.monotonic()

    def use_clock(self, clock: Clock) -> None:
        """Read this clock and count from now."""
        self._clock = clock
        self._is_idle = False
        self._last_seen = clock.monotonic()

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        self._is_idle = batch_processing_result.total_count() == 0
        if not self._is_idle:
            self._last_seen = self._clock.monotonic()

    def need_shutdown(self) -> bool:
        return self._is_idle and self._clock.monotonic() - self._last_seen >= self.idle_seconds

    def __repr__(self) -> str:
        return f"IdleShutdown({self.idle_seconds})"


class _FirstEmptyPoll(threading.local):
    """Stop at the first empty poll; may be shared: each thread that runs a worker has a state of its own."""

    idle_seconds = 0
    is_idle = False

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        self.is_idle = batch_processing_result.total_count() == 0

    def need_shutdown(self) -> bool:
        # The answer is given once: the next worker of this thread begins anew.
        idle, self.is_idle = self.is_idle, False
        return idle

    def __reduce__(self) -> tuple[type[_FirstEmptyPoll], tuple[()]]:
        # A copy in another process begins anew.
        return _FirstEmptyPoll, ()

    def __repr__(self) -> str:
        return "IdleShutdown(0)"


class MaxTasksShutdown:
    """Stop when at least so many jobs have ended, well or badly: against memory leaks.

    :param max_tasks: jobs, 1 or more.
    """

    def __init__(self, max_tasks: int) -> None:
        self.max_tasks = max_tasks
        self._tasks = 0

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        self._tasks += batch_processing_result.total_count()

    def need_shutdown(self) -> bool:
        return self._tasks >= self.max_tasks

    def __repr__(self) -> str:
        return f"MaxTasksShutdown({self.max_tasks})"


class _Combined:
    def __init__(self, *policies: ShutdownPolicy) -> None:
        self.policies = policies

    def use_clock(self, clock: Clock) -> None:
        """Pass the clock on."""
        for policy in self.policies:
            use_clock = getattr(policy, "use_clock", None)
            if use_clock is not None:
                use_clock(clock)

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        for policy in self.policies:
            policy.update_state(batch_processing_result)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.policies))})"


class OrShutdown(_Combined):
    """Stop when one of the policies says so."""

    def need_shutdown(self) -> bool:
        # Every policy is asked, whatever the first says.
        answers = [policy.need_shutdown() for policy in self.policies]
        return any(answers)


class AndShutdown(_Combined):
    """Stop when all policies say so at once."""

    def need_shutdown(self) -> bool:
        return all(policy.need_shutdown() for policy in self.policies)


NEVER_SHUTDOWN = NeverShutdown()
ASAP_SHUTDOWN = _FirstEmptyPoll()
