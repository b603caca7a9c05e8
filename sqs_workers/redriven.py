"""A dead letter as the message that goes back to its queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqs_workers.outgoing import make_outgoing

if TYPE_CHECKING:
    from sqs_workers.messages import Message, OutgoingMessage

__all__ = ["DEAD_LETTER_PREFIX", "redriven", "sendable_attributes"]

DEAD_LETTER_PREFIX = "DeadLetter"
"""Begins the names of the attributes that say why a message is in a dead-letter queue."""

_SENT_KEYS = ("DataType", "StringValue", "BinaryValue")


def sendable_attributes(received: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Message attributes as SendMessage takes them: without the empty lists that a receive may add."""
    return {
        name: {key: attribute[key] for key in _SENT_KEYS if key in attribute}
        for name, attribute in received.items()
    }


def redriven(
    message: Message,
    *,
    fifo: bool,
    where: str,
    deduplication_id: str | None = None,
    delay_seconds: int | None = None,
) -> OutgoingMessage:
    """The copy of a dead letter for the queue that it goes back to.

    Body, attributes and message group are kept. The attributes that say why it was a dead letter are left
    behind: they are about the past, and take from the ten that SQS allows.

    :param fifo: whether the target is a FIFO queue.
    :param where: what the message is, for errors.
    :param deduplication_id: of the copy, on a FIFO queue. Never that of the dead letter, with which SQS might
        drop the copy as a duplicate of it.
    :raises InvalidMessageError: SQS would refuse the copy.
    """
    attributes = {
        name: attribute
        for name, attribute in sendable_attributes(message.message_attributes or {}).items()
        if not name.startswith(DEAD_LETTER_PREFIX)
    }
    return make_outgoing(
        message.body,
        attributes,
        fifo=fifo,
        where=where,
        delay_seconds=delay_seconds,
        deduplication_id=deduplication_id if fifo else None,
        group_id=message.attributes.get("MessageGroupId"),
        job_name=attributes.get("JobName", {}).get("StringValue", ""),
    )
