"""How a worker ends: signals, the order of a stop, and its deadline."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from sqs_workers.outcome import Unrun
from sqs_workers.worker.executors import STOP_SHARE, JobInterrupted
from sqs_workers.worker.forks import in_forked_child, not_in_forked_child, restore_handlers
from sqs_workers.worker.releases import POLL_GRACE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.poller import Poller

__all__ = ["Control", "Stop", "running_controls", "signalled"]

logger = logging.getLogger(__name__)


_CANCEL_GRACE = 1.0
_LAST_MOMENT = 1.0
_LEAST_FLUSH = 0.1
# Real seconds for threads that have nothing more to do.
_JOIN = 1.0


_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_running: list[Control] = []
_signalled = threading.Event()


def running_controls() -> list[Control]:
    """The controls of the workers that run in this process."""
    return list(_running)


def signalled() -> bool:
    """Whether a signal has stopped a worker of this process."""
    return _signalled.is_set()


class Control:
    """Carries requests to stop, and signals, into the engine.

    A signal handler runs in the middle of whatever the main thread does, perhaps with a lock in its hands, or
    not for a long time, if that is in a call into C. So the interpreter writes signals to a socket the moment
    they come (``signal.set_wakeup_fd``), requests to stop go the same way, and a thread does the rest.
    """

    def __init__(self, engine: Engine, *, handle_signals: bool) -> None:
        self._engine = engine
        self.handles_signals = handle_signals and threading.current_thread() is threading.main_thread()
        self._handlers: dict[int, Any] = {}
        self._wakeup_fd = -1
        self._signalled = False
        self._own_signals = 0
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="sqs-control", daemon=True)

    def __enter__(self) -> Control:
        self._thread.start()
        if self.handles_signals:
            self._wakeup_fd = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
            for number in _SIGNALS:
                self._handlers[number] = signal.signal(number, self._in_main_thread)
            self._engine.executors.interrupt = self._interrupt_main_thread
        _running.append(self)
        in_forked_child(self._forked)
        return self

    def __exit__(self, *exc_info: object) -> None:
        not_in_forked_child(self._forked)
        self._leave()
        self._engine.executors.interrupt = None
        if self.handles_signals:
            restore_handlers(self._handlers)
            try:
                signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
            except (OSError, ValueError):
                # Whoever listened there before has closed it meanwhile.
                signal.set_wakeup_fd(-1)
        self._write.close()
        self._thread.join(_JOIN)
        self._read.close()

    def _leave(self) -> None:
        with contextlib.suppress(ValueError):
            _running.remove(self)

    def _forked(self) -> None:
        self._leave()
        restore_handlers(self._handlers)

    def stop(self, reason: str) -> None:
        """Ask for a stop, from anywhere; takes no lock."""
        if self._engine.stop_reason is None:
            self._engine.stop_reason = reason
        self._poke()

    def skip_waiting(self) -> None:
        """Wait for nothing more; takes no lock."""
        self._engine.stop_now = True
        self._poke()

    def _poke(self) -> None:
        # Full: there is enough to read already. Closed: the worker has returned.
        with contextlib.suppress(OSError):
            self._write.send(b"\0")

    def _interrupt_main_thread(self) -> None:
        self._own_signals += 1
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _in_main_thread(self, number: int, frame: FrameType | None) -> None:
        executors = self._engine.executors
        if executors.interrupting and executors.in_handler:
            raise JobInterrupted

    def _run(self) -> None:
        engine = self._engine
        while data := self._read.recv(4096):
            for number in data:
                if number in _SIGNALS:
                    self._on_signal(number)
                elif number and self._wakeup_fd != -1:
                    # Full or closed: whoever listens there has missed it; a stop must not.
                    with contextlib.suppress(OSError):
                        os.write(self._wakeup_fd, bytes((number,)))
            if engine.stop_reason is not None:
                engine.request_stop(engine.stop_reason)
            if engine.stop_now:
                engine.wake_all()
                engine.executors.interrupt_handler()

    def _on_signal(self, number: int) -> None:
        engine = self._engine
        if self._own_signals:
            self._own_signals -= 1
        elif not self._signalled:
            self._signalled = True
            _signalled.set()
            if engine.stop_reason is None:
                engine.stop_reason = signal.Signals(number).name
            # The signals of a worker in whose job this one runs come here alone.
            for other in _around(self):
                other.stop(signal.Signals(number).name)
        else:
            engine.stop_now = True
            for other in _around(self):
                other.skip_waiting()


def _around(control: Control) -> list[Control]:
    return [other for other in running_controls() if other is not control and other.handles_signals]


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
        for poller in self._pollers:
            poller.wake()
        self._wait_for_receives(min(self._began + POLL_GRACE, deadline))
        with engine.lock:
            engine.stopped = True
            for state in engine.sources:
                engine.releases.waiting(state, "stopping")
            trailing = [poller for poller in self._pollers if poller.under_way]
        # 4. Acknowledgements and releases go out, those of the steps above included.
        if not self._flush(self._flush_deadline(deadline)):
            left = engine.acker.left_behind()
            self.abandoned += [f"{count} settlement(s) of {name}" for name, count in left.items()]
        # 5. Only now may heartbeats end, and the threads.
        engine.heartbeat.close()
        engine.acker.close()
        engine.executors.close()
        for poller in trailing:
            logger.info(
                "A receive is still under way; what it brings is given back",
                extra={"queue_name": poller.queue_name},
            )
            if not engine.stop_now:
                poller.trail()
        self._join([poller for poller in self._pollers if poller not in trailing])
        return clock.monotonic() - self._began

    def _flush(self, deadline: float) -> bool:
        acker, heartbeat = self._engine.acker, self._engine.heartbeat
        if not acker.flush(deadline):
            return False
        # An extension that SQS gets after the release of its message hides it again; the acker then repeats
        # the release.
        heartbeat.wait_for_extensions(min(self._engine.clock.monotonic() + _LAST_MOMENT, deadline))
        return acker.flush(deadline)

    def _flush_deadline(self, deadline: float) -> float:
        # Whatever was waited for before, and after a second signal too: one moment for the network.
        now = self._engine.clock.monotonic()
        return now + _LAST_MOMENT if self._engine.stop_now else max(deadline, now + _LEAST_FLUSH)

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
