"""An HTTP server that does, request by request, what a test tells it to."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Received",
    "ScriptedServer",
    "Step",
    "answer",
    "error",
    "hang_up",
    "hold",
    "raw",
    "reset",
    "serving",
]


@dataclass(frozen=True)
class Received:
    """A request as it arrived.

    :param connection: number of the connection, from 0.
    """

    connection: int
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        return self.headers["x-amz-target"].rpartition(".")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = Callable[["ScriptedServer", socket.socket], bool]
"""Deals with one request whose content has been read; returns whether the connection stays open."""


def answer(
    body: object = None, *, status: int = 200, headers: Mapping[str, str] | None = None, close: bool = False
) -> Step:
    """A whole answer: ``body`` as JSON, or as it is if it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    lines = {
        "x-amzn-RequestId": "a-request",
        "Content-Type": "application/x-amz-json-1.0",
        "Content-Length": str(len(content)),
        **(headers or {}),
    }
    head = f"HTTP/1.1 {status} Status\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def step(server: ScriptedServer, sock: socket.socket) -> bool:
        sock.sendall(head.encode() + b"\r\n" + content)
        return not close

    return step


def error(code: str, status: int = 400, *, query: str = "", date: str = "", message: str = "no") -> Step:
    """SQS's refusal.

    :param query: the code of the query protocol, if it is another.
    """
    headers = {"x-amzn-query-error": f"{query};Sender"} if query else {}
    if date:
        headers["Date"] = date
    return answer({"__type": f"com.amazonaws.sqs#{code}", "message": message}, status=status, headers=headers)


def raw(data: bytes, *, close: bool = False) -> Step:
    """Exactly these bytes."""

    def step(server: ScriptedServer, sock: socket.socket) -> bool:
        sock.sendall(data)
        return not close

    return step


def hang_up(server: ScriptedServer, sock: socket.socket) -> bool:
    """No answer, and the connection ends."""
    return False


def reset(server: ScriptedServer, sock: socket.socket) -> bool:
    """No answer, and the connection is reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def hold(server: ScriptedServer, sock: socket.socket) -> bool:
    """No answer until the server stops."""
    server.stopping.wait(30)
    return False


class ScriptedServer:
    """Takes one step for each request, whatever connection it comes on; then answers ``{}``."""

    def __init__(self, steps: tuple[Step, ...], tls: ssl.SSLContext | None) -> None:
        self.received: list[Received] = []
        self.stopping = threading.Event()
        self.steps = list(steps)
        """What is done with the requests to come."""
        self._tls = tls
        self._changed = threading.Condition()
        self._open: list[socket.socket] = []
        self._ended: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> list[int]:
        """The connection of each request."""
        return [request.connection for request in self.received]

    def wait_until_ended(self, connection: int) -> None:
        """Block until the server has closed a connection."""
        with self._changed:
            assert self._changed.wait_for(lambda: connection in self._ended, 10)

    def stop(self) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name="scripted server")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, sock, number)
            number += 1

    def _serve(self, sock: socket.socket, number: int) -> None:
        self._stop_with(sock)
        try:
            if self._tls is not None:
                with contextlib.suppress(OSError), self._tls.wrap_socket(sock, server_side=True) as wrapped:
                    self._stop_with(wrapped)
                    self._converse(wrapped, number)
            else:
                self._converse(sock, number)
        finally:
            with self._changed:
                sock.close()
                self._ended.add(number)
                self._changed.notify_all()

    def _stop_with(self, sock: socket.socket) -> None:
        with self._changed:
            self._open.append(sock)

    def _converse(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            while (request := _read_request(sock, number)) is not None:
                with self._changed:
                    self.received.append(request)
                    step = self.steps.pop(0) if self.steps else answer()
                if not step(self, sock):
                    return


def _read_request(sock: socket.socket, number: int) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    while len(body) < length:
        part = sock.recv(65536)
        if not part:
            return None
        body += part
    return Received(number, first.split(" ")[1], headers, body)


@contextlib.contextmanager
def serving(*steps: Step, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """A scripted server for the duration of a block."""
    server = ScriptedServer(steps, tls)
    try:
        yield server
    finally:
        server.stop()
