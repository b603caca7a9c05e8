"""Messages as SNS and EventBridge take them, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqs_workers.envelopes.documents import EVENT_TYPE_ATTRIBUTE, OutgoingEvent
from sqs_workers.limits import MAX_EVENTBRIDGE_BYTES, MAX_SNS_BYTES
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.outgoing import check_attributes
from sqs_workers.transport.errors import ErrorKind, classify_code
from sqs_workers.transport.protocol import EntryError, SendResult

__all__ = ["EVENTBRIDGE_BYTES", "SNS_BYTES", "event_message", "publish_batch", "put_event_entries"]

SNS_BYTES = MAX_SNS_BYTES
EVENTBRIDGE_BYTES = MAX_EVENTBRIDGE_BYTES
_NOT_ANSWERED = EntryError("NotAnswered", "the entry was named neither as done nor as failed")


def event_message(
    event: OutgoingEvent, *, group_id: str | None = None, deduplication_id: str | None = None
) -> OutgoingMessage:
    """The event as a message: its document, and attributes for filter policies.

    :raises InvalidMessageError: an attribute that SNS does not take.
    :raises SerializationError: JSON cannot carry the data.
    """
    attributes = {
        EVENT_TYPE_ATTRIBUTE: string_attribute(event.type),
        "source": string_attribute(event.source),
        "schemaVersion": string_attribute(event.schema_version),
        **{name: string_attribute(value) for name, value in event.attributes.items()},
    }
    check_attributes(attributes, f"event {event.event_id} ({event.type})")
    return OutgoingMessage(
        event.document(),
        attributes,
        deduplication_id=deduplication_id,
        group_id=group_id,
        job_name=event.type,
    )


def publish_batch(client: Any, topic_arn: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
    """Publish 1 to 10 messages, 262,144 bytes together; one result each, in their order."""
    entries = [_sns_entry(str(index), message) for index, message in enumerate(messages)]
    answer = client.publish_batch(TopicArn=topic_arn, PublishBatchRequestEntries=entries)
    sent = {entry["Id"]: entry["MessageId"] for entry in answer.get("Successful") or ()}
    failed = {entry["Id"]: _sns_error(entry) for entry in answer.get("Failed") or ()}
    return [
        SendResult(sent[entry["Id"]])
        if entry["Id"] in sent
        else SendResult(None, failed.get(entry["Id"], _NOT_ANSWERED))
        for entry in entries
    ]


def _sns_entry(id_: str, message: OutgoingMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"Id": id_, "Message": message.body}
    if message.attributes:
        entry["MessageAttributes"] = {name: dict(value) for name, value in message.attributes.items()}
    if message.group_id is not None:
        entry["MessageGroupId"] = message.group_id
    if message.deduplication_id is not None:
        entry["MessageDeduplicationId"] = message.deduplication_id
    return entry


def _sns_error(entry: Mapping[str, Any]) -> EntryError:
    code = str(entry.get("Code", "Unknown"))
    return EntryError(code, str(entry.get("Message", "")), bool(entry.get("SenderFault", False)))


def put_event_entries(client: Any, bus: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
    """Put 1 to 10 events, 262,144 bytes together; one result each, in their order."""
    answer = client.put_events(Entries=[_eventbridge_entry(bus, message) for message in messages])
    entries = answer.get("Entries") or ()
    # EventBridge answers in the order of the request.
    results = [_eventbridge_result(entry) for entry in entries[: len(messages)]]
    return results + [SendResult(None, _NOT_ANSWERED)] * (len(messages) - len(results))


def _eventbridge_entry(bus: str, message: OutgoingMessage) -> dict[str, Any]:
    document = json.loads(message.body)
    return {
        "EventBusName": bus,
        "Source": document["source"],
        "DetailType": document["eventType"],
        "Time": datetime.fromisoformat(document["time"]),
        "Detail": message.body,
    }


def _eventbridge_result(entry: Mapping[str, Any]) -> SendResult:
    if entry.get("EventId"):
        return SendResult(str(entry["EventId"]))
    code = str(entry.get("ErrorCode", "Unknown"))
    fault = classify_code(code) not in (ErrorKind.THROTTLED, ErrorKind.SERVER)
    return SendResult(None, EntryError(code, str(entry.get("ErrorMessage", "")), fault))
