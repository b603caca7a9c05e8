"""From the threads of sinks back to the event loop: many answers with one wake-up."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial

__all__ = ["Landing"]


class Landing:
    """Where coroutines of one event loop at a time wait for futures of threads.

    As :func:`asyncio.wrap_future`, but the loop is woken once for all futures that one thread sets one after
    another: waking it for each costs more than what a handler does.
    """

    def __init__(self) -> None:
        self._landed: deque[asyncio.Future[None]] = deque()
        self._told: asyncio.AbstractEventLoop | None = None

    async def wait(self, future: Future[None]) -> None:
        """Wait for ``future``, which is cancelled if the waiting coroutine is.

        :raises BaseException: what the future holds.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(partial(self._arrive, loop, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            future.cancel()
            raise
        future.result()

    def _arrive(
        self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], future: Future[None]
    ) -> None:
        if loop.is_closed():
            return
        self._landed.append(waiter)
        if self._told is not loop:
            self._told = loop
            loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        # Before the deque is emptied: what arrives after that has to wake the loop again.
        self._told = None
        while self._landed:
            waiter = self._landed.popleft()
            if not waiter.done():
                waiter.set_result(None)
