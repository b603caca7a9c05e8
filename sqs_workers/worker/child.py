"""What runs in a worker process: one call, and an ear for the parent."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from sqs_workers.worker.forks import in_forked_child, restore_handlers
from sqs_workers.worker.lifecycle import running_controls, signalled
from sqs_workers.worker.result import EXIT_CLEAN

__all__ = ["call", "main"]


# Seconds after which the main thread is told once more: a signal that comes just before it blocks wakes it not.
_AGAIN = 0.2

_over = threading.Event()
"""Set when what was to be called has ended: a signal would now meet an interpreter without handlers."""
_told = False
"""Whether a signal has reached the main thread. No event: its lock would be taken within itself."""


def main() -> None:
    """Read from standard input what to call, call it, and exit with its answer."""
    # Read without Python's buffers: their locks, held by a thread that listens, would abort the exit.
    pipe = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    lines = _lines(pipe)
    order = json.loads(next(lines))
    sys.path[:] = order["path"]
    # Until a worker runs, which has handlers of its own: a stop at this moment is no death.
    numbers = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, _end) for number in numbers}
    in_forked_child(partial(restore_handlers, before))
    threading.Thread(target=_listen, args=(lines,), name="sqs-parent", daemon=True).start()
    try:
        code = call(order["target"], order["kwargs"])
    finally:
        _over.set()
    sys.exit(code)


def _end(number: int, frame: object) -> None:
    global _told  # noqa: PLW0603 - all that a signal handler may safely do
    if not _told:
        # Once: an exception on top of the first would break what that one is leaving in order.
        _told = True
        sys.exit(EXIT_CLEAN)


def _lines(pipe: int) -> Iterator[bytes]:
    rest = b""
    while True:
        *whole, rest = rest.split(b"\n")
        yield from whole
        data = os.read(pipe, 65_536)
        if not data:
            return
        rest += data


def call(target: str, kwargs: dict[str, Any]) -> int:
    """Call ``module:attribute`` with ``kwargs``; its answer as an exit code."""
    module, _, attribute = target.partition(":")
    function: Any = importlib.import_module(module)
    for name in attribute.split("."):
        function = getattr(function, name)
    answer = function(**kwargs)
    if answer is None or isinstance(answer, bool):
        return EXIT_CLEAN
    return int(getattr(answer, "exit_code", answer))


def _listen(lines: Iterator[bytes]) -> None:
    for line in lines:
        if line == b"stop":
            _stop("stopped by the parent process")
        elif line == b"now":
            for control in running_controls():
                control.skip_waiting()
    _stop("the parent process is gone")


def _stop(reason: str) -> None:
    while not _over.is_set():
        controls = running_controls()
        for control in controls:
            control.stop(reason)
        if controls or _told:
            return
        if signalled():
            # The worker has stopped already: what follows it is not cut off.
            _over.wait(_AGAIN)
            continue
        # Not running yet, or something other than a worker: the way every program understands.
        ours = signal.getsignal(signal.SIGTERM) is _end
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        if not ours or _over.wait(_AGAIN):
            return
