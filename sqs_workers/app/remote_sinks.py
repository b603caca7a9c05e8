"""Sinks that send rows elsewhere: another queue, an HTTP service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.app.outlets import Entry, Row
from sqs_workers.exceptions import PermanentError, SQSError
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage

if TYPE_CHECKING:
    from sqs_workers.app.spec_resources import HttpSink, SqsSink
    from sqs_workers.transport import Transport

__all__ = ["RowsToHttp", "RowsToQueue"]

_TRY_AGAIN = {408, 425, 429}


class _NotSentError(SQSError):
    """A row that may be taken later."""


class RowsToQueue:
    """Rows as JSON messages of a queue.

    :param resolve_url: answers with the URL of the queue.
    """

    def __init__(
        self, name: str, spec: SqsSink, transport: Transport, resolve_url: Callable[[], str]
    ) -> None:
        self.name = name
        self._spec = spec
        self._transport = transport
        self._resolve_url = resolve_url
        self._url = ""

    def write(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        if not self._url:
            self._url = self._resolve_url()
        errors: list[BaseException | None] = [None] * len(entries)
        ready: list[tuple[int, OutgoingMessage]] = []
        for index, entry in enumerate(entries):
            try:
                ready.extend((index, message) for message in self._messages(entry))
            except PermanentError as error:
                errors[index] = error
        for request in _requests(ready):
            results = self._transport.send_batch(self._url, [message for _, message in request])
            for (index, _), result in zip(request, results, strict=True):
                if result.error is not None:
                    kind = PermanentError if result.error.sender_fault else _NotSentError
                    errors[index] = kind(f"SQS did not take a message of {self.name}: {result.error.code}")
        return errors

    def _messages(self, entry: Entry) -> list[OutgoingMessage]:
        return [self._message(row, f"{entry.event_id}-{number}") for number, row in enumerate(entry.rows)]

    def _message(self, row: Row, key: str) -> OutgoingMessage:
        spec = self._spec
        group_id = None if spec.group_id is None else _text_of(row, spec.group_id, self.name)
        deduplication_id = None
        if spec.deduplication_id is not None:
            deduplication_id = _text_of(row, spec.deduplication_id, self.name)
        elif group_id is not None and (spec.name or spec.url or "").endswith(".fifo"):
            deduplication_id = key
        message = OutgoingMessage(
            _encode(row, self.name), group_id=group_id, deduplication_id=deduplication_id
        )
        if message.size > MAX_MESSAGE_BYTES:
            raise PermanentError(
                f"a row for {self.name} has {message.size:,} bytes, and SQS takes {MAX_MESSAGE_BYTES:,}"
            )
        return message


def _requests(
    messages: Sequence[tuple[int, OutgoingMessage]],
) -> Iterator[list[tuple[int, OutgoingMessage]]]:
    request: list[tuple[int, OutgoingMessage]] = []
    size = 0
    for index, message in messages:
        if request and (len(request) == MAX_BATCH_ENTRIES or size + message.size > MAX_MESSAGE_BYTES):
            yield request
            request, size = [], 0
        request.append((index, message))
        size += message.size
    if request:
        yield request


class RowsToHttp:
    """Rows as JSON requests to a service."""

    def __init__(self, name: str, spec: HttpSink, *, connections: int) -> None:
        import urllib3

        self.name = name
        self._spec = spec
        self._errors = urllib3.exceptions.HTTPError
        self._pool = urllib3.PoolManager(
            maxsize=connections, timeout=urllib3.Timeout(spec.timeout_s), retries=False
        )

    def write(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        return [self._entry(entry) for entry in entries]

    def _entry(self, entry: Entry) -> BaseException | None:
        try:
            for number, row in enumerate(entry.rows):
                key = self._spec.idempotency_key
                told = f"{entry.event_id}-{number}" if key is None else _text_of(row, key, self.name)
                self._send(row, told)
        except SQSError as error:
            return error
        return None

    def _send(self, row: Row, idempotency_key: str) -> None:
        spec = self._spec
        headers = {
            **spec.headers,
            "Content-Type": "application/json",
            spec.idempotency_header: idempotency_key,
        }
        body = _encode(row, self.name).encode()
        try:
            answer = self._pool.request(spec.method, spec.url, body=body, headers=headers, redirect=False)
        except self._errors as error:
            raise _NotSentError(f"{self.name} did not answer: {type(error).__name__}") from None
        status = answer.status
        if 200 <= status < 300:
            return
        if 300 <= status < 500 and status not in _TRY_AGAIN:
            raise PermanentError(f"{self.name} refused a row: HTTP {status}")
        raise _NotSentError(f"{self.name} did not take a row: HTTP {status}")


def _text_of(row: Row, key: str, sink: str) -> str:
    value = row.get(key)
    if value is None or isinstance(value, (dict, list)):
        raise PermanentError(f"a row for {sink} has no single value under {key!r}")
    return str(value)


def _encode(row: Row, sink: str) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise PermanentError(f"a row for {sink} is not JSON: {type(error).__name__}") from None


def _plain(value: Any) -> Any:
    import datetime
    import decimal
    import uuid

    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(type(value).__name__)
