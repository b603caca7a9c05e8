"""Requests and answers of SQS's JSON protocol, between what the transport takes and what goes over the wire.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.transport.lean.md5 import MD5_AVAILABLE, md5_of_attributes, md5_of_body
from sqs_workers.transport.protocol import EntryError, SendResult

__all__ = [
    "MD5_MISMATCH",
    "Mismatch",
    "decode_entries",
    "decode_messages",
    "decode_send_batch",
    "decode_sent",
    "encode",
    "send_request",
]

_log = logging.getLogger(__name__)

encode = json.JSONEncoder(separators=(",", ":")).encode

MD5_MISMATCH = "MD5Mismatch"
"""Error code of an entry of a batch that SQS did not take as it was sent."""

_NOT_ANSWERED = EntryError("NotAnswered", "SQS named the entry neither as done nor as failed")


class Mismatch(Exception):
    """A digest that SQS stated and one that was computed here differ.

    :ivar expected: what SQS stated.
    :ivar actual: what was computed here.
    """

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"MD5 {expected} expected, {actual} found")
        self.expected = expected
        self.actual = actual


def send_request(message: OutgoingMessage) -> dict[str, Any]:
    """``SendMessage`` but for the queue, or an entry of ``SendMessageBatch`` but for its id.

    :raises TypeError: a value has a type that botocore's validation should judge.
    """
    request = message.to_request()
    if type(message.body) is not str:
        raise TypeError("a body that is no str")
    attributes = request.get("MessageAttributes")
    if attributes and any("BinaryValue" in attribute for attribute in attributes.values()):
        request["MessageAttributes"] = {name: _encode_binary(value) for name, value in attributes.items()}
    return request


def _encode_binary(attribute: Mapping[str, Any]) -> Mapping[str, Any]:
    value = attribute.get("BinaryValue")
    if value is None:
        return attribute
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError("a binary value that is neither bytes nor bytearray")
    return {**attribute, "BinaryValue": base64.b64encode(value).decode("ascii")}


def decode_sent(answer: dict[str, Any], message: OutgoingMessage) -> str:
    """Id of a sent message.

    :raises Mismatch: SQS did not take what was sent.
    """
    _check(answer, "MD5OfMessageBody", message.body, message.attributes)
    message_id: str = answer["MessageId"]
    return message_id


def decode_send_batch(
    answer: dict[str, Any], ids: Sequence[str], messages: Sequence[OutgoingMessage]
) -> list[SendResult]:
    """One result for each message, in their order."""
    sent = {entry["Id"]: entry for entry in answer.get("Successful") or ()}
    errors = _errors(answer)
    results = []
    for id_, message in zip(ids, messages, strict=False):
        entry = sent.get(id_)
        if entry is None:
            results.append(SendResult(None, errors.get(id_, _NOT_ANSWERED)))
            continue
        try:
            _check(entry, "MD5OfMessageBody", message.body, message.attributes)
        except Mismatch as error:
            results.append(
                SendResult(None, EntryError(MD5_MISMATCH, f"the message changed on its way: {error}"))
            )
        else:
            results.append(SendResult(entry["MessageId"]))
    return results


def decode_messages(
    answer: dict[str, Any], queue_url: str, received_at: float, *, all_attributes: bool = True
) -> list[Message]:
    """The messages of an answer, but for those whose digests do not match.

    Such a message is named in the log and comes back after its visibility timeout.

    :param all_attributes: whether all message attributes were asked for. SQS states the digest of those that
        it returns, emulators are known to state that of all; so it is only looked at where both agree.
    :raises Mismatch: no message of the answer matches its digests.
    """
    messages = []
    mismatch: Mismatch | None = None
    for raw in answer.get("Messages") or ():
        body = raw.get("Body", "")
        attributes = raw.get("MessageAttributes")
        if attributes is not None:
            for attribute in attributes.values():
                if "BinaryValue" in attribute:
                    attribute["BinaryValue"] = base64.b64decode(attribute["BinaryValue"])
        try:
            _check(raw, "MD5OfBody", body, attributes if all_attributes else None)
        except Mismatch as error:
            mismatch = error
            _log.error(
                "message %s of queue %s was damaged on its way (%s); "
                "it comes back after its visibility timeout",
                raw["MessageId"],
                queue_url,
                error,
            )
            continue
        messages.append(
            Message(
                raw["MessageId"],
                raw["ReceiptHandle"],
                body,
                raw.get("Attributes"),
                attributes,
                md5_of_body=raw.get("MD5OfBody", ""),
                queue_url=queue_url,
                received_at=received_at,
            )
        )
    if mismatch is not None and not messages:
        raise mismatch
    return messages


def decode_entries(answer: dict[str, Any], count: int) -> list[EntryError | None]:
    """``None`` or an error for each of ``count`` entries, whose ids are their positions."""
    done = {entry["Id"] for entry in answer.get("Successful") or ()}
    if len(done) == count and not answer.get("Failed"):
        return [None] * count
    errors = _errors(answer)
    return [
        errors.get(id_, None if id_ in done else _NOT_ANSWERED)
        for id_ in (str(index) for index in range(count))
    ]


def _errors(answer: dict[str, Any]) -> dict[str, EntryError]:
    return {
        entry["Id"]: EntryError(
            str(entry.get("Code", "Unknown")),
            str(entry.get("Message", "")),
            bool(entry.get("SenderFault", False)),
        )
        for entry in answer.get("Failed") or ()
    }


def _check(
    stated: Mapping[str, Any], name: str, body: str, attributes: Mapping[str, Mapping[str, Any]] | None
) -> None:
    if not MD5_AVAILABLE:
        return
    expected = stated.get(name)
    if expected:
        actual = md5_of_body(body)
        if actual != expected:
            raise Mismatch(expected, actual)
    expected = stated.get("MD5OfMessageAttributes")
    if expected and attributes:
        actual = md5_of_attributes(attributes)
        if actual != expected:
            raise Mismatch(expected, actual)
