"""Runs the workers of an app until they are told to stop, and says how it ended."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqs_workers.app.logs import error_fields
from sqs_workers.worker.forks import in_forked_child, not_in_forked_child, restore_handlers

if TYPE_CHECKING:
    from types import FrameType

    from sqs_workers.app.building import Built
    from sqs_workers.worker import Worker
    from sqs_workers.worker.result import WorkerResult

__all__ = ["EXIT_STOPPED_BY_ERROR", "AppRun"]

logger = logging.getLogger("sqs_workers.app")

EXIT_STOPPED_BY_ERROR = 4
_EXIT_START = 1
_TICK = 0.5


@dataclass(eq=False)
class AppRun:
    """One run of an app. If a worker cannot go on, the others are stopped too.

    :ivar results: how the worker of each task ended.
    :ivar errors: what a worker raised.
    """

    built: Built
    results: dict[str, WorkerResult] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._signals = 0
        self._pending: str | None = None

    @property
    def workers(self) -> dict[str, Worker]:
        """Worker of each task."""
        return dict(self.built.workers)

    def stop(self, reason: str = "stop()") -> None:
        """Ask all workers to stop; a second time, without waiting for their handlers."""
        for worker in self.built.workers.values():
            worker.stop(reason)

    def run(self, *, on_tick: Callable[[], Any] = lambda: None, handle_signals: bool = True) -> int:
        """Run until all workers have ended; the exit code.

        :param on_tick: called twice a second in this thread.
        :param handle_signals: stop on SIGTERM and SIGINT, if this is the main thread.
        :returns: 0 after a clean stop, 1 if a worker could not start, 3 if something was left behind at the
            deadline, 4 if a worker could not go on.
        """
        threads = [
            threading.Thread(target=self._work, args=(name, worker), name=f"sqs-task-{name}", daemon=True)
            for name, worker in self.built.workers.items()
        ]
        self._running = len(threads)
        before = self._install() if handle_signals else {}
        put_back = partial(restore_handlers, before)
        in_forked_child(put_back)
        try:
            for thread in threads:
                thread.start()
            self._wait(on_tick)
            for thread in threads:
                thread.join()
        finally:
            not_in_forked_child(put_back)
            put_back()
        return self._exit_code()

    def _install(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Only noted here: the workers' locks may be held by the very code that the signal interrupted.
        self._signals += 1
        self._pending = signal.Signals(number).name

    def _wait(self, on_tick: Callable[[], Any]) -> None:
        handled = 0
        while True:
            with self._changed:
                if not self._running:
                    return
                self._changed.wait(_TICK if handled == self._signals else 0.0)
            if self._signals > handled:
                handled = self._signals
                self.stop(self._pending or "signal")
            on_tick()

    def _work(self, name: str, worker: Worker) -> None:
        try:
            self.results[name] = worker.run()
        except BaseException as error:  # noqa: BLE001 - reported, and the other workers are stopped
            self.errors[name] = error
            logger.error(
                "The task cannot go on: %s",
                name,
                extra={"event": "task_failed", "task": name, **error_fields(error)},
            )
            for other in self.built.workers.values():
                if other is not worker:
                    other.stop(f"task {name} cannot go on")
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _exit_code(self) -> int:
        codes = [result.exit_code for result in self.results.values()]
        for name, error in self.errors.items():
            stats = self.built.workers[name].stats()
            started = any(source.polls for source in stats.sources.values())
            codes.append(EXIT_STOPPED_BY_ERROR if started else _EXIT_START)
            logger.debug("task %s: %s", name, type(error).__name__)
        return max(codes, default=0)
