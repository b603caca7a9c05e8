"""The transport over a queue object: boto3's ``SQS.Queue``, or whatever stands in for it.

For applications that replace ``queue.get_queue()``, the service resource or a method of the queue object, with a
mock or with code of their own: they see the same calls as ever. Every other queue of the same worker is reached
through the transport beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.transport.boto3_client import entry_results
from sqs_workers.transport.forwarding import Forwarding
from sqs_workers.transport.protocol import EntryError, ReceiveOptions, SendResult, Transport

__all__ = ["QueueObjectTransport", "ReceivingTransport"]


_IDS_KEPT = 10_000


class _OneQueue(Forwarding):
    """Does something else for one queue.

    :param beneath: carries the calls to the others.
    :param url: by which the queue is told from others.
    """

    def __init__(self, beneath: Transport, url: str) -> None:
        self._beneath = beneath
        self._url = url

    @property
    def beneath(self) -> Transport:
        """The transport that carries the calls to the other queues."""
        return self._beneath


class ReceivingTransport(_OneQueue):
    """Receives from one queue by a function of the user's.

    :param receive_messages: called with the seconds to wait and the maximum number of messages.
    """

    def __init__(
        self,
        beneath: Transport,
        url: str,
        receive_messages: Callable[[int, int], Sequence[Any]],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(beneath, url)
        self._receive_messages = receive_messages
        self._monotonic = monotonic

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        if queue_url != self._url:
            return super().receive(queue_url, options)
        received = self._receive_messages(options.wait_seconds, options.max_messages)
        return [_message(message, self._url, self._monotonic()) for message in received]


class QueueObjectTransport(_OneQueue):
    """Calls the methods of a queue object for one queue, and another transport for all others.

    :param beneath: carries the calls to other queues.
    :param url: by which the queue is told from others.
    :param get_object: answers with the queue object.
    """

    def __init__(
        self,
        beneath: Transport,
        url: str,
        get_object: Callable[[], Any],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(beneath, url)
        self._get_object = get_object
        self._monotonic = monotonic
        self._message_ids: dict[str, str] = {}

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        if queue_url != self._url:
            return super().get_queue_attributes(queue_url, names)
        attributes = getattr(self._get_object(), "attributes", None)
        if not isinstance(attributes, Mapping):
            return {}
        return {name: value for name, value in attributes.items() if isinstance(value, str)}

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        if queue_url != self._url:
            return super().send(queue_url, message)
        message_id: str = self._get_object().send_message(**message.to_request())["MessageId"]
        return message_id

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        if queue_url != self._url:
            return super().send_batch(queue_url, messages)
        entries = [{"Id": str(index), **message.to_request()} for index, message in enumerate(messages)]
        answer = self._get_object().send_messages(Entries=entries)
        ids = {entry["Id"]: entry.get("MessageId") for entry in _listed(answer, "Successful")}
        results = zip(entries, _results(entries, answer), strict=True)
        return [
            SendResult(None, error) if error else SendResult(ids.get(e["Id"]) or "") for e, error in results
        ]

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        if queue_url != self._url:
            return super().receive(queue_url, options)
        request: dict[str, Any] = {
            "WaitTimeSeconds": options.wait_seconds,
            "MaxNumberOfMessages": options.max_messages,
            "MessageAttributeNames": ["All"],
            "AttributeNames": ["All"],
        }
        if options.visibility_timeout is not None:
            request["VisibilityTimeout"] = options.visibility_timeout
        received = self._get_object().receive_messages(**request)
        messages = [_message(message, self._url, self._monotonic()) for message in received]
        if len(self._message_ids) > _IDS_KEPT:
            self._message_ids.clear()
        self._message_ids.update((message.receipt_handle, message.message_id) for message in messages)
        return messages

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        if queue_url != self._url:
            super().delete(queue_url, receipt_handle)
        else:
            _raise_first(self.delete_batch(queue_url, [receipt_handle]), "DeleteMessageBatch")

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        if queue_url != self._url:
            return super().delete_batch(queue_url, receipt_handles)
        entries = self._entries(receipt_handles)
        return _results(entries, self._get_object().delete_messages(Entries=entries))

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        if queue_url != self._url:
            super().change_visibility(queue_url, receipt_handle, seconds)
        else:
            errors = self.change_visibility_batch(queue_url, [(receipt_handle, seconds)])
            _raise_first(errors, "ChangeMessageVisibilityBatch")

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        if queue_url != self._url:
            return super().change_visibility_batch(queue_url, entries)
        handles = [handle for handle, _ in entries]
        request = [
            {**entry, "VisibilityTimeout": seconds}
            for entry, (_, seconds) in zip(self._entries(handles), entries, strict=True)
        ]
        return _results(request, self._get_object().change_message_visibility_batch(Entries=request))

    def _entries(self, receipt_handles: Sequence[str]) -> list[dict[str, Any]]:
        # Code that looks at the calls finds the messages by their ids.
        ids = [self._message_ids.get(handle, str(index)) for index, handle in enumerate(receipt_handles)]
        if len(set(ids)) < len(ids):
            ids = [str(index) for index in range(len(ids))]
        return [
            {"Id": id_, "ReceiptHandle": handle} for id_, handle in zip(ids, receipt_handles, strict=True)
        ]


def _message(message: Any, url: str, received_at: float) -> Message:
    if isinstance(message, Message):
        message.queue_url = url
        return message
    return Message(
        message.message_id,
        message.receipt_handle,
        message.body,
        _mapping(message.attributes),
        _mapping(message.message_attributes),
        queue_url=url,
        received_at=received_at,
    )


def _mapping(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def _listed(answer: Any, key: str) -> Sequence[Any]:
    return (answer.get(key) or ()) if isinstance(answer, Mapping) else ()


def _results(entries: Sequence[Mapping[str, Any]], answer: Any) -> list[EntryError | None]:
    # A mock seldom says more than that nothing failed, if it says anything. botocore's answers name each entry.
    if isinstance(answer, Mapping) and "ResponseMetadata" in answer:
        return entry_results(entries, answer)
    lacking = {"Successful": entries, "Failed": _listed(answer, "Failed")}
    return entry_results(entries, lacking)


def _raise_first(errors: Sequence[EntryError | None], operation: str) -> None:
    (error,) = errors
    if error is not None:
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": error.code, "Message": error.message}}, operation)
