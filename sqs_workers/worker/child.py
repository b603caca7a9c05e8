"""What runs in a worker process: one call, and an ear for the parent."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from sqs_workers.worker.lifecycle import running_controls
from sqs_workers.worker.result import EXIT_CLEAN

__all__ = ["call", "main"]


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
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    threading.Thread(target=_listen, args=(lines,), name="sqs-parent", daemon=True).start()
    sys.exit(call(order["target"], order["kwargs"]))


def _end(number: int, frame: object) -> None:
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
    controls = running_controls()
    for control in controls:
        control.stop(reason)
    if not controls:
        # Not running yet, or something other than a worker: the way every program understands.
        os.kill(os.getpid(), signal.SIGTERM)
