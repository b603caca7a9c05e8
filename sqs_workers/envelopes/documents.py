"""Events of our own: what :mod:`sqs_workers.aws` publishes.

::

    {
      "eventId": "5e3c...", "eventType": "order.paid", "schemaVersion": "1", "source": "shop",
      "subject": "order/7", "time": "2026-01-31T12:00:00+00:00", "data": {"orderId": 7}
    }

It is the body of a message to SNS, and the detail of an event of EventBridge.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime, timezone
from typing import Any

from sqs_workers.envelopes.shapes import has_texts
from sqs_workers.exceptions import InvalidMessageError, SerializationError

__all__ = ["EVENT_TYPE_ATTRIBUTE", "OutgoingEvent", "is_event_document"]

EVENT_TYPE_ATTRIBUTE = "eventType"
"""Message attribute that repeats the type, for filter policies of SNS and for events of others."""

_TEXTS = ("eventId", "eventType", "schemaVersion", "source", "time")


def _new_id() -> str:
    return str(uuid.uuid4())


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event to be published.

    Make it once and publish that one again if need be: a new object is a new event, with another id.

    :param type: what happened, for instance ``order.paid``.
    :param data: what JSON can carry, a dataclass, or a model of pydantic.
    :param source: who says so: the name of your service.
    :param subject: what it happened to: the business id, for instance ``order/7``.
    :param event_id: stable for the business event; a random UUID by default.
    :param schema_version: of ``data``.
    :param time: when it happened, with a time zone; now by default.
    :param attributes: more message attributes of SNS, as text; ignored by EventBridge.
    :raises InvalidMessageError: an empty text, or a time without a zone.
    """

    type: str
    data: Any = field(repr=False)
    source: str
    subject: str | None = None
    event_id: str = field(default_factory=_new_id)
    schema_version: str = "1"
    time: datetime = field(default_factory=_now)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("type", "source", "event_id", "schema_version"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise InvalidMessageError(f"{name} of an event must be text, not {value!r:.80}")
        if self.subject is not None and not isinstance(self.subject, str):
            raise InvalidMessageError(
                f"the subject of event {self.event_id} must be text, not {self.subject!r:.80}"
            )
        if not isinstance(self.time, datetime):
            raise InvalidMessageError(
                f"the time of event {self.event_id} must be a datetime with a time zone, not {self.time!r:.80}"
            )
        if self.time.tzinfo is None:
            raise InvalidMessageError(f"the time of event {self.event_id} has no time zone")

    def document(self) -> str:
        """The event as JSON text.

        :raises SerializationError: JSON cannot carry ``data``.
        """
        document: dict[str, Any] = {
            "eventId": self.event_id,
            "eventType": self.type,
            "schemaVersion": self.schema_version,
            "source": self.source,
            "time": self.time.isoformat(),
            "data": self.data,
        }
        if self.subject is not None:
            document["subject"] = self.subject
        try:
            return json.dumps(document, allow_nan=False, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(
                f"the data of event {self.event_id} ({self.type}) cannot be carried as JSON: {error}",
                argument="data",
            ) from None


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"it holds a {type(value).__qualname__}")


def is_event_document(value: Any) -> bool:
    """Whether a JSON value has all that an event of our own has."""
    return (
        isinstance(value, dict)
        and "data" in value
        and has_texts(value, *_TEXTS)
        and all(value[name] for name in _TEXTS)
    )
