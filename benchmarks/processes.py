"""Processes under test: started in a group of their own, watched through /proc, ended as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Group", "Usage"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """CPU seconds used so far, resident bytes and number of processes of a group."""

    cpu: float
    rss: int
    processes: int


class Group:
    """A process with its descendants.

    :param output: where its output goes, to be shown when it fails.
    """

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path, output: Path) -> None:
        self.output = output
        with output.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=env, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        """The end of what it wrote."""
        return self.output.read_text(errors="replace")[-2000:]

    def usage(self) -> Usage:
        """What the processes of the session have used; of those that ended, what their parents know."""
        cpu, pages, count = 0.0, 0, 0
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # See proc(5); counted after the name: session, CPU with that of dead children, RSS.
            if int(fields[3]) != self._process.pid:
                continue
            cpu += sum(int(ticks) for ticks in fields[11:15]) / _TICKS
            pages += int(fields[21])
            count += 1
        return Usage(cpu, pages * _PAGE, count)

    def settle(self, seconds: float) -> None:
        """Wait until it uses hardly any CPU, for ``seconds`` at most."""
        deadline = time.monotonic() + seconds
        last = self.usage().cpu
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = self.usage().cpu
            if now - last <= 0.02:
                return
            last = now

    def stop(self, patience: float = 3.0) -> None:
        """SIGTERM to the whole group, SIGKILL to what is left."""
        for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            deadline = time.monotonic() + wait
            while time.monotonic() < deadline:
                self._process.poll()
                if self.usage().processes == 0:
                    return
                time.sleep(0.02)
