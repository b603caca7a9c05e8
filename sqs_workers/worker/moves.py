"""Copies of messages for dead-letter queues."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqs_workers.limits import MAX_ATTRIBUTES, MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.outcome import MoveTo
from sqs_workers.transport import error_code
from sqs_workers.worker.held import log_fields

if TYPE_CHECKING:
    from sqs_workers.transport import Transport
    from sqs_workers.worker.held import Held
    from sqs_workers.worker.source import SourceState

__all__ = ["copy_message", "send_copy"]

logger = logging.getLogger(__name__)

_DEFAULT_GROUP = "default"


def send_copy(transport: Transport, source: SourceState, held: Held) -> Exception | None:
    """Send the copy of a message that is to be moved; the error if it was not taken."""
    action = held.action
    if not isinstance(action, MoveTo):
        raise TypeError(f"message {held.message.message_id} is not to be moved: {action!r}")
    try:
        target = source.target_url(action.queue_name)
        transport.send(target, copy_message(action, fifo=target.endswith(".fifo")))
    except Exception as error:  # noqa: BLE001 - the caller classifies it and tries again
        logger.error(
            "Message %s of queue %s could not be copied to %s: %s",
            held.message.message_id,
            source.name,
            action.queue_name,
            error_code(error),
            extra=log_fields(held),
        )
        return error
    return None


def copy_message(action: MoveTo, *, fifo: bool) -> OutgoingMessage:
    """The copy that ``action`` asks for.

    The message's own attributes come first; of the additions, as many as SQS's limits of 10 attributes and of
    size leave room for, in the order in which the policy named them. A FIFO target gets the original's group
    and a deduplication id made of the original's message id, so that a copy sent twice is kept once.
    """
    message = action.message
    attributes: dict[str, dict[str, Any]] = {
        name: _sendable(attribute) for name, attribute in message.message_attributes.items()
    }
    for name, text in action.extra_attributes.items():
        # SQS refuses an empty String.
        if text and (name in attributes or len(attributes) < MAX_ATTRIBUTES):
            attributes[name] = string_attribute(text)
    group = message.group_id
    copy = OutgoingMessage(
        message.body,
        attributes,
        deduplication_id=_deduplication_id(message.message_id) if fifo else None,
        group_id=group or (_DEFAULT_GROUP if fifo else None),
    )
    if copy.size > MAX_MESSAGE_BYTES and action.extra_attributes:
        # A copy that says less of its reason is better than one that SQS never takes.
        return copy_message(replace(action, extra_attributes=_all_but_the_last(action)), fifo=fifo)
    return copy


def _all_but_the_last(action: MoveTo) -> dict[str, str]:
    names = list(action.extra_attributes)[:-1]
    return {name: action.extra_attributes[name] for name in names}


def _sendable(attribute: dict[str, Any]) -> dict[str, Any]:
    # A received attribute may carry empty lists that SendMessage does not take.
    return {key: attribute[key] for key in ("DataType", "StringValue", "BinaryValue") if key in attribute}


def _deduplication_id(message_id: str) -> str:
    if len(message_id) <= 100:
        return f"moved-{message_id}"
    return f"moved-{hashlib.sha256(message_id.encode()).hexdigest()}"
