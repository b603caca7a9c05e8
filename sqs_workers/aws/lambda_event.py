"""The event that Lambda's event source mapping makes of a batch of SQS, and what it expects in return.

https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

from typing_extensions import NotRequired

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.messages import Message

__all__ = ["BatchItemFailure", "BatchResponse", "LambdaContext", "SQSEvent", "SQSRecord", "messages_of"]


class SQSMessageAttribute(TypedDict):
    """A message attribute as Lambda spells it."""

    dataType: str
    stringValue: NotRequired[str]
    binaryValue: NotRequired[str]
    stringListValues: NotRequired[list[str]]
    binaryListValues: NotRequired[list[str]]


class SQSRecord(TypedDict):
    """One message of the batch."""

    messageId: str
    receiptHandle: str
    body: str
    attributes: dict[str, str]
    messageAttributes: dict[str, SQSMessageAttribute]
    md5OfBody: NotRequired[str]
    md5OfMessageAttributes: NotRequired[str]
    eventSource: str
    eventSourceARN: str
    awsRegion: NotRequired[str]


class SQSEvent(TypedDict):
    """What the function is called with."""

    Records: list[SQSRecord]


class BatchItemFailure(TypedDict):
    """A message that is to come again."""

    itemIdentifier: str


class BatchResponse(TypedDict):
    """What the function returns: all other messages are deleted by Lambda."""

    batchItemFailures: list[BatchItemFailure]


class LambdaContext(Protocol):
    """What is asked of the context object of Lambda's runtime."""

    @property
    def invoked_function_arn(self) -> str:
        """ARN by which the function was called, with its alias or version."""
        ...

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the function."""
        ...


def messages_of(event: Any, received_at: float) -> list[tuple[Message, str]]:
    """The messages of a batch, each with the ARN of its queue.

    :param received_at: monotonic time, in seconds.
    :raises ConfigurationError: it is no event of SQS: Lambda then gives the whole batch back.
    """
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise ConfigurationError(
            "the function was not called with a batch of SQS: connect it to the queue by an event source mapping"
        )
    return [_message_of(record, received_at) for record in records]


def _message_of(record: Any, received_at: float) -> tuple[Message, str]:
    if not isinstance(record, Mapping) or record.get("eventSource") != "aws:sqs":
        source = record.get("eventSource") if isinstance(record, Mapping) else None
        raise ConfigurationError(
            f"the function takes records of aws:sqs, and was called with one of {source!r:.50}"
        )
    message_id, body = record.get("messageId"), record.get("body")
    if not isinstance(message_id, str) or not message_id or not isinstance(body, str):
        raise ConfigurationError("a record of the batch has no messageId or no body")
    attributes = record.get("messageAttributes") or {}
    message = Message(
        message_id,
        str(record.get("receiptHandle") or ""),
        body,
        dict(record.get("attributes") or {}),
        {name: _attribute(attribute) for name, attribute in attributes.items()},
        md5_of_body=str(record.get("md5OfBody") or ""),
        received_at=received_at,
    )
    return message, str(record.get("eventSourceARN") or "")


def _attribute(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """The attribute in boto3's shape. What is no base64 is left out: whoever needs it fails for lack of it."""
    found: dict[str, Any] = {"DataType": attribute.get("dataType", "String")}
    if attribute.get("stringValue") is not None:
        found["StringValue"] = attribute["stringValue"]
    if attribute.get("binaryValue") is not None:
        with contextlib.suppress(binascii.Error, ValueError, TypeError):
            found["BinaryValue"] = base64.b64decode(attribute["binaryValue"], validate=True)
    return found
