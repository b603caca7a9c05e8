"""The lean transport: the operations of the transport protocol without botocore's cost for each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.transport.boto3_client import Boto3Transport
from sqs_workers.transport.lean import codec
from sqs_workers.transport.lean.endpoint import Endpoint
from sqs_workers.transport.lean.refusals import find_refusal, find_signing_refusal
from sqs_workers.transport.lean.settings import Verify, address_of, read_settings
from sqs_workers.transport.protocol import EntryError, ReceiveOptions, SendResult

if TYPE_CHECKING:
    from botocore.client import BaseClient

__all__ = ["LeanTransport"]

_T = TypeVar("_T")

# Entry ids need only be distinct within one request.
_IDS = tuple(str(index) for index in range(10))


class LeanTransport:
    """Calls SQS over connections of its own, with the credentials and settings of a botocore client.

    Safe to share between threads. A process forked from another makes a client and connections of its own.

    :param make_client: returns a botocore SQS client; called once here and once in every forked process that
        uses the transport.
    :param verify: returns which certificates of the endpoint to trust, as the argument of that name of
        ``session.client``; called when ``make_client`` is.
    :param clock: for ``Message.received_at``, signatures and the waiting before a retry.
    :raises ConfigurationError: the client has something that only boto3 honours; the message says what.
    """

    def __init__(
        self,
        make_client: Callable[[], Any],
        *,
        verify: Callable[[], Verify] = lambda: True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._make_client = make_client
        self._verify = verify
        self._clock = clock
        self._client, self._endpoint = self._open()
        self._pid = os.getpid()
        self._boto3 = Boto3Transport(lambda: self._client, monotonic=clock.monotonic)

    def close(self) -> None:
        """Close idle connections; the transport stays usable."""
        self._endpoint.close()

    def get_queue_url(self, sqs_queue_name: str) -> str:
        answer = self._call("GetQueueUrl", {"QueueName": sqs_queue_name})
        return _read(lambda: str(answer["QueueUrl"]))

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        answer = self._call("GetQueueAttributes", {"QueueUrl": queue_url, "AttributeNames": list(names)})
        return _read(lambda: dict(answer.get("Attributes") or {}))

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        try:
            request = codec.send_request(message)
            request["QueueUrl"] = queue_url
            body = codec.encode(request)
        except TypeError:
            # A value of a wrong type, or an unusual one: botocore validates the first and carries the other.
            return self._boto3.send(queue_url, message)
        answer = self._here().call("SendMessage", body.encode())
        return _read(lambda: codec.decode_sent(answer, message))

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        try:
            entries = [
                {"Id": id_, **codec.send_request(message)}
                for id_, message in zip(_IDS, messages, strict=False)
            ]
            body = codec.encode({"QueueUrl": queue_url, "Entries": entries})
        except TypeError:
            return self._boto3.send_batch(queue_url, messages)
        answer = self._here().call("SendMessageBatch", body.encode())
        return _read(lambda: codec.decode_send_batch(answer, _IDS, messages))

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        answer = self._call("ReceiveMessage", options.to_request(queue_url))
        # Not the time of asking: a long poll may have waited 20 seconds for a message to arrive.
        received_at = self._clock.monotonic()
        everything = "All" in options.message_attributes
        return _read(lambda: codec.decode_messages(answer, queue_url, received_at, all_attributes=everything))

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        self._call("DeleteMessage", {"QueueUrl": queue_url, "ReceiptHandle": receipt_handle})

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        entries = [
            {"Id": id_, "ReceiptHandle": handle} for id_, handle in zip(_IDS, receipt_handles, strict=False)
        ]
        answer = self._call("DeleteMessageBatch", {"QueueUrl": queue_url, "Entries": entries})
        return _read(lambda: codec.decode_entries(answer, len(entries)))

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        self._call(
            "ChangeMessageVisibility",
            {"QueueUrl": queue_url, "ReceiptHandle": receipt_handle, "VisibilityTimeout": seconds},
        )

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        request = [
            {"Id": id_, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for id_, (handle, seconds) in zip(_IDS, entries, strict=False)
        ]
        answer = self._call("ChangeMessageVisibilityBatch", {"QueueUrl": queue_url, "Entries": request})
        return _read(lambda: codec.decode_entries(answer, len(request)))

    def _call(self, operation: str, request: dict[str, Any]) -> Any:
        return self._here().call(operation, codec.encode(request).encode())

    def _here(self) -> Endpoint:
        """The endpoint of this process."""
        if os.getpid() != self._pid:
            self._after_fork()
        return self._endpoint

    def _after_fork(self) -> None:
        # No lock: a thread of the parent may have held it in the moment of the fork. Two threads that come
        # here at once each open an endpoint, and the later one stays.
        inherited = self._endpoint
        self._client, self._endpoint = self._open()
        self._pid = os.getpid()
        inherited.abandon()

    def _open(self) -> tuple[BaseClient, Endpoint]:
        client = self._make_client()
        _require_none(find_refusal(client))
        settings = read_settings(client)
        _require_none(find_signing_refusal(settings.signature_version))
        try:
            address = address_of(client, settings.url, self._verify())
        except OSError as error:
            raise ConfigurationError(
                f"the CA bundle or the client's certificate cannot be read: {error}"
            ) from error
        return client, Endpoint(client, settings, address, self._clock)


def _require_none(reason: str | None) -> None:
    if reason is not None:
        raise ConfigurationError(
            f"the lean transport cannot carry the requests of this SQS client: {reason}. "
            'Use transport="boto3", or transport="auto" to let the library choose'
        )


def _read(decode: Callable[[], _T]) -> _T:
    """What ``decode`` reads from an answer.

    :raises ChecksumError: SQS did not take, or did not hand out, what was sent.
    :raises ResponseParserError: the answer is not what SQS answers.
    """
    try:
        return decode()
    except codec.Mismatch as error:
        from botocore.exceptions import ChecksumError

        raise ChecksumError(
            checksum_type="md5", expected_checksum=error.expected, actual_checksum=error.actual
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        from botocore.parsers import ResponseParserError

        raise ResponseParserError(f"an answer of SQS cannot be read: {error!r}") from error
