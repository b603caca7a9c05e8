"""From the body of a message to the item that a handler gets."""

from __future__ import annotations

import json
from typing import Any

from sqs_workers.exceptions import UndecodableMessageError

__all__ = ["item_of"]

_SNS_KEYS = {"Type", "MessageId", "TopicArn", "Message", "Timestamp"}
_EVENTBRIDGE_KEYS = {"detail-type", "source", "detail", "id", "time"}


def item_of(body: str, *, codec: str = "json", unwrap: str = "auto") -> Any:
    """The item.

    :param codec: ``json`` or ``text``.
    :param unwrap: ``auto``, ``none``, ``sns`` or ``eventbridge``.
    :raises UndecodableMessageError: the body is not what it must be. It is never quoted.
    """
    if codec == "text":
        return _text(body, unwrap)
    item = _decoded(body, "the body")
    if unwrap == "none":
        return item
    if unwrap == "eventbridge":
        return _detail(item)
    if unwrap == "sns" or _is_notification(item):
        return _decoded(_notified(item), "`Message` of the SNS notification")
    return item


def _decoded(text: str, what: str) -> Any:
    try:
        return _decode(text)
    except RecursionError:
        raise UndecodableMessageError(f"{what} is nested too deep") from None
    except ValueError as error:
        position = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise UndecodableMessageError(f"{what} is not JSON{position}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


# json.loads with an option makes a decoder for each call.
_decode = json.JSONDecoder(parse_constant=_no_constant).decode


def _text(body: str, unwrap: str) -> str:
    if unwrap != "auto" or not body.startswith("{"):
        return body
    try:
        item = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return _notified(item) if _is_notification(item) else body


def _is_notification(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.get("Type") == "Notification"
        and item.keys() >= _SNS_KEYS
        and str(item["TopicArn"]).startswith("arn:")
    )


def _notified(item: Any) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("Message"), str):
        raise UndecodableMessageError("the body is no SNS notification: it has no text `Message`")
    return str(item["Message"])


def _detail(item: Any) -> Any:
    if not isinstance(item, dict) or not item.keys() >= _EVENTBRIDGE_KEYS:
        raise UndecodableMessageError("the body is no EventBridge event: `detail` and its kin are missing")
    return item["detail"]
