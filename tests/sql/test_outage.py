"""A database that is gone for a while, under load: nothing is lost, and few attempts are used up."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from sqs_workers import IdleShutdown, MemorySession, SQSEnv, create_standard_queue
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.hooks import JobFailed, JobStarted
from sqs_workers.sql import DatabaseUnavailable, Inbox
from sqs_workers.worker.circuit import PauseOn
from tests.sql.accounts import balance, credit, open_account
from tests.sql.databases import Database

CONCURRENCY = 4


class Proxy:
    """Passes connections on to a server, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._up = True
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        with self._lock:
            self._up = False
            for sock in self._sockets:
                _shut(sock)

    def mend(self) -> None:
        with self._lock:
            self._up = True

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._up:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._sockets |= {near, far}
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=self._copy, args=(source, target), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        _shut(target)
        with self._lock:
            self._sockets.discard(source)
        source.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    if database.kind == "sqlite":
        pytest.skip("a file does not go away")
    made = Proxy(database.url.host or "127.0.0.1", database.url.port or 0)
    yield made
    made.close()


def outage(database: Database, proxy: Proxy, jobs: int, seconds: float) -> None:
    open_account(database.engine)
    engine = sa.create_engine(
        database.url.set(host="127.0.0.1", port=proxy.port), pool_size=CONCURRENCY, **database.options
    )
    inbox = Inbox(engine, consumer="billing")
    env = SQSEnv(MemorySession(), codec="json", backoff_policy=ConstantBackoff(0))
    create_standard_queue(env, "events")
    queue = env.queue("events")
    failed: list[JobFailed] = []
    probes: list[JobStarted] = []
    cut, down, back = threading.Event(), threading.Event(), threading.Event()
    env.hooks.add(JobFailed, failed.append)
    env.hooks.add(JobStarted, lambda event: probes.append(event) if down.is_set() else None)

    @queue.processor("credit", inbox=inbox, event_id="event_id")
    def credit_account(tx: Any, event_id: str, amount: int) -> None:
        if event_id == f"evt-{jobs // 3}" and not cut.is_set():
            cut.set()
            down.set()
            proxy.cut()
            timer = threading.Timer(seconds, lambda: (down.clear(), back.set(), proxy.mend()))
            timer.start()
        credit(amount)(tx)

    with credit_account.batch():
        for number in range(jobs):
            credit_account.delay(event_id=f"evt-{number}", amount=1)
    circuit = PauseOn(errors=(DatabaseUnavailable, sa.exc.OperationalError), min_pause=0.1, max_pause=1.0)
    queue.process_queue(IdleShutdown(2), 1, concurrency=CONCURRENCY, circuit=circuit, handle_signals=False)
    engine.dispose()
    assert back.is_set()
    assert balance(database.engine) == jobs
    # Those in hand, and one probe at a time with a growing pause.
    assert 0 < len(failed) <= 3 * CONCURRENCY + 10 + 2 * seconds
    assert len(probes) <= 3 * CONCURRENCY + 10 + 2 * seconds


def test_an_outage_pauses_the_queue_and_loses_nothing(database: Database, proxy: Proxy) -> None:
    outage(database, proxy, jobs=120, seconds=1.5)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_outage_of_20_seconds_pauses_the_queue_and_loses_nothing(database: Database, proxy: Proxy) -> None:
    outage(database, proxy, jobs=2000, seconds=20)
