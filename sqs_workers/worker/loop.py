"""One event loop in a thread of its own, started when the first ``async def`` job arrives."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["LoopThread"]


class LoopThread:
    """Runs coroutines for other threads. asyncio is imported only if there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # The loop keeps weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._told = False
        self._current_task: Callable[[], asyncio.Task[None] | None] = lambda: None

    def submit(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine that ``make`` returns."""
        loop = self._started()
        self._waiting.append(make)
        # Waking the loop costs more than a short job: those that come together wake it once.
        if not self._told:
            self._told = True
            loop.call_soon_threadsafe(self._spawn_waiting)

    def soon(self, function: Callable[[], object]) -> None:
        """On the loop: call ``function`` after what is ready to run now."""
        if self._loop is not None:
            self._loop.call_soon(function)

    def call(self, function: Callable[[], object]) -> None:
        """Call ``function`` on the loop, if there is one."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    def current_task(self) -> asyncio.Task[None] | None:
        """The task that runs now, on the loop."""
        return self._current_task()

    @property
    def cancelled_error(self) -> type[BaseException]:
        """The exception of a cancelled coroutine."""
        import asyncio

        return asyncio.CancelledError

    def close(self) -> None:
        """End the loop once its tasks have ended; they are cancelled now."""
        self.call(self._stop)

    def join(self, timeout: float) -> bool:
        """Wait for the thread (real seconds); whether it has ended."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Asked for every job: an import statement would cost more than the answer.
                self._current_task = asyncio.current_task
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="sqs-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def _spawn_waiting(self) -> None:
        # Before the deque is emptied: what is put in after that has to wake the loop again.
        self._told = False
        if self._loop is None:
            return
        while self._waiting:
            task = self._loop.create_task(self._waiting.popleft()())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        if self._loop is not None:
            self._loop.stop()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
