"""How a relay that has nothing to do waits: for a time, for a stop, and on PostgreSQL for a notification."""

from __future__ import annotations

import os
import select
import threading
from typing import Any, Protocol

from sqs_workers.clock import Clock
from sqs_workers.sql.connections import close_lost, open_beside_pool
from sqs_workers.sql.errors import is_temporary
from sqs_workers.sql.sqla import sa

__all__ = ["ListenWaker", "PollWaker", "Waker", "make_waker"]


class Waker(Protocol):
    """Waits, and can be woken from another thread or a signal handler."""

    def wait(self, timeout: float) -> bool:
        """Wait ``timeout`` seconds at most; whether new rows were announced meanwhile."""
        ...

    def wake(self) -> None:
        """End the present wait, or the next one."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def make_waker(engine: sa.Engine, channel: str, clock: Clock, *, listen: bool) -> Waker:
    """One that listens on PostgreSQL with psycopg, one that polls elsewhere."""
    if listen and engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg":
        return ListenWaker(engine, channel)
    return PollWaker(clock)


class PollWaker:
    """Waits on the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Reentrant, as Condition makes it: a signal handler may call wake() while its thread holds it.
        self._condition = threading.Condition()
        self._woken = False

    def wait(self, timeout: float) -> bool:
        deadline = self._clock.monotonic() + timeout
        with self._condition:
            while not self._woken and (remaining := deadline - self._clock.monotonic()) > 0:
                self._clock.wait(self._condition, remaining)
            self._woken = False
        return False

    def wake(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def close(self) -> None:
        """Nothing is held."""


class ListenWaker:
    """Waits for ``NOTIFY`` on a connection of its own; without one it waits for the time alone."""

    def __init__(self, engine: sa.Engine, channel: str) -> None:
        self._engine = engine
        self._channel = channel
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._connection: sa.Connection | None = None
        self._listen()

    def _listen(self) -> bool:
        """Whether it listens now."""
        try:
            # Beside the pool: one that is small would have nothing left for the relay's work.
            connection = open_beside_pool(self._engine, "AUTOCOMMIT")
            try:
                quoted = connection.dialect.identifier_preparer.quote_identifier(self._channel)
                connection.exec_driver_sql(f"LISTEN {quoted}")
            except BaseException:
                close_lost(connection)
                raise
        except Exception as error:
            if not is_temporary(error):
                raise
            return False
        self._connection = connection
        return True

    def wait(self, timeout: float) -> bool:
        if self._connection is None and self._listen():
            # What was announced until now has not been heard.
            return True
        try:
            return self._wait_for_notification(timeout)
        except Exception as error:
            if not is_temporary(error):
                raise
            self._drop()
            return False

    def _wait_for_notification(self, timeout: float) -> bool:
        pgconn: Any = None
        watched = [self._read]
        if self._connection is not None:
            # psycopg's own connection.
            pgconn = self._connection.connection.dbapi_connection.pgconn  # type: ignore[union-attr]
            watched.append(pgconn.socket)
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._read in ready:
            self._drain()
        if pgconn is None or pgconn.socket not in ready:
            return False
        pgconn.consume_input()
        announced = False
        while pgconn.notifies() is not None:
            announced = True
        return announced

    def _drain(self) -> None:
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            return

    def wake(self) -> None:
        try:
            os.write(self._write, b"w")
        except BlockingIOError:
            return  # the pipe is full of wake-ups already

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            close_lost(connection)

    def close(self) -> None:
        self._drop()
        os.close(self._read)
        os.close(self._write)
