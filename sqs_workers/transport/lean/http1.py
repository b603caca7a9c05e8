"""Reading an HTTP/1.1 answer from a socket, with an end to everything that the other side controls."""

from __future__ import annotations

from typing import Protocol

__all__ = ["MAX_BODY_BYTES", "MAX_HEAD_BYTES", "BadAnswer", "ClosedEarly", "Response", "read_response"]

MAX_HEAD_BYTES = 65_536
"""Bytes of status line and headers that are read before the answer is refused."""

MAX_BODY_BYTES = 67_108_864
"""Bytes of a body that are read before the answer is refused: ten messages of 1 MiB, every byte of them
escaped in JSON (64 MiB)."""

_RECV = 65_536
_MAX_INTERIM = 10


class Readable(Protocol):
    """The part of a socket that reading needs."""

    def recv(self, size: int, /) -> bytes: ...


class BadAnswer(Exception):
    """What arrived is not HTTP/1.x, or too large."""


class ClosedEarly(Exception):
    """The connection ended before the answer was complete.

    :ivar nothing_read: whether not even one byte of the answer arrived.
    """

    def __init__(self, *, nothing_read: bool) -> None:
        super().__init__(
            "closed before any byte of the answer" if nothing_read else "closed in the middle of the answer"
        )
        self.nothing_read = nothing_read


class Response:
    """An answer: its status, headers (names in lower case) and body.

    :ivar reusable: whether the connection may carry another request.
    """

    __slots__ = ("body", "headers", "reusable", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes, reusable: bool) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.reusable = reusable


def read_response(sock: Readable) -> Response:
    """Read one answer.

    :raises BadAnswer: it cannot be read.
    :raises ClosedEarly: the connection ended first.
    """
    try:
        data = sock.recv(_RECV)
    except ConnectionResetError as error:
        # So ends a request on a connection that the server had closed.
        raise ClosedEarly(nothing_read=True) from error
    if not data:
        raise ClosedEarly(nothing_read=True)
    for _ in range(_MAX_INTERIM):
        status, version, headers, data = _read_head(sock, data)
        if status >= 200:
            return _read_answer(sock, status, version, headers, data)
    raise BadAnswer(f"more than {_MAX_INTERIM} interim answers")


def _read_answer(
    sock: Readable, status: int, version: bytes, headers: dict[str, str], data: bytes
) -> Response:
    reusable = version == b"HTTP/1.1" and "close" not in headers.get("connection", "").lower()
    if status in (204, 304):
        return Response(status, headers, b"", reusable and not data)
    encoding = headers.get("transfer-encoding")
    if encoding is not None:
        if encoding.lower() != "chunked":
            raise BadAnswer(f"transfer encoding {encoding[:40]!r}")
        body, rest = _Chunks(sock, data).read()
        return Response(status, headers, body, reusable and not rest)
    length = headers.get("content-length")
    if length is None:
        return Response(status, headers, _read_to_end(sock, data or sock.recv(_RECV)), False)
    if not (length.isascii() and length.isdigit()):
        raise BadAnswer(f"content length {length[:40]!r}")
    size = int(length[:20])
    if size > MAX_BODY_BYTES:
        raise BadAnswer(f"a body of {length[:20]} bytes, more than {MAX_BODY_BYTES}")
    if len(data) < size:
        data = _read_exactly(sock, data, size)
    if len(data) > size:
        # Nobody asked for more than one answer: whatever this is, the connection is not to be trusted.
        return Response(status, headers, data[:size], False)
    return Response(status, headers, data, reusable)


def _read_head(sock: Readable, data: bytes) -> tuple[int, bytes, dict[str, str], bytes]:
    """Status, version, headers, and what followed them."""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > MAX_HEAD_BYTES:
            raise BadAnswer(f"headers of more than {MAX_HEAD_BYTES} bytes")
        data += _more(sock)
    lines = data[:end].decode("latin-1").split("\r\n")
    first = lines[0]
    if first[:8] not in ("HTTP/1.1", "HTTP/1.0") or first[8:9] != " " or not first[9:12].isdigit():
        raise BadAnswer(f"not an HTTP/1.1 answer: it begins with {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name[0] in " \t" or name[-1] in " \t":
            raise BadAnswer(f"a header line that begins with {line[:40]!r}")
        value = value.strip(" \t")
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise BadAnswer("two different content lengths")
            if name != "content-length":
                value = f"{headers[name]}, {value}"
        headers[name] = value
    return int(first[9:12]), data[:8], headers, data[end + 4 :]


def _read_exactly(sock: Readable, data: bytes, size: int) -> bytes:
    parts = [data]
    missing = size - len(data)
    while missing > 0:
        part = _more(sock)
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _read_to_end(sock: Readable, data: bytes) -> bytes:
    parts = []
    size = 0
    while data:
        parts.append(data)
        size += len(data)
        if size > MAX_BODY_BYTES:
            raise BadAnswer(f"a body of more than {MAX_BODY_BYTES} bytes")
        data = sock.recv(_RECV)
    return b"".join(parts)


def _more(sock: Readable) -> bytes:
    part = sock.recv(_RECV)
    if not part:
        raise ClosedEarly(nothing_read=False)
    return part


class _Chunks:
    """Reads a chunked body."""

    def __init__(self, sock: Readable, data: bytes) -> None:
        self._sock = sock
        self._data = data

    def read(self) -> tuple[bytes, bytes]:
        """The body, and what followed it."""
        parts: list[bytes] = []
        total = 0
        while size := self._size():
            total += size
            if total > MAX_BODY_BYTES:
                raise BadAnswer(f"a body of more than {MAX_BODY_BYTES} bytes")
            if len(self._data) < size + 2:
                self._data = _read_exactly(self._sock, self._data, size + 2)
            if self._data[size : size + 2] != b"\r\n":
                raise BadAnswer("a chunk that does not end where it says")
            parts.append(self._data[:size])
            self._data = self._data[size + 2 :]
        trailers = 0
        while line := self._line():
            trailers += len(line)
            if trailers > MAX_HEAD_BYTES:
                raise BadAnswer(f"trailers of more than {MAX_HEAD_BYTES} bytes")
        return b"".join(parts), self._data

    def _size(self) -> int:
        digits = self._line().partition(b";")[0].strip()
        if not digits or len(digits) > 16 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadAnswer(f"a chunk of size {digits[:40]!r}")
        return int(digits, 16)

    def _line(self) -> bytes:
        while (end := self._data.find(b"\r\n")) < 0:
            if len(self._data) > MAX_HEAD_BYTES:
                raise BadAnswer("a chunk header without an end")
            self._data += _more(self._sock)
        line, self._data = self._data[:end], self._data[end + 2 :]
        return line
