"""A message as the backend keeps it, and the receipt handles that point to it."""

from __future__ import annotations

import base64
import binascii
from random import Random
from typing import Any, Literal

__all__ = [
    "DELAYED",
    "GONE",
    "IN_FLIGHT",
    "VISIBLE",
    "Message",
    "State",
    "new_id",
    "parse_receipt",
    "receipt",
]

DELAYED: Literal[0] = 0
VISIBLE: Literal[1] = 1
IN_FLIGHT: Literal[2] = 2
GONE: Literal[3] = 3
"""Deleted, expired, purged or moved elsewhere; it may still be referred to by heaps."""

State = Literal[0, 1, 2, 3]

_random = Random()  # noqa: S311 - ids, not secrets


def new_id() -> str:
    """A random UUID of version 4."""
    text = f"{_random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


class Message:
    """One message in one queue.

    Moments in ``_at`` are on the clock's monotonic scale, in seconds; those in
    ``_ms`` are milliseconds since the Unix epoch, as SQS shows them.
    """

    __slots__ = (
        "alarm",
        "attributes",
        "body",
        "deduplication_id",
        "due",
        "enqueued_at",
        "first_received_ms",
        "group_id",
        "id",
        "md5_of_attributes",
        "md5_of_body",
        "number",
        "receive_count",
        "received_at",
        "receives",
        "sent_ms",
        "sequence",
        "source_arn",
        "state",
        "timed_out",
        "trace_header",
    )

    def __init__(self, message_id: str, body: str, md5_of_body: str) -> None:
        self.id = message_id
        self.body = body
        self.md5_of_body = md5_of_body
        self.attributes: dict[str, Any] | None = None
        self.md5_of_attributes: str | None = None
        self.trace_header: str | None = None
        self.group_id: str | None = None
        self.deduplication_id: str | None = None
        self.source_arn: str | None = None
        self.sent_ms = 0
        self.enqueued_at = 0.0
        self.first_received_ms: int | None = None
        self.receive_count = 0
        # The position in the present queue: grows with every message put there.
        self.number = 0
        # The FIFO sequence number as a client sees it; empty on a standard queue.
        self.sequence = ""
        self.state: State = VISIBLE
        # Which receive of this message in this queue the newest receipt handle stands for.
        self.receives = 0
        self.received_at = 0.0
        # True if the visibility timeout of the newest receipt ran out by itself.
        self.timed_out = False
        # When the state changes by itself, and when the timer's heap will look at it.
        self.due: float | None = None
        self.alarm: float | None = None

    def copy_for_other_queue(self) -> Message:
        """The same content and history, not yet placed in a queue."""
        copy = Message(self.id, self.body, self.md5_of_body)
        copy.attributes = self.attributes
        copy.md5_of_attributes = self.md5_of_attributes
        copy.trace_header = self.trace_header
        copy.group_id = self.group_id
        copy.deduplication_id = self.deduplication_id
        copy.source_arn = self.source_arn
        copy.sent_ms = self.sent_ms
        copy.enqueued_at = self.enqueued_at
        copy.first_received_ms = self.first_received_ms
        copy.receive_count = self.receive_count
        return copy

    def forget_content(self) -> None:
        """Free what may be large: heaps refer to the record for a while yet."""
        self.body = ""
        self.attributes = None


_PREFIX = "AQEB"


def receipt(queue_uid: str, message: Message) -> str:
    """The receipt handle of the newest receive of ``message``."""
    raw = f"{queue_uid}:{message.number:x}:{message.receives:x}"
    return _PREFIX + base64.b64encode(raw.encode()).decode()


def parse_receipt(handle: str, queue_uid: str) -> tuple[int, int] | None:
    """Message number and receive number, or ``None`` if that queue never gave out ``handle``."""
    if not handle.startswith(_PREFIX):
        return None
    try:
        uid, number, receives = base64.b64decode(handle[4:], validate=True).decode().split(":")
        if uid != queue_uid:
            return None
        return int(number, 16), int(receives, 16)
    except (ValueError, binascii.Error):
        return None
