"""How a worker ends: signals, the order of a stop, and its deadline."""

from __future__ import annotations

import logging
import signal
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sqs_workers.outcome import Unrun
from sqs_workers.worker.executors import STOP_SHARE, JobInterrupted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.poller import Poller

__all__ = ["POLL_GRACE", "Control", "Stop"]

logger = logging.getLogger(__name__)

POLL_GRACE = 1.0
"""Seconds that a stop waits for receives under way before it leaves them to their threads."""

_CANCEL_GRACE = 1.0
# Real seconds for threads that have nothing more to do.
_JOIN = 1.0


class Control:
    """Carries requests to stop, and signals, into the engine.

    A signal handler runs in the middle of whatever the main thread does, perhaps with a lock in its hands: it must
    not take any. So it only puts a word into a queue that is made for this, and a thread does the rest.
    """

    def __init__(self, engine: Engine, *, handle_signals: bool) -> None:
        self._engine = engine
        self._enabled = handle_signals and threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self._requests: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqs-control", daemon=True)

    def __enter__(self) -> Control:
        engine = self._engine
        if self._enabled:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
            main = threading.main_thread().ident or 0
            engine.executors.interrupt = lambda: signal.pthread_kill(main, signal.SIGTERM)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, before in self._before.items():
            # None: installed by something other than Python; there is no way to put it back.
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()
        self._engine.executors.interrupt = None
        self._requests.put(None)
        self._thread.join(_JOIN)

    def stop(self, reason: str) -> None:
        """Ask for a stop, from anywhere; takes no lock."""
        if self._engine.stop_reason is None:
            self._engine.stop_reason = reason
        self._requests.put(reason)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        engine = self._engine
        if engine.executors.interrupting or engine.signalled:
            engine.stop_now = engine.stop_now or engine.signalled and not engine.executors.interrupting
            self._requests.put("")
            if engine.executors.in_handler:
                raise JobInterrupted
            return
        engine.signalled = True
        self.stop(signal.Signals(number).name)

    def _run(self) -> None:
        while True:
            reason = self._requests.get()
            if reason is None:
                return
            if reason:
                self._engine.request_stop(reason)
            else:
                self._engine.wake_all()


class Stop:
    """The end of a worker, in order, within its deadline.

    :param timeout: seconds from the request to stop until the worker returns, at most.
    """

    def __init__(self, engine: Engine, pollers: Sequence[Poller], timeout: float) -> None:
        self._engine = engine
        self._pollers = pollers
        self._timeout = timeout
        self._began = 0.0
        self.abandoned: list[str] = []

    def finish(self) -> float:
        """Wait for what runs, settle, end the threads; seconds that the stop took."""
        engine, clock = self._engine, self._engine.clock
        # 0. No message is received or started any more; what waits is given back at once.
        engine.request_stop("the end of run()")
        self._began = engine.stop_began
        logger.info("Worker stops: %s", engine.stop_reason)
        deadline = self._began + self._timeout
        # 1. Running handlers get until shortly before the deadline; heartbeats go on, results are settled.
        self._wait_for_handlers(self._began + self._timeout * STOP_SHARE)
        # 2. What did not end: coroutines are cancelled, messages given back. A thread cannot be ended.
        self._cancel()
        # 3. Receives under way get a second, counted from the request; what they bring is given back at once.
        self._wait_for_receives(min(self._began + POLL_GRACE, deadline))
        with engine.lock:
            engine.stopped = True
            trailing = [poller for poller in self._pollers if poller.under_way]
        # 4. Acknowledgements and releases go out, those of the steps above included.
        if not engine.acker.flush(max(deadline, clock.monotonic() + 0.1) if not engine.stop_now else 0.0):
            self.abandoned += [
                f"{count} settlement(s) of {name}" for name, count in engine.acker.left_behind().items()
            ]
        # 5. Only now may heartbeats end, and the threads.
        engine.heartbeat.close()
        engine.acker.close()
        engine.executors.close()
        for poller in trailing:
            logger.info(
                "A receive is still under way; what it brings is given back",
                extra={"queue_name": poller.queue_name},
            )
            poller.trail()
        self._join([poller for poller in self._pollers if poller not in trailing])
        return clock.monotonic() - self._began

    def _wait_for_handlers(self, deadline: float) -> None:
        engine = self._engine
        with engine.lock:
            while engine.slots.running and not engine.stop_now:
                left = deadline - engine.clock.monotonic()
                if left <= 0:
                    return
                engine.clock.wait(engine.changed, left)

    def _cancel(self) -> None:
        engine = self._engine
        if not engine.executors.running():
            return
        engine.executors.cancel_tasks()
        deadline = engine.clock.monotonic() + (
            0.0 if engine.stop_now else min(_CANCEL_GRACE, self._timeout * 0.05)
        )
        with engine.lock:
            while any(held.task is not None for held in engine.executors.running()):
                left = deadline - engine.clock.monotonic()
                if left <= 0:
                    break
                engine.clock.wait(engine.changed, left)
        for held in engine.executors.running():
            self.give_up(held)

    def give_up(self, held: Held) -> None:
        """Give back the message of a handler that does not end."""
        held.zombie = True
        if self._engine.claim(held):
            self.abandoned.append(held.label)
            logger.error(
                "Job %s did not end in time and is left behind; its message is given back", held.label
            )
            self._engine.conclude(held, Unrun("did not end before the stop deadline"))

    def _wait_for_receives(self, deadline: float) -> None:
        engine = self._engine
        with engine.lock:
            while any(poller.under_way for poller in self._pollers) and not engine.stop_now:
                left = deadline - engine.clock.monotonic()
                if left <= 0:
                    return
                engine.clock.wait(engine.changed, left)

    def _join(self, pollers: Sequence[Poller]) -> None:
        """Threads with nothing to do end at once; a thread that hangs is a daemon, and is named."""
        engine = self._engine
        patience = 0.05 if engine.stop_now or self.abandoned else _JOIN
        for poller in pollers:
            if not poller.join(patience):
                self.abandoned.append(f"a receiver of {poller.queue_name}")
        if not engine.acker.join(patience):
            self.abandoned.append("a request of the acker")
        if not engine.heartbeat.join(patience):
            self.abandoned.append("a request of the heartbeat")
        self.abandoned += [f"thread {name}" for name in engine.executors.join(patience)]
