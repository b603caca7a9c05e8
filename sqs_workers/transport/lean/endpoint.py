"""One process's way to the endpoint: sign, exchange, retry, and raise what botocore would raise."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqs_workers.clock import Clock
from sqs_workers.transport.lean.connection import Address, ConnectFailed, Connection, Pool, SendFailed
from sqs_workers.transport.lean.http1 import BadAnswer, ClosedEarly, Response
from sqs_workers.transport.lean.retries import Attempts, RetryBudget, right_time
from sqs_workers.transport.lean.settings import Settings
from sqs_workers.transport.lean.signing import Signer, Template, timestamp

if TYPE_CHECKING:
    from botocore.client import BaseClient

__all__ = ["OPERATIONS", "Endpoint", "Operation"]

_TRACE_SAFE = "-=;:+&[]{}\"',"

_MIN_POOL = 64
"""Idle connections kept at least, so that more threads than ``max_pool_connections`` (10) do not spend their
time on handshakes."""


@dataclass(frozen=True)
class Operation:
    """One of SQS's operations.

    :param repeatable: whether a request that may have reached the server before the connection ended may be
        sent again at once. A message must not be sent twice without being counted as a retry.
    """

    name: str
    repeatable: bool = True


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("SendMessage", repeatable=False),
        Operation("SendMessageBatch", repeatable=False),
        Operation("ReceiveMessage"),
        Operation("DeleteMessage"),
        Operation("DeleteMessageBatch"),
        Operation("ChangeMessageVisibility"),
        Operation("ChangeMessageVisibilityBatch"),
        Operation("GetQueueUrl"),
        Operation("GetQueueAttributes"),
    )
}


class Endpoint:
    """Carries out calls. Safe to share between threads, not between processes."""

    def __init__(self, client: BaseClient, settings: Settings, address: Address, clock: Clock) -> None:
        from botocore import exceptions

        self._network_errors = (exceptions.ConnectionError, exceptions.HTTPClientError)
        self._client = client
        self._settings = settings
        self._clock = clock
        self._signer = Signer(settings.region, settings.signing_name)
        self._prepared = {name: _prepare(operation, settings) for name, operation in OPERATIONS.items()}
        self._pool = Pool(address, size=max(settings.pool_size, _MIN_POOL), monotonic=clock.monotonic)
        self._budget = RetryBudget()
        self._skew = 0.0
        self._second = (0, "")
        # As botocore does: by the trace, Lambda notices a function that sends to the queue it reads from.
        self._traced = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def abandon(self) -> None:
        """Let go of connections that belong to the process from which this one was forked."""
        self._pool.abandon()

    def call(self, operation: str, body: bytes) -> Any:
        """Carry out an operation and return its answer, parsed.

        :raises ClientError: SQS refused; of the same class and content as the client's.
        :raises BotoCoreError: the exceptions with which the client reports the network and the credentials.
        """
        prepared = self._prepared[operation]
        attempts: Attempts | None = None
        while True:
            response: Response | None = None
            error: Exception | None = None
            signed_at = self._clock.time() + self._skew
            try:
                response = self._attempt(prepared, body, signed_at)
                if response.status < 300:
                    self._return_budget(operation, attempts, response)
                    return self._parse(response)
            except self._network_errors as caught:
                error = caught
            if attempts is None:
                attempts = Attempts(self._client, operation, self._settings.url)
            self._before_next(attempts, response, error, signed_at)

    def _before_next(
        self, attempts: Attempts, response: Response | None, error: Exception | None, signed_at: float
    ) -> None:
        """Wait for the next attempt, or raise because there is none."""
        parsed = None if response is None else attempts.parse_error(response)
        if response is not None and parsed is not None:
            right = right_time(response, parsed, signed_at)
            if right is not None and not attempts.clock_corrected:
                self._skew = right - self._clock.time()
                attempts.clock_corrected = True
                attempts.next()
                return
        delay = attempts.delay(response, parsed, error)
        if delay is None:
            if error is not None:
                raise error
            assert response is not None
            assert parsed is not None
            raise attempts.client_error(response, parsed)
        self._budget.spent()
        attempts.next()
        if delay > 0:
            condition = threading.Condition()
            with condition:
                self._clock.wait(condition, delay)

    def _return_budget(self, operation: str, attempts: Attempts | None, response: Response) -> None:
        if attempts is None:
            if not self._budget.wants():
                return
            attempts = Attempts(self._client, operation, self._settings.url)
        attempts.succeeded(response)

    def _attempt(self, prepared: _Prepared, body: bytes, signed_at: float) -> Response:
        credentials = self._settings.credentials()
        if credentials is None:
            from botocore.exceptions import NoCredentialsError

            raise NoCredentialsError()
        when = self._timestamp(signed_at)
        authorization = self._signer.authorization(prepared.template, credentials, when, body)
        token = f"X-Amz-Security-Token: {credentials.token}\r\n" if credentials.token else ""
        trace = self._trace() if self._traced else ""
        head = (
            f"{when}\r\n{token}{trace}Authorization: {authorization}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return self._exchange(prepared, prepared.head + head.encode("latin-1") + body)

    def _exchange(self, prepared: _Prepared, request: bytes) -> Response:
        connection = self._pool.take()
        if connection is not None:
            try:
                return self._exchange_on(connection, request)
            except (SendFailed, ClosedEarly) as error:
                # The server hung up on an idle connection, most likely before it saw the request.
                if not (isinstance(error, SendFailed) or (prepared.repeatable and error.nothing_read)):
                    raise self._network_error(error) from error
            except (BadAnswer, OSError) as error:
                raise self._network_error(error) from error
        try:
            return self._exchange_on(self._pool.connect(), request)
        except (ConnectFailed, SendFailed, ClosedEarly, BadAnswer, OSError) as error:
            raise self._network_error(error) from error

    def _exchange_on(self, connection: Connection, request: bytes) -> Response:
        try:
            response = connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        if response.reusable:
            self._pool.give_back(connection)
        else:
            connection.close()
        return response

    def _parse(self, response: Response) -> Any:
        try:
            return json.loads(response.body) if response.body else {}
        except ValueError as error:
            from botocore.parsers import ResponseParserError

            raise ResponseParserError(
                f"the answer of {self._settings.url} is not JSON: {len(response.body)} bytes, status "
                f"{response.status}"
            ) from error

    def _timestamp(self, seconds: float) -> str:
        second, text = self._second
        if int(seconds) != second:
            text = timestamp(seconds)
            self._second = (int(seconds), text)
        return text

    def _trace(self) -> str:
        trace = os.environ.get("_X_AMZN_TRACE_ID")
        return f"X-Amzn-Trace-Id: {quote(trace, safe=_TRACE_SAFE)}\r\n" if trace else ""

    def _network_error(self, error: Exception) -> Exception:
        """The exception with which botocore reports the same failure."""
        from botocore import exceptions

        url = self._settings.url
        cause = error.__cause__ if isinstance(error, (ConnectFailed, SendFailed)) else error
        if isinstance(error, ConnectFailed):
            if isinstance(cause, TimeoutError):
                return exceptions.ConnectTimeoutError(endpoint_url=url, error=cause)
            if not isinstance(cause, ssl.SSLError):
                return exceptions.EndpointConnectionError(endpoint_url=url, error=cause)
        if isinstance(cause, ssl.SSLError):
            return exceptions.SSLError(endpoint_url=url, error=cause)
        if isinstance(cause, TimeoutError):
            return exceptions.ReadTimeoutError(endpoint_url=url, error=cause)
        if isinstance(error, BadAnswer):
            return exceptions.HTTPClientError(error=error)
        return exceptions.ConnectionClosedError(endpoint_url=url, error=cause)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The constant part of the requests of one operation, up to the value of ``X-Amz-Date``."""

    template: Template
    head: bytes
    repeatable: bool


def _prepare(operation: Operation, settings: Settings) -> _Prepared:
    signed = [
        ("Host", settings.host),
        ("X-Amz-Target", f"AmazonSQS.{operation.name}"),
        *settings.signed_headers,
    ]
    lines = [f"{name}: {value}\r\n" for name, value in (*signed, *settings.unsigned_headers)]
    head = f"POST {settings.target} HTTP/1.1\r\n{''.join(lines)}Accept-Encoding: identity\r\nX-Amz-Date: "
    return _Prepared(
        template=Template.build(signed, path=settings.path, query=settings.query),
        head=head.encode("utf-8"),
        repeatable=operation.repeatable,
    )
