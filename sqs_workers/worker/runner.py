"""The worker as its user sees it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError, WorkerError
from sqs_workers.hooks import HookRegistry, WorkerStarted, WorkerStopped
from sqs_workers.worker.engine import Engine
from sqs_workers.worker.flow import Flow, oldest_age
from sqs_workers.worker.held import Phase
from sqs_workers.worker.lifecycle import Control, Stop
from sqs_workers.worker.poller import Poller
from sqs_workers.worker.result import (
    EXIT_ABANDONED,
    EXIT_CLEAN,
    EXIT_FAILED,
    SourceStats,
    WorkerResult,
    WorkerStats,
)
from sqs_workers.worker.source import SourceState, check_source

if TYPE_CHECKING:
    from sqs_workers.transport import Transport
    from sqs_workers.worker.contract import Source

__all__ = ["Worker"]

logger = logging.getLogger(__name__)


class Worker:
    """Works one queue or several until it is told to stop.

    :param sources: the queues.
    :param transport: carries the calls to SQS.
    :param concurrency: jobs (batches, for batch handlers) at once.
    :param executor: ``inline`` runs jobs in the thread that calls :meth:`run`, one at a time; ``threads`` in
        a pool; ``auto`` takes inline for concurrency 1. ``async def`` jobs run on an event loop in either
        case.
    :param shutdown_policy: an object with ``update_state(result)`` and ``need_shutdown()``.
    :param shutdown_timeout: seconds from the request to stop until :meth:`run` returns, at most. Handlers get
        nine tenths of it. With the inline executor, a handler in the main thread is interrupted by an
        exception then; in another thread, or with ``handle_signals=False``, it cannot be.
    :param handle_signals: stop on SIGTERM and SIGINT while :meth:`run` is in the main thread; a second signal
        skips the waiting. The handlers that were there before come back after.
    :param receivers: receives of one queue under way at once while it is busy, 1 or more; ``None`` for
        as many as bring messages and keep a processor busy, 3 to 16.
    :param prefetch: messages held above the free slots at most; ``None`` for half a second of work at the
        measured rate, 0 for none.
    :raises ConfigurationError: an option out of range, or options that exclude each other.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        transport: Transport,
        *,
        concurrency: int = 1,
        executor: Literal["auto", "inline", "threads"] = "auto",
        shutdown_policy: Any = None,
        shutdown_timeout: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        hooks: HookRegistry | None = None,
        handle_signals: bool = True,
        receivers: int | None = None,
        prefetch: int | None = None,
    ) -> None:
        _check(sources, concurrency, executor, shutdown_timeout, receivers, prefetch)
        self._sources = tuple(sources)
        self._transport = transport
        self._concurrency = concurrency
        self._inline = executor == "inline" or (executor == "auto" and concurrency == 1)
        self._shutdown_policy = shutdown_policy
        self._shutdown_timeout = shutdown_timeout
        self._clock = clock
        self._hooks = HookRegistry() if hooks is None else hooks
        self._handle_signals = handle_signals
        self._receivers = receivers
        self._prefetch = prefetch
        self._guard = threading.Lock()
        self._engine: Engine | None = None
        self._control: Control | None = None
        self._stop_asked: str | None = None
        # Of all queues together, under the empty name, and of each.
        self._flows: dict[str, Flow] = {}

    def run(self) -> WorkerResult:
        """Work until stopped. Runs again after it has returned, but not twice at once.

        A stop that was asked for before is honoured: nothing is received then.

        :raises QueueNotFoundError: a queue does not exist when the worker starts.
        :raises WorkerError: a queue cannot be used with these credentials or settings, or the worker cannot
            go on (too many handlers that outlived their timeout).
        :raises KeyboardInterrupt, SystemExit: raised by a job, or by Ctrl-C where signals are not handled;
            the worker has stopped in order before.
        """
        engine = Engine(
            self._sources,
            self._transport,
            concurrency=self._concurrency,
            inline=self._inline,
            clock=self._clock,
            hooks=self._hooks,
            shutdown_policy=self._shutdown_policy,
            shutdown_timeout=self._shutdown_timeout,
            prefetch=self._prefetch,
            receivers=self._receivers,
        )
        with self._guard:
            if self._control is not None:
                raise WorkerError("this worker runs already; a second run() at once is not possible")
            self._engine = engine
            self._flows = {
                name: Flow(self._clock.monotonic())
                for name in ("", *(source.name for source in self._sources))
            }
            self._control = Control(engine, handle_signals=self._handle_signals)
        try:
            return self._run(engine, self._control)
        finally:
            self._stop_asked = None
            self._control = None

    def _run(self, engine: Engine, control: Control) -> WorkerResult:
        pollers = [Poller(engine, state) for state in engine.sources]
        with control:
            stop = Stop(engine, pollers, self._shutdown_timeout)
            try:
                if self._stop_asked is not None:
                    control.stop(self._stop_asked)
                self._announce(engine)
                for poller in pollers:
                    poller.start()
                engine.executors.run()
            except BaseException as error:  # noqa: BLE001 - raised again by run()
                # Ctrl-C where signals are not handled: stop in order, then let it go on.
                engine.fail(error, type(error).__name__)
            took = self._finish(engine, stop)
        result = self._result(engine, stop, took)
        self._announce_end(engine, result)
        if engine.error is not None:
            raise engine.error
        return result

    def _finish(self, engine: Engine, stop: Stop) -> float:
        try:
            return stop.finish()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            # A second Ctrl-C where signals are not handled: no more waiting, but nothing stays hidden either.
            engine.stop_now = True
            engine.fail(error, type(error).__name__)
            return stop.finish()

    def stop(self, reason: str = "stop()") -> None:
        """Ask the worker to stop: from any thread, from a signal handler, more than once, before it runs.

        Returns at once; :meth:`run` returns when everything is settled. No job is started after this.
        """
        self._stop_asked = reason
        # Looked up after that: a run that begins at this moment finds the one or is found by the other.
        control = self._control
        if control is not None:
            control.stop(reason)

    def stats(self) -> WorkerStats:
        """The worker at this moment; after a run, as it ended."""
        engine = self._engine
        if engine is None:
            return WorkerStats("idle", {source.name: SourceStats() for source in self._sources})
        with engine.lock:
            now = self._clock.monotonic()
            ages = [_poll_age(state, now) for state in engine.sources]
            known = [age for age in ages if age is not None]
            oldest = [held.received_at for state in engine.sources for held in state.in_hand.values()]
            sources = {
                name: self._with_flow(name, stats, state, now)
                for state, (name, stats) in zip(
                    engine.sources, _source_stats(engine.sources, now).items(), strict=True
                )
            }
            sent = [stats.oldest_message for stats in sources.values() if stats.oldest_message is not None]
            success_rate, error_rate = self._flows[""].rates(
                sum(stats.succeeded for stats in sources.values()),
                sum(stats.failed for stats in sources.values()),
                now,
            )
            return WorkerStats(
                state=self._state(engine),
                sources=sources,
                in_flight=engine.slots.running,
                buffered=sum(len(state.buffer) for state in engine.sources),
                oldest=now - min(oldest) if oldest else 0.0,
                acker_backlog=engine.acker.backlog,
                rate=engine.slots.rate,
                last_good_poll=max(known) if len(known) == len(ages) else None,
                oldest_message=max(sent) if sent else None,
                success_rate=success_rate,
                error_rate=error_rate,
            )

    def _with_flow(self, name: str, stats: SourceStats, state: SourceState, now: float) -> SourceStats:
        success_rate, error_rate = self._flows[name].rates(stats.succeeded, stats.failed, now)
        return replace(
            stats,
            oldest_message=oldest_age((held.message for held in state.in_hand.values()), self._clock.time()),
            success_rate=success_rate,
            error_rate=error_rate,
        )

    def _state(self, engine: Engine) -> str:
        if self._control is None:
            return "idle"
        if engine.stopping:
            return "stopping"
        paused = [state.circuit is not None and state.circuit.paused for state in engine.sources]
        return "paused" if all(paused) else "running"

    def _announce(self, engine: Engine) -> None:
        for state in engine.sources:
            logger.info("Worker starts on queue %s", state.name, extra={"queue_name": state.name})
            self._hooks.emit(WorkerStarted(queue_name=state.name, concurrency=self._concurrency))

    def _announce_end(self, engine: Engine, result: WorkerResult) -> None:
        level = logging.ERROR if result.abandoned else logging.INFO
        logger.log(
            level,
            "Worker stopped: %s%s",
            result.reason,
            f"; left behind: {', '.join(result.abandoned)}" if result.abandoned else "",
            extra={"duration": result.duration},
        )
        for state in engine.sources:
            self._hooks.emit(
                WorkerStopped(
                    queue_name=state.name,
                    reason=result.reason,
                    duration=result.duration,
                    abandoned=result.abandoned,
                )
            )

    def _result(self, engine: Engine, stop: Stop, took: float) -> WorkerResult:
        with engine.lock:
            counts = _source_stats(engine.sources, self._clock.monotonic())
        if engine.error is not None:
            exit_code = EXIT_FAILED
        else:
            exit_code = EXIT_ABANDONED if stop.abandoned else EXIT_CLEAN
        return WorkerResult(engine.stop_reason or "", counts, took, tuple(stop.abandoned), exit_code)


def _check(
    sources: Sequence[Source],
    concurrency: Any,
    executor: str,
    shutdown_timeout: float,
    receivers: int | None,
    prefetch: int | None,
) -> None:
    if not sources:
        raise ConfigurationError("a worker needs at least one queue")
    names = [source.name for source in sources]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"a worker takes each queue once: {', '.join(sorted(names))}")
    for source in sources:
        check_source(source)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(f"concurrency is an integer of 1 or more, not {concurrency!r}")
    if executor not in ("auto", "inline", "threads"):
        raise ConfigurationError(f"executor is 'auto', 'inline' or 'threads', not {executor!r}")
    if executor == "inline" and concurrency > 1:
        raise ConfigurationError(
            f"the inline executor runs one job at a time: take 'threads' for concurrency {concurrency}"
        )
    if not shutdown_timeout > 0:
        raise ConfigurationError(f"shutdown_timeout is above 0 seconds, not {shutdown_timeout!r}")
    if receivers is not None and receivers < 1:
        raise ConfigurationError(f"receivers is 1 or more, not {receivers!r}")
    if prefetch is not None and prefetch < 0:
        raise ConfigurationError(f"prefetch is 0 or more messages, not {prefetch!r}")


def _poll_age(state: SourceState, now: float) -> float | None:
    return None if state.last_good_poll is None else now - state.last_good_poll


def _source_stats(states: Sequence[SourceState], now: float) -> dict[str, SourceStats]:
    return {
        state.name: SourceStats(
            **asdict(state.counts),
            jobs=state.jobs.stats(_running_jobs(state)),
            in_flight=state.running,
            buffered=len(state.buffer),
            paused=state.circuit is not None and state.circuit.paused,
            last_good_poll=_poll_age(state, now),
        )
        for state in states
    }


def _running_jobs(state: SourceState) -> Counter[str]:
    # Between slot and start a message has no job yet.
    return Counter(
        held.job_name for held in state.in_hand.values() if held.phase is Phase.RUNNING and held.started_at
    )
