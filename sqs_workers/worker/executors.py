"""Where handlers run: in the calling thread, in a pool of threads, or on one event loop (``async def``)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from sqs_workers.exceptions import WorkerError
from sqs_workers.outcome import Failed, Outcome, Succeeded, Unrun
from sqs_workers.worker import circuit, steps
from sqs_workers.worker.held import Held, Phase, log_fields
from sqs_workers.worker.loop import LoopThread
from sqs_workers.worker.threads import JobThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.source import SourceState

__all__ = ["STOP_SHARE", "Executors", "JobInterrupted", "Work"]

logger = logging.getLogger(__name__)

STOP_SHARE = 0.9
"""Part of the shutdown timeout that handlers get; the rest is for acknowledgements and releases."""

# Seconds that a cancelled coroutine gets to end before it is given up.
_CANCEL_GRACE = 5.0
_INTERRUPT_AGAIN = 0.2
_SUCCEEDED = Succeeded()


class JobInterrupted(BaseException):
    """Raised into a handler in the main thread when the stop deadline has passed, or a second signal came."""


class Work:
    """One job, or a batch of jobs, that has a slot."""

    __slots__ = ("by_receiver", "messages", "plain", "started_at", "state", "turn")

    def __init__(self, state: SourceState, messages: list[Held]) -> None:
        self.state = state
        self.messages = messages
        self.started_at = 0.0
        self.turn = 0
        self.by_receiver = False
        self.plain = False
        """Whether nothing depends on the moment at which the success of its one job is settled."""


class Executors:
    """Runs work and reports its end to the engine, each message once.

    :param inline: run jobs in the thread that calls :meth:`run`.
    """

    def __init__(self, engine: Engine, concurrency: int, *, inline: bool) -> None:
        self._engine = engine
        self._concurrency = concurrency
        self.inline = inline
        self.loop = LoopThread()
        self._pool = JobThreads(engine, self, concurrency)
        self._tasks = self._pool.tasks
        self._zombies = 0
        self._running: set[Work] = set()
        # Coroutines that have succeeded and are not settled yet. Of the loop's thread alone.
        self._ended: list[tuple[Work, float]] = []
        self.in_handler = False
        """Whether the calling thread of an inline executor is in a handler."""
        self.interrupting = False
        """Whether the next signal to the main thread means: leave the handler."""
        self.fatal: tuple[type[BaseException], ...] = (SystemExit, KeyboardInterrupt)
        """What ends the worker when a job raises it."""
        self.interrupt: Callable[[], object] | None = None
        """Sends that signal; ``None`` where no signal handler is installed."""

    # -- handing out; under the engine's lock

    def start(self, work: Work) -> None:
        """Run ``work``, which has got a slot."""
        self._running.add(work)
        held = work.messages[0]
        if work.state.source.batch is None and self._is_async(held):
            self.loop.submit(partial(self._execute_async, work))
            return
        if self.inline:
            self._tasks.append(work)
            self._engine.changed.notify_all()
        else:
            self._pool.add(work)

    def _is_async(self, held: Held) -> bool:
        try:
            return held.source.handler.is_async(held.message)
        except Exception:
            logger.exception("Message %s is run in a thread", held.label, extra=log_fields(held))
            return False

    def expect_help(self) -> None:
        """A receiver is about to hand over what it has brought; it calls :meth:`help` then."""
        if not self.inline:
            self._pool.expect_help()

    def wake(self) -> None:
        """Let idle threads look at the engine's state."""
        self._pool.wake()

    def withdraw(self) -> list[Held]:
        """Take back what has a slot but has not started."""
        with self._engine.lock:
            works: list[Work] = []
            try:
                while True:
                    works.append(self._tasks.popleft())
            except IndexError:
                pass
            for work in works:
                self._finish(work, None)
        return [held for work in works for held in work.messages]

    def running(self) -> list[Held]:
        """Messages that are with a handler."""
        with self._engine.lock:
            return [held for work in self._running for held in work.messages if held.phase is Phase.RUNNING]

    # -- running

    @property
    def helper_stuck(self) -> bool:
        """Whether a receiver is in a job that takes long. Under the engine's lock."""
        return self._pool.helper_stuck

    def help(self) -> bool:
        """Run in the calling thread, a receiver, what it has brought, if that is the best; whether it was."""
        return self._pool.help()

    def run(self) -> None:
        """Return when the engine stops; until then, the inline executor runs its jobs here."""
        engine = self._engine
        while True:
            with engine.lock:
                while not engine.stopping and not (self.inline and self._tasks):
                    engine.clock.wait(engine.changed, None)
                if engine.stopping:
                    return
                work = self._tasks.popleft()
            self._execute(work)

    def run_waiting(self) -> None:
        """Run in this thread what the engine has taken in, and return when nothing is left."""
        engine = self._engine
        while True:
            with engine.lock:
                while not self._tasks:
                    if engine.stopping or not (
                        engine.slots.running or any(len(s.buffer) for s in engine.sources)
                    ):
                        return
                    engine.clock.wait(engine.changed, None)
                work = self._tasks.popleft()
            self._execute(work)

    def _execute(self, work: Work) -> None:
        outcomes, took = self.execute(work)
        self.end(work, outcomes, took)

    def execute(self, work: Work) -> tuple[Sequence[Outcome], float]:
        """Run ``work``: one outcome for each message, and the seconds that it took."""
        engine = self._engine
        if engine.stop_reason is not None and not self.inline:
            # Taken in the moment in which the stop was asked for.
            return [Unrun("stopping")] * len(work.messages), 0.0
        outcomes: Sequence[Outcome]
        try:
            self._begin(work)
            try:
                self.in_handler = self.inline
                if work.state.source.batch is None:
                    outcomes = (steps.run(work.messages[0]),)
                else:
                    outcomes = steps.run_batch(work.messages)
            finally:
                self.in_handler = False
        except BaseException as error:  # noqa: BLE001 - SystemExit and its kin end the worker, in order
            outcome = self._interrupted(work.messages[0], error)
            outcomes = [outcome] * len(work.messages)
        return outcomes, engine.clock.monotonic() - work.started_at

    async def _execute_async(self, work: Work) -> None:
        engine = self._engine
        held = work.messages[0]
        held.task = self.loop.current_task()
        too_late = engine.stopping
        if too_late:
            self.end(work, (Unrun("stopping"),), 0.0)
            return
        outcome: Outcome
        try:
            self._begin(work)
            outcome = await steps.run_async(held)
        except self.loop.cancelled_error as error:
            if held.timed_out:
                outcome = Failed(steps.timeout_error(held))
            elif engine.stopping:
                outcome = Unrun("cancelled at the stop deadline")
            else:
                outcome = Failed(error)
        except BaseException as error:  # noqa: BLE001 - as above; raised on, it would end the event loop
            outcome = self._interrupted(held, error)
        took = engine.clock.monotonic() - work.started_at
        if type(outcome) is not Succeeded or work.state.source.fifo:
            self.end(work, (outcome,), took)
            return
        if held.timeout is not None:
            engine.heartbeat.cancel_alarm(held)
        self._ended.append((work, took))
        if len(self._ended) == 1:
            # One write of a sink ends many: they are settled together when each of them has had its turn.
            self.loop.soon(self._end_coroutines)

    def _end_coroutines(self) -> None:
        ended, self._ended = self._ended, []
        self.end_well(ended)

    def _begin(self, work: Work) -> None:
        engine = self._engine
        now = work.started_at = engine.clock.monotonic()
        for held in work.messages:
            if held.policies is None:
                steps.look_up(held)
            steps.started(engine.hooks, held, now)
        first = work.messages[0]
        work.plain = first.timeout is None and work.state.plain
        if first.timeout is not None:
            engine.heartbeat.set_alarm(first, first.timeout, partial(self._timed_out, work))

    def end_well(self, ended: Sequence[tuple[Work, float]], *, wake: bool = True) -> None:
        """Settle jobs that have succeeded, none of a FIFO queue, together, and free their slots.

        :param wake: as for :meth:`Acker.add_all`.
        """
        engine = self._engine
        try:
            engine.succeeded([(work.messages[0], took) for work, took in ended], wake=wake)
            for work, _ in ended:
                if work.state.circuit is not None:
                    circuit.feed(engine, work.state, _SUCCEEDED)
        except BaseException as error:  # noqa: BLE001 - said by _not_settled
            self._not_settled(error, f"{len(ended)} job(s)")
        with engine.lock:
            # One that was given up in this moment has freed its slot already.
            alive = [(work, took) for work, took in ended if work in self._running]
            self._zombies -= len(ended) - len(alive)
            for work, _ in alive:
                self._running.discard(work)
            engine.free_slots([(work.state, took) for work, took in alive])

    def end(self, work: Work, outcomes: Sequence[Outcome], took: float | None) -> bool:
        """Settle the messages of ``work`` and free its slot.

        ``False`` if it was given up meanwhile, so that another thread has its place.
        """
        engine = self._engine
        if work.messages[0].timeout is not None:
            engine.heartbeat.cancel_alarm(work.messages[0])
        for held, outcome in zip(work.messages, outcomes, strict=True):
            if engine.claim(held):
                self._conclude(held, outcome)
        with engine.lock:
            if work in self._running:
                self._finish(work, took)
                return True
            self._zombies -= 1
            return False

    def _conclude(self, held: Held, outcome: Outcome) -> None:
        try:
            self._engine.conclude(held, outcome)
        except BaseException as error:  # noqa: BLE001 - said by _not_settled
            self._not_settled(error, held.label)

    def _not_settled(self, error: BaseException, what: str) -> None:
        # A thread and a slot must not be lost to it; what is not settled comes back by its visibility timeout.
        logger.error("After the end of %s: %s", what, type(error).__name__, exc_info=error)
        if not isinstance(error, Exception):
            self._engine.fail(error, f"{type(error).__name__} at the end of {what}")

    def _finish(self, work: Work, took: float | None) -> None:
        self._running.discard(work)
        self._engine.free_slots([(work.state, took)])

    def _interrupted(self, held: Held, error: BaseException) -> Outcome:
        if isinstance(error, JobInterrupted):
            return Unrun("interrupted at the stop deadline")
        if not isinstance(error, self.fatal):
            # A cancelled task that the job waited for, the timeout of a library: one job's own affair.
            logger.error("Error while processing job %s", held.label, exc_info=error, extra=log_fields(held))
            return Failed(error)
        logger.error(
            "%s was raised in job %s: the worker stops",
            type(error).__name__,
            held.label,
            extra=log_fields(held),
        )
        self._engine.fail(error, f"{type(error).__name__} in job {held.label}")
        return Failed(error)

    # -- jobs that do not end

    def _timed_out(self, work: Work) -> None:
        engine = self._engine
        held = work.messages[0]
        with engine.lock:
            if work not in self._running or held.phase is not Phase.RUNNING:
                return
            first_time = not held.timed_out
            for one in work.messages:
                one.timed_out = True
        if first_time:
            work.state.counts.timed_out += len(work.messages)
        if held.task is not None and first_time:
            engine.heartbeat.set_alarm(held, _CANCEL_GRACE, partial(self._timed_out, work))
            self.loop.call(held.task.cancel)
            return
        self._give_up(work)

    def _give_up(self, work: Work) -> None:
        """A thread cannot be ended: its message is left, and its slot goes to a thread in its place."""
        engine = self._engine
        for held in work.messages:
            engine.give_up_waiting(held, steps.timeout_error(work.messages[0]))
        if self.inline and work.messages[0].task is None:
            # The calling thread itself is stuck: it goes on when the handler returns.
            return
        with engine.lock:
            if work not in self._running:
                return
            self._zombies += 1
            if work.messages[0].task is None:
                self._pool.given_up(work)
            self._finish(work, None)
            zombies = self._zombies
        if zombies > self._concurrency:
            engine.fail(
                WorkerError(
                    f"{zombies} handlers have outlived their timeout and hold a thread each: the worker "
                    "stops. Make them end by themselves (timeouts of their own for every call), or use "
                    "async jobs"
                ),
                "too many handlers outlived their timeout",
            )

    # -- the end

    def arm_interrupt(self, seconds: float) -> None:
        """Leave the handler in the calling thread when it has not ended after ``seconds``.

        Ends whatever Python code runs there, but no call into C that does not return. Where signals are not
        handled, nothing can be done from outside: the stop waits for the handler.
        """
        if self.inline and self.interrupt is not None:
            self._engine.heartbeat.set_alarm(self, seconds, self.interrupt_handler)

    def interrupt_handler(self) -> None:
        """Leave the handler in the calling thread now, if signals are handled."""
        interrupt = self.interrupt
        if interrupt is not None and self.in_handler:
            self.interrupting = True
            interrupt()
            # A signal that comes just before the thread blocks is not noticed until it wakes: ask again.
            self._engine.heartbeat.set_alarm(self, _INTERRUPT_AGAIN, self.interrupt_handler)

    def cancel_tasks(self) -> None:
        """Cancel the coroutines that still run."""
        for held in self.running():
            if held.task is not None:
                self.loop.call(held.task.cancel)

    def close(self) -> None:
        """End the threads as they become idle, and the event loop."""
        with self._engine.lock:
            self._pool.close()
        self.loop.close()

    def join(self, timeout: float) -> list[str]:
        """Wait for the threads (real seconds); names of those that still run."""
        alive = self._pool.join(timeout)
        if not self.loop.join(timeout):
            alive.append("the event loop")
        return alive
