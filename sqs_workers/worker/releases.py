"""Gives back what was received and not run: it becomes visible at once, for whoever has room for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqs_workers.worker import batches, steps
from sqs_workers.worker.held import Held, Phase

if TYPE_CHECKING:
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.source import SourceState

__all__ = ["POLL_GRACE", "Releases"]

POLL_GRACE = 1.0
"""Seconds from the request to stop in which receives under way may be answered before anything goes on without."""


class Releases:
    """The releases of an engine. Under its lock, but for :meth:`answered`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def give_back(self, held: Held, reason: str) -> None:
        """Make one message visible again; hooks hear of it when SQS has taken that."""
        # They must not be called under the lock.
        held.phase = Phase.SETTLING
        held.released_because = reason
        held.source.counts.released += 1
        self._engine.let_go(held)
        self._engine.acker.add(held, steps.RELEASE, more=len(held.source.buffer) > 0)

    def waiting(self, state: SourceState, reason: str) -> None:
        """Give back everything of a queue that waits for a slot."""
        for held in state.buffer.clear():
            self.give_back(held, reason)
        batches.taken(self._engine, state)

    def at_stop(self, state: SourceState) -> None:
        """Give back what waits, as soon as no receive of our own can take it.

        A receive under way would, at the cost of one more receive of each message. While something waits,
        receives are short (see the poller), so its answer is awaited.
        """
        if state.receives:
            self._engine.heartbeat.set_alarm(
                ("stop", state), POLL_GRACE, partial(self.answered, state, late=True)
            )
        else:
            self.waiting(state, "stopping")

    def answered(self, state: SourceState, *, late: bool = False) -> None:
        """A receive of ``state`` was answered after the request to stop, or a second has passed since."""
        engine = self._engine
        with engine.lock:
            late = late or engine.clock.monotonic() >= engine.stop_began + POLL_GRACE
            if late or not state.receives:
                engine.heartbeat.cancel_alarm(("stop", state))
                self.waiting(state, "stopping")
            engine.changed.notify_all()
