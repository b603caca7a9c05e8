"""From an outgoing message to a row of the outbox and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeAlias

from sqs_workers.exceptions import InvalidMessageError, MessageTooLargeError
from sqs_workers.limits import MAX_ATTRIBUTES, MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.sql.event_ids import OUTBOX_ID

__all__ = [
    "PENDING",
    "REFUSED",
    "ROW_COLUMNS",
    "SENT",
    "OutboxRow",
    "Postponed",
    "Refused",
    "RowResult",
    "Sent",
    "as_utc",
    "from_row",
    "is_ordered",
    "to_row",
]

PENDING = "pending"
SENT = "sent"
REFUSED = "refused"

ROW_COLUMNS = (
    "id",
    "outbox_id",
    "queue_name",
    "group_id",
    "deduplication_id",
    "job_name",
    "body",
    "attributes",
    "delay_seconds",
    "attempts",
    "created_at",
)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A message that waits to be sent."""

    id: int
    outbox_id: str
    queue_name: str
    attempts: int
    created_at: datetime
    message: OutgoingMessage

    @property
    def order_key(self) -> tuple[str, str] | None:
        """Queue and group within which the order counts, or ``None``."""
        group = self.message.group_id
        return (self.queue_name, group) if group is not None and is_ordered(self.queue_name) else None


@dataclass(frozen=True, slots=True)
class Sent:
    """SQS took the message."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """SQS may take it later.

    :ivar delay: seconds until the next try.
    """

    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """SQS will not take it: set aside."""

    reason: str


RowResult: TypeAlias = Sent | Postponed | Refused


def is_ordered(queue_name: str) -> bool:
    """Whether SQS keeps the order of groups in this queue."""
    return queue_name.endswith(".fifo")


def to_row(
    outbox_id: str, queue_name: str, message: OutgoingMessage, now: datetime
) -> tuple[OutgoingMessage, dict[str, Any]]:
    """The message with its stable id, and the row that stores it.

    :raises MessageTooLargeError: SQS would not take the message with the id.
    :raises InvalidMessageError: it has no room for another attribute.
    """
    if len(message.attributes) >= MAX_ATTRIBUTES and OUTBOX_ID not in message.attributes:
        raise InvalidMessageError(
            f"a message to queue {queue_name!r} has {len(message.attributes)} attributes; the outbox adds "
            f"{OUTBOX_ID}, and SQS takes {MAX_ATTRIBUTES}: leave one out"
        )
    attributes = {**message.attributes, OUTBOX_ID: string_attribute(outbox_id)}
    stamped = replace(message, attributes=attributes)
    if stamped.size > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"a message to queue {queue_name!r} has {stamped.size} bytes with its {OUTBOX_ID}, and SQS takes "
            f"{MAX_MESSAGE_BYTES}: send a reference to the data instead",
            size=stamped.size,
            limit=MAX_MESSAGE_BYTES,
        )
    return stamped, {
        "outbox_id": outbox_id,
        "state": PENDING,
        "queue_name": queue_name,
        "group_id": message.group_id,
        "deduplication_id": message.deduplication_id,
        "job_name": message.job_name,
        "body": message.body,
        "attributes": _dump(attributes),
        "delay_seconds": message.delay_seconds,
        "created_at": now,
    }


def from_row(row: Sequence[Any]) -> OutboxRow:
    """The message that a row stores, read as :data:`ROW_COLUMNS`."""
    values = dict(zip(ROW_COLUMNS, row, strict=True))
    message = OutgoingMessage(
        body=values["body"],
        attributes=_load(values["attributes"]),
        delay_seconds=values["delay_seconds"],
        deduplication_id=values["deduplication_id"],
        group_id=values["group_id"],
        job_name=values["job_name"],
    )
    return OutboxRow(
        id=values["id"],
        outbox_id=values["outbox_id"],
        queue_name=values["queue_name"],
        attempts=values["attempts"],
        created_at=as_utc(values["created_at"]),
        message=message,
    )


def as_utc(moment: datetime) -> datetime:
    """MySQL and SQLite answer without the time zone."""
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment


def _dump(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    return json.dumps(
        {
            name: {
                key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
                for key, value in attribute.items()
            }
            for name, attribute in attributes.items()
        }
    )


def _load(text: str) -> dict[str, dict[str, Any]]:
    return {
        name: {
            key: base64.b64decode(value) if key == "BinaryValue" else value
            for key, value in attribute.items()
        }
        for name, attribute in json.loads(text).items()
    }
