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

__all__ = ["ShutdownWatch", "Watch", "openings_of"]

logger = logging.getLogger(__name__)


def openings_of(engine: Engine, state: SourceState) -> int:
    """Rises whenever this worker may have made a message receivable that was not so before.

    A message that was given back; on a FIFO queue, the next of its group, too, when one has left the queue.
    """
    return engine.acker.made_visible + (state.counts.settled if state.source.fifo else 0)


class Watch(Protocol):
    """Sees how jobs end, and when there are none."""

    watches: bool
    """Whether it wants to see them at all."""

    def ended(self, held: Held, outcome: Outcome) -> None:
        """A job has ended."""
        ...

    def polled_empty(self, state: SourceState, openings: int) -> None:
        """A long poll brought nothing; ``openings`` is what :func:`openings_of` said before it."""
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

    def polled_empty(self, state: SourceState, openings: int) -> None:
        """A long poll brought nothing. A worker is idle if its queues are empty and nothing is in hand.

        What is not settled yet is in hand, too: a failed message may be about to become visible again.
        """
        if self._policy is None:
            return
        engine = self._engine
        with engine.lock:
            # A receive beside the long poll may have been given what this one was not.
            state.empty = None if state.receives else openings
            idle = not engine.slots.running and not engine.acker.backlog
            # Asked last: what has left the backlog meanwhile shows in it.
            idle = idle and all(
                other.empty == openings_of(engine, other) and not other.in_hand for other in engine.sources
            )
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
