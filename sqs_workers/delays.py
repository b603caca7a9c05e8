"""Jobs that are due later than SQS can delay a message: how the due time travels.

SQS hides a message for 15 minutes at most. A job that is due later carries two message attributes:

=============  ==================================================================================
``NotBefore``  when it is due, in whole seconds since the Unix epoch
``StableId``   an id that every message of this job carries, for the inbox of the receiving side
=============  ==================================================================================

Whoever receives it too early sends a new message with the same attributes and acknowledges the old one.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import InvalidMessageError, UndecodableMessageError
from sqs_workers.limits import MAX_DELAY_SECONDS, MAX_ID_LENGTH, MAX_LONG_DELAY_SECONDS
from sqs_workers.messages import OutgoingMessage, string_attribute

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = [
    "NOT_BEFORE",
    "STABLE_ID",
    "check_eta",
    "due_of",
    "due_time",
    "long_delay",
    "next_hop",
    "seconds_until",
    "stamped",
    "timely",
]

NOT_BEFORE = "NotBefore"
STABLE_ID = "StableId"


def check_eta(eta: Any, delay: Any = None) -> datetime:
    """A time of day that means one moment.

    :raises InvalidMessageError: it is no datetime, has no time zone, or a delay was given, too.
    """
    if delay is not None:
        raise InvalidMessageError("give delay= or eta=, not both")
    if not isinstance(eta, datetime):
        raise InvalidMessageError(f"eta must be a datetime, not {type(eta).__qualname__}")
    if eta.utcoffset() is None:
        raise InvalidMessageError(
            f"eta {eta.isoformat()} has no time zone, so it may mean any of 26 moments: give it one, for "
            "instance datetime.now(timezone.utc) + timedelta(hours=2)"
        )
    return eta


def seconds_until(eta: datetime, now: float) -> float:
    """Seconds from ``now`` (since the Unix epoch) to ``eta``; 0.0 if it has passed."""
    return max(0.0, eta.timestamp() - now)


def long_delay(delay: Any, *, from_seconds: float, where: str) -> float | None:
    """A delay above ``from_seconds``; ``None`` for a shorter one, and for what is no number.

    :raises InvalidMessageError: it is above the limit of 366 days.
    """
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not delay > from_seconds:
        return None
    if delay > MAX_LONG_DELAY_SECONDS:
        raise InvalidMessageError(
            f"the delay of {where} must be 0 to {MAX_LONG_DELAY_SECONDS} seconds, not {delay!r}"
        )
    return float(delay)


def stamped(attributes: Mapping[str, Mapping[str, Any]], due: float) -> dict[str, Mapping[str, Any]]:
    """Message attributes of a job that is due at ``due`` (seconds since the Unix epoch)."""
    return {
        **attributes,
        NOT_BEFORE: string_attribute(str(math.ceil(due))),
        STABLE_ID: string_attribute(str(uuid.uuid4())),
    }


def timely(message: OutgoingMessage, now: float) -> OutgoingMessage:
    """A message that is sent later than it was made: hidden no longer than until its job is due.

    :param now: seconds since the Unix epoch.
    """
    due = due_of(message)
    if due is None or not message.delay_seconds:
        return message
    left = max(0, math.ceil(due - now))
    return message if left >= message.delay_seconds else replace(message, delay_seconds=left)


def due_of(message: OutgoingMessage) -> int | None:
    """When the job of a message that is to be sent is due, or ``None`` if it has no due time of ours."""
    text = message.attributes.get(NOT_BEFORE, {}).get("StringValue", "")
    known = STABLE_ID in message.attributes and text.isascii() and text.isdigit()
    return int(text) if known else None


def due_time(message: Message, now: float) -> int | None:
    """When the job of a message is due, or ``None`` if the message says nothing of it.

    :param now: seconds since the Unix epoch.
    :raises UndecodableMessageError: it says what no sender of this library would.
    """
    text = message.string_attribute(NOT_BEFORE)
    stable_id = message.string_attribute(STABLE_ID)
    if text is None or stable_id is None:
        # An attribute of somebody else's, which happens to have this name.
        return None
    # A sender whose clock is a day ahead is still understood.
    if not (text.isascii() and text.isdigit() and len(text) <= 12) or (
        int(text) > now + MAX_LONG_DELAY_SECONDS + 86_400
    ):
        raise UndecodableMessageError(
            f"message {message.message_id} has the attribute {NOT_BEFORE} {text[:40]!r}: expected are seconds "
            "since 1970 that are at most a year away"
        )
    return int(text)


def next_hop(
    message: Message, remaining: float, *, fifo: bool, carried: Message | None = None
) -> OutgoingMessage:
    """The message that carries on a job which is due in ``remaining`` seconds.

    :param carried: what says when it is due, if that is wrapped in ``message``: the due time then travels
        outside, too, where it is found without opening anything.

    A FIFO queue would take a second message with the deduplication id of the first for the same one: it gets
    an id of its own, made of the stable id.
    """
    attributes: dict[str, Mapping[str, Any]] = {
        name: {key: attribute[key] for key in ("DataType", "StringValue", "BinaryValue") if key in attribute}
        for name, attribute in message.message_attributes.items()
    }
    source = message if carried is None else carried
    for name in (NOT_BEFORE, STABLE_ID):
        value = source.string_attribute(name)
        if value is not None:
            attributes[name] = string_attribute(value)
    stable_id = source.string_attribute(STABLE_ID) or message.message_id
    return OutgoingMessage(
        message.body,
        attributes,
        None if fifo else min(MAX_DELAY_SECONDS, math.ceil(remaining)),
        f"due-{stable_id}"[:MAX_ID_LENGTH] if fifo else None,
        message.group_id,
        message.string_attribute("JobName") or "",
    )
