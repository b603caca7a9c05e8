"""The transport over a boto3 SQS client: the default, into which instrumentation, proxies and mocks hook."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.transport.protocol import EntryError, ReceiveOptions, SendResult

__all__ = ["Boto3Transport", "entry_results"]

# Entry ids need only be distinct within one request.
_IDS = tuple(str(index) for index in range(10))


class Boto3Transport:
    """Calls SQS through the client that ``get_client`` returns.

    :param get_client: called for each request, so that a process forked from another may answer with a
        client of its own.
    :param monotonic: clock for ``Message.received_at``, in seconds.
    """

    def __init__(
        self, get_client: Callable[[], Any], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._get_client = get_client
        self._monotonic = monotonic

    @property
    def connections(self) -> int | None:
        """Connections that the client keeps; ``None`` if it does not say."""
        found = getattr(getattr(self._get_client().meta, "config", None), "max_pool_connections", None)
        return found if isinstance(found, int) else None

    def get_queue_url(self, sqs_queue_name: str) -> str:
        url: str = self._get_client().get_queue_url(QueueName=sqs_queue_name)["QueueUrl"]
        return url

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        answer = self._get_client().get_queue_attributes(QueueUrl=queue_url, AttributeNames=list(names))
        attributes: dict[str, str] = answer.get("Attributes") or {}
        return attributes

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        answer = self._get_client().send_message(QueueUrl=queue_url, **message.to_request())
        message_id: str = answer.get("MessageId", "")
        return message_id

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        entries = [{"Id": id_, **message.to_request()} for id_, message in zip(_IDS, messages, strict=False)]
        answer = self._get_client().send_message_batch(QueueUrl=queue_url, Entries=entries)
        sent = {entry["Id"]: entry["MessageId"] for entry in answer.get("Successful") or ()}
        errors = _errors(answer)
        return [
            SendResult(sent[entry["Id"]])
            if entry["Id"] in sent
            else SendResult(None, errors.get(entry["Id"], _NOT_ANSWERED))
            for entry in entries
        ]

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        answer = self._get_client().receive_message(**options.to_request(queue_url))
        # Not the time of asking: a long poll may have waited 20 seconds for a message to arrive.
        received_at = self._monotonic()
        return [
            Message(
                raw["MessageId"],
                raw["ReceiptHandle"],
                raw.get("Body", ""),
                raw.get("Attributes"),
                raw.get("MessageAttributes"),
                md5_of_body=raw.get("MD5OfBody", ""),
                queue_url=queue_url,
                received_at=received_at,
            )
            for raw in answer.get("Messages") or ()
        ]

    def wake_receives(self, queue_url: str) -> None:
        """Answer long polls under way where the client can do that; a client of SQS cannot."""
        wake = getattr(self._get_client(), "wake_receives", None)
        if wake is not None:
            wake(QueueUrl=queue_url)

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        self._get_client().delete_message(QueueUrl=queue_url, ReceiptHandle=receipt_handle)

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        entries = [
            {"Id": id_, "ReceiptHandle": handle} for id_, handle in zip(_IDS, receipt_handles, strict=False)
        ]
        answer = self._get_client().delete_message_batch(QueueUrl=queue_url, Entries=entries)
        return entry_results(entries, answer)

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        self._get_client().change_message_visibility(
            QueueUrl=queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
        )

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        request = [
            {"Id": id_, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for id_, (handle, seconds) in zip(_IDS, entries, strict=False)
        ]
        answer = self._get_client().change_message_visibility_batch(QueueUrl=queue_url, Entries=request)
        return entry_results(request, answer)


_NOT_ANSWERED = EntryError("NotAnswered", "SQS named the entry neither as done nor as failed")


def _errors(answer: Mapping[str, Any]) -> dict[str, EntryError]:
    return {
        entry["Id"]: EntryError(
            str(entry.get("Code", "Unknown")),
            str(entry.get("Message", "")),
            bool(entry.get("SenderFault", False)),
        )
        for entry in answer.get("Failed") or ()
    }


def entry_results(entries: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> list[EntryError | None]:
    """What an answer says of each entry of a batch call."""
    errors = _errors(answer)
    done = {entry["Id"] for entry in answer.get("Successful") or ()}
    return [errors.get(entry["Id"], None if entry["Id"] in done else _NOT_ANSWERED) for entry in entries]
