"""Several processes of one command, and starting anew when a file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from sqs_workers.cli.output import errors

__all__ = ["supervise"]

_LOOK = 0.5
# A process that dies sooner than this after its start has a mistake that another start does not mend.
_TOO_SOON = 5.0
_PAUSE_MOST = 30.0
_TAKES_VALUE = ("--processes",)
_WATCHED = {".py", ".yaml", ".yml"}


def supervise(arguments: Sequence[str], *, processes: int, watch: Path | None) -> int:
    """Run ``sqs-workers`` with ``arguments`` in child processes until SIGTERM or SIGINT; the exit code.

    A child that dies of a signal or an error is replaced, after a pause that grows if it dies soon.

    :param watch: directory whose Python and YAML files, when they change, start the children anew.
    """
    return _Supervisor(_without(arguments), processes, watch).run()


def _without(arguments: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in _TAKES_VALUE:
            skip = True
        elif argument != "--reload" and not argument.startswith("--processes="):
            kept.append(argument)
    return kept


class _Supervisor:
    def __init__(self, arguments: list[str], processes: int, watch: Path | None) -> None:
        self._command = [sys.executable, "-m", "sqs_workers", *arguments]
        self._count = processes
        self._watch = watch
        self._children: list[subprocess.Popen[bytes]] = []
        self._started: dict[int, float] = {}
        self._pauses = 0
        self._stop: int | None = None
        self._woken = threading.Condition()
        self._codes: list[int] = []

    def run(self) -> int:
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            seen = _snapshot(self._watch)
            self._fill()
            while self._children:
                with self._woken:
                    self._woken.wait(_LOOK)
                self._reap()
                now = _snapshot(self._watch)
                if now != seen and self._stop is None:
                    seen = now
                    self._restart()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for child in self._children:
                child.kill()
                child.wait()
        return max(self._codes, default=0)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop = number
        for child in self._children:
            child.send_signal(signal.SIGTERM)

    def _fill(self) -> None:
        while len(self._children) < self._count and self._stop is None:
            # A group of its own: Ctrl-C reaches the children through this process alone, once.
            child = subprocess.Popen(self._command, start_new_session=True)  # noqa: S603
            self._children.append(child)
            self._started[child.pid] = time.monotonic()
            if self._stop is not None:
                # The signal came while this one was being started, and reached only the others.
                child.send_signal(signal.SIGTERM)

    def _reap(self) -> None:
        for child in list(self._children):
            code = child.poll()
            if code is None:
                continue
            self._children.remove(child)
            age = time.monotonic() - self._started.pop(child.pid)
            if self._stop is not None or code in (0, 2):
                # Done, or a file with mistakes, of which the child has told. A child that has only just
                # started dies of the signal itself, with nothing in hand.
                self._codes.append(0 if code == -signal.SIGTERM else 1 if code < 0 else code)
                continue
            if self._watch is not None and age < _TOO_SOON:
                self._wait_for_change()
            else:
                self._replace(child.pid, code, age)

    def _replace(self, pid: int, code: int, age: float) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._pauses = self._pauses + 1 if age < _TOO_SOON else 0
        pause = min(2.0 ** (self._pauses - 1), _PAUSE_MOST) if self._pauses else 0.0
        errors().print(
            f"Worker process {pid} ended with {how}: another one starts", style="yellow", markup=False
        )
        deadline = time.monotonic() + pause
        with self._woken:
            while self._stop is None and time.monotonic() < deadline:
                self._woken.wait(min(_LOOK, deadline - time.monotonic()))
        self._fill()

    def _wait_for_change(self) -> None:
        errors().print("The worker ended: it starts anew when a file changes", style="yellow", markup=False)
        seen = _snapshot(self._watch)
        while self._stop is None and _snapshot(self._watch) == seen:
            with self._woken:
                self._woken.wait(_LOOK)
        self._fill()

    def _restart(self) -> None:
        errors().print("A file has changed: the workers start anew", style="yellow", markup=False)
        for child in self._children:
            child.send_signal(signal.SIGTERM)
        for child in self._children:
            child.wait()
        self._children.clear()
        self._started.clear()
        self._fill()


def _snapshot(directory: Path | None) -> dict[str, int]:
    if directory is None:
        return {}
    found: dict[str, int] = {}
    for base, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "__")) and name != "node_modules"]
        for name in files:
            path = Path(base, name)
            if path.suffix in _WATCHED:
                try:
                    found[str(path)] = path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue
    return found
