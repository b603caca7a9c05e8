"""Messages checked before they are sent: what SQS would refuse is refused where it was written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqs_workers.exceptions import InvalidMessageError, InvalidQueueNameError, MessageTooLargeError
from sqs_workers.limits import (
    MAX_ATTRIBUTES,
    MAX_DELAY_SECONDS,
    MAX_ID_LENGTH,
    MAX_LONG_DELAY_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_QUEUE_NAME_LENGTH,
)
from sqs_workers.messages import OutgoingMessage

__all__ = [
    "check_attributes",
    "check_delay",
    "check_id",
    "check_queue_name",
    "check_size",
    "check_text",
    "is_plain",
    "make_outgoing",
]

DEFAULT_MESSAGE_GROUP_ID = "default"
"""Message group of jobs sent to a FIFO queue without one."""

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
_FORBIDDEN_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]+")
_ATTRIBUTE_NAME = re.compile(r"(?!(?i:aws\.|amazon\.))(?!\.)(?!.*\.\.)[A-Za-z0-9_.\-]{1,256}(?<!\.)")
_DATA_TYPE = re.compile(r"(String|Number|Binary)(\.[\x20-\x7e]{1,249})?")
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")


def check_queue_name(sqs_queue_name: Any) -> None:
    """Refuse a name, prefix included, that SQS does not allow.

    :raises InvalidQueueNameError: too long, or has other characters than letters, digits, ``-`` and ``_``
        before an optional ``.fifo``.
    """
    if not isinstance(sqs_queue_name, str) or not (
        len(sqs_queue_name) <= MAX_QUEUE_NAME_LENGTH and _QUEUE_NAME.fullmatch(sqs_queue_name)
    ):
        raise InvalidQueueNameError(
            f"{sqs_queue_name!r} cannot be the name of a queue: SQS takes 1 to {MAX_QUEUE_NAME_LENGTH} "
            "letters, digits, hyphens and underscores, and '.fifo' at the end of a FIFO queue's name"
        )


def check_text(what: str, text: Any) -> None:
    """Refuse text that SQS does not take: empty, or with control characters or lone surrogates.

    :raises InvalidMessageError: names ``what``.
    """
    if not isinstance(text, str):
        raise InvalidMessageError(f"{what} must be text, not {type(text).__qualname__}")
    if text.isascii() and text.isprintable():
        if text:
            return
        raise InvalidMessageError(f"{what} is empty: SQS takes at least one character")
    found = _FORBIDDEN_CHARACTER.search(text)
    if found is not None:
        raise InvalidMessageError(
            f"{what} has the character U+{ord(found.group()):04X} at position {found.start()}, which SQS "
            "does not take: escape or encode it"
        )


def check_delay(seconds: Any, *, fifo: bool, where: str) -> int | None:
    """A delay as SQS takes it: an integer from 0 to 900, fractions rounded up.

    :raises InvalidMessageError: out of range, or more than 0 on a FIFO queue, which has a delay of its own
        only.
    """
    if seconds is None:
        return None
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, str) and seconds.isdigit():
        seconds = int(seconds)
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not 0 <= seconds <= (MAX_LONG_DELAY_SECONDS if fifo else MAX_DELAY_SECONDS)
    ):
        raise InvalidMessageError(
            f"the delay of {where} must be 0 to {MAX_LONG_DELAY_SECONDS} seconds, not {seconds!r}"
        )
    if not fifo:
        return math.ceil(seconds)
    if seconds:
        raise InvalidMessageError(
            f"{where} cannot be delayed by {seconds!r} seconds: a FIFO queue takes no delay per message. "
            "Set the delay of the queue, or let a schedule send it: SQSEnv(scheduler=EventBridgeScheduler(...))"
        )
    return None


def check_id(what: str, value: Any, where: str) -> str | None:
    """A deduplication or message group id as SQS takes it.

    :raises InvalidMessageError: too long, empty, or has other characters than letters, digits and
        punctuation.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) > MAX_ID_LENGTH or not _ID.fullmatch(text):
        raise InvalidMessageError(
            f"the {what} of {where} must be 1 to {MAX_ID_LENGTH} ASCII letters, digits and punctuation "
            f"marks (no spaces), not {text[:200]!r}"
        )
    return text


def check_attributes(attributes: Mapping[Any, Mapping[str, Any]], where: str) -> None:
    """Refuse message attributes that SQS does not take.

    :raises InvalidMessageError: too many, or a name, type or value is not allowed.
    """
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidMessageError(
            f"{where} has {len(attributes)} message attributes; SQS takes {MAX_ATTRIBUTES}"
        )
    for name, attribute in attributes.items():
        if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
            raise InvalidMessageError(f"{name!r} of {where} cannot be the name of a message attribute")
        data_type = attribute.get("DataType")
        if not isinstance(data_type, str) or not _DATA_TYPE.fullmatch(data_type):
            raise InvalidMessageError(
                f"attribute {name!r} of {where} must have a DataType String, Number or Binary, not "
                f"{data_type!r}"
            )
        if data_type.startswith("Binary"):
            if (
                not isinstance(attribute.get("BinaryValue"), (bytes, bytearray))
                or not attribute["BinaryValue"]
            ):
                raise InvalidMessageError(f"attribute {name!r} of {where} must have bytes as its BinaryValue")
        else:
            check_text(f"attribute {name!r} of {where}", attribute.get("StringValue"))


def is_plain(text: Any) -> bool:
    """Whether ``text`` is what :func:`check_text` takes at a glance: printable ASCII."""
    return type(text) is str and text.isascii() and text.isprintable() and text != ""


def check_size(message: OutgoingMessage, where: str) -> None:
    """Refuse a message above the limit of SQS.

    :raises MessageTooLargeError: body and attributes have more than 1,048,576 bytes.
    """
    # Most messages are far below: a character has at most four bytes.
    if message.size > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"{where} has {message.size} bytes, attributes included; SQS takes {MAX_MESSAGE_BYTES}. Store "
            "the data elsewhere and send a reference",
            size=message.size,
            limit=MAX_MESSAGE_BYTES,
        )


def make_outgoing(
    body: str,
    attributes: Mapping[str, Mapping[str, Any]],
    *,
    fifo: bool,
    where: str,
    delay_seconds: Any = None,
    deduplication_id: Any = None,
    group_id: Any = None,
    job_name: str = "",
) -> OutgoingMessage:
    """A checked message for a queue.

    :param where: what the message is, for errors: ``job 'send_email' for queue 'emails'``.
    :raises InvalidMessageError: SQS would refuse it.
    """
    if not is_plain(body):
        check_text(f"the body of {where}", body)
    delay = check_delay(delay_seconds, fifo=fifo, where=where)
    if deduplication_id is not None:
        if not fifo:
            raise InvalidMessageError(
                f"{where} has a deduplication id, which only a FIFO queue takes (its name ends with '.fifo')"
            )
        deduplication_id = check_id("deduplication id", deduplication_id, where)
    if group_id is not None:
        group_id = check_id("message group id", group_id, where)
    elif fifo:
        group_id = DEFAULT_MESSAGE_GROUP_ID
    message = OutgoingMessage(body, attributes, delay, deduplication_id, group_id, job_name)
    check_size(message, where)
    return message
