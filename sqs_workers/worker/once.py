"""``process_batch()``: one receive, every job run in the calling thread, everything settled, done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.core import BatchProcessingResult
from sqs_workers.hooks import HookRegistry
from sqs_workers.outcome import Outcome, Postponed, Succeeded, Unrun
from sqs_workers.worker.engine import Engine
from sqs_workers.worker.source import check_source

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.transport import Transport
    from sqs_workers.worker.contract import Source
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["process_once"]

_RECEIVE_SIZE = 10
_SETTLE_SECONDS = 30.0
_JOIN = 1.0


def process_once(
    source: Source,
    transport: Transport,
    *,
    wait_seconds: int = 0,
    clock: Clock = SYSTEM_CLOCK,
    hooks: HookRegistry | None = None,
) -> BatchProcessingResult:
    """Receive once, run what came, settle it, and return.

    Up to 10 messages, or the size of a batch handler's batch from as many receives as that takes, the first
    of which waits. Errors of the receive are raised; those of jobs are settled.

    :param wait_seconds: seconds of long polling (0 to 20).
    """
    check_source(source)
    engine = Engine(
        [source], transport, concurrency=1, inline=True, clock=clock, hooks=hooks or HookRegistry()
    )
    state = engine.sources[0]
    watch = _Collect(source.name)
    engine.watch = watch
    # Nobody changes a policy while the caller waits for the end.
    engine.acker.patient = False
    # Called like a function, it raises like one: the failure of a test that a job contains, for instance.
    engine.executors.fatal = (BaseException,)
    state.prepare(transport)
    if source.batch is not None:
        # What the receives brought is the batch: there is nothing to wait for.
        state.batch_wait = 0.0
    size = _RECEIVE_SIZE if source.batch is None else source.batch.size
    try:
        messages = _receive(engine, state, size, wait_seconds)
        if messages:
            engine.admit(state, messages, 0)
            engine.executors.run_waiting()
    finally:
        engine.request_stop("process_batch")
        engine.acker.flush(clock.monotonic() + _SETTLE_SECONDS)
        engine.heartbeat.close()
        engine.acker.close()
        engine.executors.close()
        engine.acker.join(_JOIN)
        engine.heartbeat.join(_JOIN)
        engine.executors.join(_JOIN)
    if engine.error is not None:
        raise engine.error
    return watch.result


def _receive(engine: Engine, state: SourceState, size: int, wait_seconds: int) -> list[Message]:
    found: dict[str, Message] = {}
    while len(found) < size:
        count = min(size - len(found), _RECEIVE_SIZE)
        answer = engine.transport.receive(state.url, state.options(count, 0 if found else wait_seconds))
        found.update((message.message_id, message) for message in answer)
        if len(answer) < count:
            break
    return list(found.values())


class _Collect:
    """Stands where a worker has its shutdown policy: keeps the result."""

    watches = True

    def __init__(self, queue_name: str) -> None:
        self.result = BatchProcessingResult(queue_name)

    def ended(self, held: Held, outcome: Outcome) -> None:
        if not isinstance(outcome, (Unrun, Postponed)):
            self.result.update_with_message(held.message, isinstance(outcome, Succeeded))

    def polled_empty(self, state: SourceState, openings: int) -> None:
        """Nothing to do: the caller sees the empty result."""
