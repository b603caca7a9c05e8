"""Batches for batch handlers: filled from one receive or several, waiting for a bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.source import SourceState

__all__ = ["arm", "taken"]


def arm(engine: Engine, state: SourceState) -> None:
    """A batch that has its first message waits for more until its time has come. Under the engine's lock."""
    if state.source.batch is None or state.batch_due is not None or not len(state.buffer):
        return
    state.batch_due = engine.clock.monotonic() + state.batch_wait
    if state.batch_wait > 0:
        engine.heartbeat.set_alarm(state, state.batch_wait, lambda: _due(engine))


def taken(engine: Engine, state: SourceState) -> None:
    """A batch was taken out of the buffer; what is left begins the next. Under the engine's lock."""
    if state.source.batch is None:
        return
    engine.heartbeat.cancel_alarm(state)
    state.batch_due = None
    arm(engine, state)


def _due(engine: Engine) -> None:
    with engine.lock:
        engine.dispatch()
