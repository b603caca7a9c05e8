"""Several worker processes under one parent that keeps them alive.

A child is a fresh interpreter: it gets an import path and plain data, and no live client, lock or thread of
its parent. Parent and child are tied by the child's standard input: requests to stop travel on it, and its
end tells a child that the parent is dead. Signals to the whole process group reach the children as well;
because the parent does not signal them but writes, none of them takes the parent's word for a second signal.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.worker.result import EXIT_ABANDONED, EXIT_CLEAN, EXIT_FAILED

__all__ = ["Supervisor", "run_processes"]

logger = logging.getLogger(__name__)

_CHILD = "from sqs_workers.worker.child import main; main()"
_RESTART_FIRST = 0.5
_RESTART_MAX = 30.0
# A child that lived this long was healthy: what ended it is no reason to wait longer before the next.
_HEALTHY_AFTER = 60.0
# What a system says that has no memory, process id or file descriptor to give at the moment.
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
# Deaths in a row of young children, for each child, after which the parent gives up.
_MAX_EARLY_DEATHS = 5
# Beyond the children's own deadline, for their interpreters to end.
_KILL_MARGIN = 5.0


def run_processes(
    target: str,
    kwargs: Mapping[str, Any] | None = None,
    *,
    processes: int,
    shutdown_timeout: float = 30.0,
) -> int:
    """Call ``target`` in ``processes`` child processes until SIGTERM or SIGINT; returns an exit code.

    :param target: import path ``module:attribute`` of a callable that runs a worker. What it returns is the
        child's exit code: an integer, an object with ``exit_code`` (a ``WorkerResult``), or ``None`` for 0.
    :param kwargs: its keyword arguments; anything that JSON carries.
    :param processes: children, 1 or more.
    :param shutdown_timeout: the children's own, in seconds. One that outlives it by 5 s is killed, and named.
    :returns: 0 if every child ended well by itself or after a stop, else the highest code of
        :mod:`sqs_workers.worker.result`. A child that dies is replaced, after a pause that grows; when they
        keep dying young, five times for each child, the others are stopped in order, and the code is 4.
    :raises ConfigurationError: the arguments cannot work.
    """
    return Supervisor(target, kwargs or {}, processes, shutdown_timeout).run()


class _Child:
    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.restart_at: float | None = None
        self.pause = 0.0
        self.ended = False


class Supervisor:
    """Starts, watches, replaces and stops child processes. See :func:`run_processes`."""

    def __init__(
        self, target: str, kwargs: Mapping[str, Any], processes: int, shutdown_timeout: float
    ) -> None:
        if target.count(":") != 1 or not all(target.split(":")):
            raise ConfigurationError(f"a target is an import path 'module:attribute', not {target!r}")
        if isinstance(processes, bool) or processes < 1:
            raise ConfigurationError(f"processes is 1 or more, not {processes!r}")
        try:
            order = json.dumps({"target": target, "kwargs": dict(kwargs), "path": sys.path})
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the arguments of {target} must be plain data (JSON) to reach another process: {error}"
            ) from error
        self._order = order.encode() + b"\n"
        self._target = target
        self._shutdown_timeout = shutdown_timeout
        self._children = [_Child(number) for number in range(processes)]
        self._events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._stopping = False
        self._deadline: float | None = None
        self._early_deaths = 0
        self._last_death = time.monotonic()
        self._exit_code = EXIT_CLEAN

    @property
    def pids(self) -> list[int]:
        """Process ids of the children that live."""
        return [child.process.pid for child in self._children if child.process is not None]

    def stop(self) -> None:
        """Ask for a stop: any thread, any number of times; a second one skips the children's waiting."""
        self._events.put(("stop", "stop()"))

    def run(self) -> int:
        """Run until every child has ended; the exit code."""
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for one in (signal.SIGTERM, signal.SIGINT):
                before[one] = signal.signal(one, self._on_signal)
        try:
            for child in self._children:
                self._start(child)
            while not all(child.ended for child in self._children):
                self._step()
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            self._kill_all()
        return self._exit_code

    def _on_signal(self, number: int, frame: object) -> None:
        self._events.put(("stop", signal.Signals(number).name))

    # -- events

    def _step(self) -> None:
        try:
            kind, value = self._events.get(timeout=self._time_left())
        except Empty:
            self._look_at_the_clock()
            return
        if kind == "stop":
            self._stop(value)
        else:
            self._on_exit(value)

    def _time_left(self) -> float | None:
        dues = [child.restart_at for child in self._children if child.restart_at is not None]
        if self._deadline is not None:
            dues.append(self._deadline)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.restart_at is not None and child.restart_at <= now:
                self._start(child)
        if self._deadline is not None and self._deadline <= now:
            self._deadline = None
            self._exit_code = max(self._exit_code, EXIT_ABANDONED)
            for child in self._children:
                if child.process is not None:
                    logger.error("Worker process %d did not stop in time and is killed", child.process.pid)
                    child.process.kill()

    def _start(self, child: _Child) -> None:
        child.restart_at = None
        try:
            # A fixed program; what it is to call travels on its standard input.
            process = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE)  # noqa: S603
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            # That may pass, and the siblings work on.
            child.pause = min(max(child.pause * 2, _RESTART_FIRST), _RESTART_MAX)
            child.restart_at = time.monotonic() + child.pause
            logger.error("A worker process cannot be started (%s): next try in %.1f s", error, child.pause)
            return
        child.process = process
        child.started_at = time.monotonic()
        logger.info("Worker process %d started (%s)", process.pid, self._target)
        self._write(process, self._order)
        threading.Thread(
            target=self._watch, args=(child, process), name=f"sqs-watch-{process.pid}", daemon=True
        ).start()

    def _watch(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._events.put(("exit", child))

    def _write(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        try:
            if process.stdin is not None:
                process.stdin.write(line)
                process.stdin.flush()
        except (BrokenPipeError, ValueError):
            # It is dead already; its watcher says so.
            logger.debug("Worker process %d does not listen any more", process.pid)

    # -- ends

    def _on_exit(self, child: _Child) -> None:
        process = child.process
        if process is None:
            return
        child.process = None
        _close(process)
        code = process.returncode
        if self._stopping and code == -signal.SIGTERM:
            # A child that is told to stop before it runs a worker ends itself like this, and holds nothing.
            code = EXIT_CLEAN
        if self._stopping or code == EXIT_CLEAN:
            child.ended = True
            if code:
                logger.error("Worker process %d ended with %s", process.pid, _describe(code))
                self._exit_code = max(self._exit_code, code if code > 0 else EXIT_ABANDONED)
            return
        age = time.monotonic() - child.started_at
        healthy = age >= _HEALTHY_AFTER
        quiet = time.monotonic() - self._last_death > _RESTART_MAX + _HEALTHY_AFTER
        self._early_deaths = 0 if healthy or quiet else self._early_deaths + 1
        self._last_death = time.monotonic()
        if self._early_deaths >= _MAX_EARLY_DEATHS * len(self._children):
            logger.error(
                "Worker process %d ended with %s after %.1f s, as others before it: giving up",
                process.pid,
                _describe(code),
                age,
            )
            child.ended = True
            self._exit_code = EXIT_FAILED
            self._stop("its processes do not stay alive")
            return
        child.pause = _RESTART_FIRST if healthy else min(max(child.pause * 2, _RESTART_FIRST), _RESTART_MAX)
        child.restart_at = time.monotonic() + child.pause
        logger.error(
            "Worker process %d ended with %s after %.1f s; it is replaced in %.1f s",
            process.pid,
            _describe(code),
            age,
            child.pause,
        )

    def _stop(self, reason: str) -> None:
        line = b"now\n" if self._stopping else b"stop\n"
        if not self._stopping:
            logger.info("Worker processes are stopped: %s", reason)
            self._deadline = time.monotonic() + self._shutdown_timeout + _KILL_MARGIN
        self._stopping = True
        for child in self._children:
            if child.process is None:
                child.restart_at = None
                child.ended = True
            else:
                self._write(child.process, line)

    def _kill_all(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.kill()
                child.process.wait()
                _close(child.process)


def _close(process: subprocess.Popen[bytes]) -> None:
    # What could not be written to a dead child is tried once more here, and fails once more.
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
