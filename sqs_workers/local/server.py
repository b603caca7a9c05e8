"""The endpoint behind a socket: in a thread of a test, or as the whole of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqs_workers.local.backend import Backend
from sqs_workers.local.endpoint import Endpoint
from sqs_workers.local.http import web
from sqs_workers.local.rules import FaultPlan, FaultRule
from sqs_workers.local.stats import Stats

if TYPE_CHECKING:
    from typing_extensions import Self

    from sqs_workers.memory_sqs import MemorySession

__all__ = ["LocalServer", "run", "start_server"]

_GRACE = 0.05
"""Seconds that requests under way get when the endpoint stops; long polls do not end by themselves."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` on an event loop of its own, and leave nothing of it behind."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def start_server(endpoint: Endpoint, host: str, port: int) -> tuple[web.ServerRunner, str]:
    """Listen, and return the runner to clean up and the URL at which it is served.

    :param port: 0 for any free port.
    :raises OSError: if the address cannot be listened at.
    """
    # A client that goes away ends its long poll: a message must not be given to nobody.
    server = web.Server(endpoint, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
    except BaseException:
        await runner.cleanup()
        raise
    shown = f"[{host}]" if ":" in host else host
    return runner, f"http://{shown}:{runner.addresses[0][1]}"


class LocalServer:
    """An SQS endpoint on the memory backend, served by a thread of this process.

    ::

        with LocalServer() as server:
            sqs = boto3.client("sqs", endpoint_url=server.url, ...)

    It may be entered once. All of its attributes may be used from any thread.

    :param session: the ``MemorySession`` whose queues are served; ``None`` makes a new one.
    :param port: the port to listen at; 0 for any free one.
    :param latency: seconds that each answer takes, see :class:`~sqs_workers.local.endpoint.Endpoint`.
    :param faults: what goes wrong: rules, or texts such as ``"ReceiveMessage:throttle:0.05"``.
    :param seed: what the random numbers of the faults follow from.
    :param host: the address to listen at.
    :raises OSError: on entering, if the address cannot be listened at.

    :ivar faults: the :class:`FaultPlan` in force.
    :ivar session: the session whose queues are served.
    """

    def __init__(
        self,
        session: MemorySession | None = None,
        port: int = 0,
        latency: float = 0.0,
        faults: Iterable[FaultRule | str] = (),
        *,
        seed: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.faults = FaultPlan(faults, seed=seed)
        self._backend = Backend(session, watch_clock=True)
        self._endpoint = Endpoint(self._backend, self.faults, latency)
        self._host = host
        self._port = port
        self._url: str | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="sqs-local-server", daemon=True)

    @property
    def session(self) -> MemorySession:
        return self._backend.session

    @property
    def url(self) -> str:
        """Where the endpoint is served, as ``endpoint_url=`` wants it."""
        if self._url is None:
            raise RuntimeError(
                "this LocalServer has no URL until it is started: use it in a `with` statement"
            )
        return self._url

    @property
    def requests(self) -> Counter[str]:
        """Calls so far by operation, as in ``server.requests["ReceiveMessage"]``."""
        return self.stats.requests

    @property
    def stats(self) -> Stats:
        """All counters."""
        return self._endpoint.stats

    @property
    def latency(self) -> float:
        """Seconds that each answer takes; may be set."""
        return self._endpoint.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a latency is not negative: {seconds!r}")
        self._endpoint.latency = seconds

    def start(self) -> Self:
        """Begin to serve; returns when requests are answered."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """End serving: connections are closed, long polls included. May be called again."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in start()
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        runner, self._url = await start_server(self._endpoint, self._host, self._port)
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            await runner.cleanup()
