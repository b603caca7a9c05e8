"""What a process that is forked from a worker must not inherit: the signals that the worker listens to.

A job may fork, as ``multiprocessing`` does on Linux. The child has the handlers of its parent, and shares the
socket to which the interpreter writes signals: ended with SIGTERM, it would stop the worker and live on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping

__all__ = ["in_forked_child", "not_in_forked_child", "restore_handlers"]

_undo: list[Callable[[], object]] = []


def in_forked_child(undo: Callable[[], object]) -> None:
    """Call ``undo`` in processes that are forked from now on; the last one first."""
    _undo.append(undo)


def not_in_forked_child(undo: Callable[[], object]) -> None:
    """Forget ``undo``."""
    # In a forked child, it is forgotten already.
    with contextlib.suppress(ValueError):
        _undo.remove(undo)


def restore_handlers(before: Mapping[int, signal._HANDLER]) -> None:
    """Put back what handled signals before, by number, as ``signal.signal`` returned it."""
    for number, handler in before.items():
        # None: installed by something other than Python; there is no way to put it back.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _forked() -> None:
    if not _undo:
        return
    # Whoever listens there, this worker or an event loop around it, does so in the other process.
    signal.set_wakeup_fd(-1)
    while _undo:
        _undo.pop()()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
