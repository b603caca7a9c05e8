"""Runs ``program.py`` and listens to it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.field.kit import PATIENCE, Place

__all__ = ["Program", "start"]

ROOT = Path(__file__).parents[2]


class Program:
    """A running ``program.py``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="program-reader")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.decode().rstrip("\n"))
        self._queue.put(None)

    def expect(self, start: str) -> str:
        """The next line that begins so; what came before it is passed over."""
        while True:
            try:
                line = self._queue.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no line {start!r}, only {self.lines}") from None
            assert line is not None, f"the program ended before a line {start!r}: {self.lines}"
            self.lines.append(line)
            if line.startswith(start):
                return line

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def start(place: Place, queue_name: str, *, go: bool = False, **options: Any) -> Iterator[Program]:
    """Work a queue by ``program.py``.

    :param go: handlers need not wait for a byte at standard input.
    """
    environment = {
        **os.environ,
        "FIELD_ENDPOINT": place.endpoint,
        "FIELD_PREFIX": place.prefix,
        "FIELD_TRANSPORT": place.transport,
        "FIELD_QUEUE": queue_name,
        "FIELD_OPTIONS": json.dumps(options),
        "FIELD_GO": "1" if go else "",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.field.program"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=ROOT,
    )
    program = Program(process)
    try:
        yield program
    finally:
        program.close()
