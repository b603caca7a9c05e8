"""What a test leaves running: threads and child processes that nobody ended."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from pathlib import Path

__all__ = ["child_processes", "leaked_processes", "leaked_threads"]

OWN_PREFIXES = ("sqs-workers", "sqs_workers")


def child_processes() -> set[int]:
    """Process ids of the living children of this process."""
    children = {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command in brackets may hold spaces: the fields that matter follow the last bracket.
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == os.getpid() and state != "Z":
            children.add(int(status.parent.name))
    return children


def leaked_threads(before: set[threading.Thread], patience: float) -> list[threading.Thread]:
    """Threads started since ``before`` that still run after ``patience`` seconds.

    A daemon thread counts only if it is the library's own: others belong to whoever started them.
    """
    deadline = time.monotonic() + patience
    leaked = []
    for thread in set(threading.enumerate()) - before:
        if thread.daemon and not thread.name.startswith(OWN_PREFIXES):
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            leaked.append(thread)
    return leaked


def leaked_processes(before: set[int], expected: set[int], patience: float) -> set[int]:
    """Children started since ``before``, not ``expected``, that still run after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    pause = threading.Event()
    while leaked := child_processes() - before - expected:
        if time.monotonic() >= deadline:
            break
        pause.wait(0.05)
    return leaked
