"""Shutdown policies see what the worker has done and say when it is enough."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from sqs_workers.core import BatchProcessingResult
from sqs_workers.outcome import Outcome, Succeeded
from sqs_workers.shutdown_policies import NeverShutdown

if TYPE_CHECKING:
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["ShutdownWatch", "Watch"]


logger = logging.getLogger(__name__)


class Watch(Protocol):
    """Sees how jobs end, and when there are none."""

    watches: bool
    """Whether it wants to see them at all."""

    def ended(self, held: Held, outcome: Outcome) -> None:
        """A job has ended."""
        ...

    def polled_empty(self, state: SourceState) -> None:
        """A long poll brought nothing."""
        ...


class ShutdownWatch:
    """Feeds a policy from many threads, one at a time.

    :param policy: an object with ``update_state(result)`` and ``need_shutdown()``, or ``None``.
    """

    def __init__(self, policy: Any, engine: Engine) -> None:
        # The default says no whatever it sees.
        self._policy: Any = None if type(policy) is NeverShutdown else policy
        self.watches = self._policy is not None
        self._engine = engine
        self._lock = threading.Lock()
        use_clock = getattr(policy, "use_clock", None)
        if use_clock is not None:
            use_clock(engine.clock)

    def ended(self, held: Held, outcome: Outcome) -> None:
        """A job has ended."""
        if self._policy is None:
            return
        result = BatchProcessingResult(held.source.name)
        result.update_with_message(held.message, isinstance(outcome, Succeeded))
        self._feed(result)

    def polled_empty(self, state: SourceState) -> None:
        """A long poll brought nothing. A worker is idle if its queues are empty and nothing is in hand."""
        state.empty = True
        if self._policy is None:
            return
        with self._engine.lock:
            idle = all(other.empty and not other.in_hand for other in self._engine.sources)
        if idle:
            self._feed(BatchProcessingResult(state.name))

    def _feed(self, result: BatchProcessingResult) -> None:
        try:
            with self._lock:
                self._policy.update_state(result)
                enough = self._policy.need_shutdown()
                reason = repr(self._policy) if enough else ""
        except Exception:
            logger.exception("Shutdown policy %s failed; the worker goes on", type(self._policy).__name__)
            return
        if enough:
            self._engine.request_stop(reason)
