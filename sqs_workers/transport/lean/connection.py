"""Connections to the endpoint, and the pool that all threads of a process share."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sqs_workers.transport.lean.http1 import Response, read_response

__all__ = ["IDLE_LIMIT", "Address", "Connection", "ConnectFailed", "Pool", "SendFailed"]

IDLE_LIMIT = 20.0
"""Seconds after which an unused connection is not used again.

AWS publishes no idle limit of the SQS endpoints. The AWS SDKs keep idle connections between 5 seconds (Ruby)
and 60 seconds (Java); 20 stays well below the 60 at which load balancers commonly hang up."""

_TRUSTED_IDLE = 0.1
"""Seconds for which a connection that was just used is taken to be alive without looking."""


class ConnectFailed(Exception):
    """No connection; the reason is ``__cause__``."""


class SendFailed(Exception):
    """The request could not be handed over completely, so that nobody can have acted on it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, and how.

    :param connect_timeout: seconds, for the TCP connection and the TLS handshake; ``None`` waits for ever.
    :param read_timeout: seconds without a byte before an answer is given up; ``None`` waits for ever.
    :param keepalive: whether the operating system probes idle connections.
    :param tls: context of the TLS handshake, or ``None`` for plain HTTP.
    """

    host: str
    port: int
    connect_timeout: float | None
    read_timeout: float | None
    keepalive: bool
    tls: ssl.SSLContext | None


class Connection:
    """One HTTP/1.1 connection, used by one thread at a time."""

    __slots__ = ("_poll", "_sock", "idle_since")

    def __init__(self, address: Address) -> None:
        """Connect.

        :raises ConnectFailed: with the socket's or the TLS library's exception as its cause.
        """
        self._sock = _open(address)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._sock, select.POLLIN)
        self.idle_since = 0.0

    def exchange(self, request: bytes) -> Response:
        """Send a request and read its answer.

        :raises SendFailed: the request was not sent whole.
        :raises ClosedEarly, BadAnswer: see :mod:`sqs_workers.transport.lean.http1`.
        :raises OSError: the connection broke, or ``read_timeout`` passed (``TimeoutError``).
        """
        try:
            self._sock.sendall(request)
        except TimeoutError:
            raise
        except OSError as error:
            raise SendFailed(str(error)) from error
        return read_response(self._sock)

    def quiet(self) -> bool:
        """Whether nothing has arrived since the last answer: the end of the connection would have."""
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._sock], [], [], 0)[0]

    def close(self) -> None:
        self._sock.close()

    def __del__(self) -> None:
        # Nobody closes a transport when a program ends; boto3's connections end as quietly.
        sock = getattr(self, "_sock", None)
        if sock is not None:
            sock.close()


class Pool:
    """Idle connections, the latest first; never makes a caller wait.

    :param size: idle connections kept.
    :param monotonic: clock in seconds.
    """

    def __init__(self, address: Address, *, size: int, monotonic: Callable[[], float]) -> None:
        self._address = address
        self._size = size
        self._monotonic = monotonic
        self._idle: deque[Connection] = deque()
        self._lock = threading.Lock()

    def take(self) -> Connection | None:
        """An idle connection that seems alive, or ``None``."""
        now = self._monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            age = now - connection.idle_since
            if age < _TRUSTED_IDLE or (age < IDLE_LIMIT and connection.quiet()):
                return connection
            connection.close()

    def connect(self) -> Connection:
        """A new connection.

        :raises ConnectFailed: there is none.
        """
        return Connection(self._address)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose answer has been read whole."""
        now = connection.idle_since = self._monotonic()
        surplus: list[Connection] = []
        with self._lock:
            self._idle.append(connection)
            while self._idle and (
                len(self._idle) > self._size or now - self._idle[0].idle_since >= IDLE_LIMIT
            ):
                surplus.append(self._idle.popleft())
        for old in surplus:
            old.close()

    def abandon(self) -> None:
        """Close all idle connections, in a process in which no other thread uses the pool."""
        # Not under the lock, which a thread may have held when this process was forked. Closing a socket here
        # says nothing to the server while the other process has it open.
        idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.close()


def _open(address: Address) -> socket.socket:
    try:
        sock = socket.create_connection((address.host, address.port), address.connect_timeout)
    except OSError as error:
        raise ConnectFailed(str(error)) from error
    try:
        # Without it, a body sent apart from its header waits for the other side's delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.keepalive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if address.tls is not None:
            sock = address.tls.wrap_socket(sock, server_hostname=address.host)
        sock.settimeout(address.read_timeout)
    except BaseException as error:
        sock.close()
        if isinstance(error, (OSError, ValueError)):
            raise ConnectFailed(str(error)) from error
        raise
    return sock
