"""A worker beside the caller's event loop, and coroutines run where there is none."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from sqs_workers.worker.forks import in_forked_child, not_in_forked_child, restore_handlers

if TYPE_CHECKING:
    from sqs_workers.worker import Worker, WorkerResult

__all__ = ["run_beside_loop", "run_to_end"]


def run_to_end(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine from plain code; in a thread of its own if the caller's has an event loop already.

    :param make: makes the coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    from concurrent.futures import ThreadPoolExecutor

    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="sqs-workers-loop") as executor:
        return executor.submit(context.run, lambda: asyncio.run(make())).result()


async def run_beside_loop(worker: Worker, prepare: Callable[[], None]) -> WorkerResult:
    """Run ``worker`` in a thread of its own; cancelling this stops it and waits until it has stopped.

    :param prepare: called in the thread before the worker.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[WorkerResult] = loop.create_future()

    def run() -> None:
        try:
            prepare()
            result = worker.run()
        except BaseException as error:  # noqa: BLE001 - raised again where the caller awaits
            loop.call_soon_threadsafe(_set_error, ended, error)
        else:
            loop.call_soon_threadsafe(_set_result, ended, result)

    # Not one of the loop's own threads: a worker would occupy it for good.
    thread = threading.Thread(target=run, name="sqs-workers-run", daemon=True)
    with _StopOnTerminate(loop, worker):
        thread.start()
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError as error:
                if ended.done() and not ended.cancelled() and cancelled is None:
                    raise
                cancelled = error
                worker.stop("cancelled")
            except Exception:  # noqa: BLE001 - asked again below
                break
    thread.join()
    if cancelled is not None:
        raise cancelled
    return ended.result()


def _set_result(future: asyncio.Future[WorkerResult], result: WorkerResult) -> None:
    if not future.done():
        future.set_result(result)


def _set_error(future: asyncio.Future[WorkerResult], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _StopOnTerminate:
    """Stops the worker on SIGTERM. SIGINT cancels the main task, which comes to the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._installed = False

    def __enter__(self) -> None:
        # A handler that the application has set is its own to keep.
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        ):
            try:
                self._loop.add_signal_handler(signal.SIGTERM, self._worker.stop, "SIGTERM")
            except (NotImplementedError, RuntimeError, ValueError):
                return
            self._installed = True
            in_forked_child(self._forked)

    def _forked(self) -> None:
        restore_handlers({signal.SIGTERM: signal.SIG_DFL})

    def __exit__(self, *exc_info: object) -> None:
        if self._installed:
            not_in_forked_child(self._forked)
            self._loop.remove_signal_handler(signal.SIGTERM)
