"""What a message turns out to be when its envelope is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from sqs_workers.envelopes.kinds import EnvelopeKind, EventBridgeEvent, S3Notification, SNSNotification

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["Ignored", "IncomingEvent", "Opened", "OwnJob"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IncomingEvent(Generic[T]):
    """An event, out of its envelopes.

    :ivar event_id: the same in every delivery, for an inbox; see ``docs/events.md`` for where it comes from.
    :ivar type: ``eventType`` of our own events, the detail type of EventBridge, the event name of S3, else the
        message attribute ``eventType``, or an empty text.
    :ivar data: the payload: an instance of the processor's ``model``; without one, JSON as Python reads it.
    :ivar source: ``source`` of our own events and of EventBridge, ``aws:s3``, or an empty text.
    :ivar subject: that of our own events, else that of SNS, or ``None``.
    :ivar time: when it happened, with a time zone; ``None`` if nothing says.
    :ivar schema_version: of our own events, or ``None``.
    :ivar attributes: message attributes as text (bytes for binary ones): SNS's if there is such an envelope.
    :ivar envelopes: what was taken off, the outermost first.
    :ivar message: the message that carries it.
    :ivar payload: what two deliveries of one event have in common; an inbox compares it.
    """

    event_id: str
    type: str
    data: T = field(repr=False)
    source: str = ""
    subject: str | None = None
    time: datetime | None = None
    schema_version: str | None = None
    attributes: Mapping[str, str | bytes] = field(default_factory=dict, repr=False)
    envelopes: tuple[EnvelopeKind, ...] = field(default=(), repr=False)
    message: Message | None = field(default=None, repr=False, compare=False)
    payload: Any = field(default=None, repr=False, compare=False)

    @property
    def envelope(self) -> EnvelopeKind | None:
        """The innermost envelope, or ``None``."""
        return self.envelopes[-1] if self.envelopes else None

    @property
    def sns(self) -> SNSNotification | None:
        """The envelope of SNS, or ``None``."""
        return next((kind for kind in self.envelopes if isinstance(kind, SNSNotification)), None)

    @property
    def eventbridge(self) -> EventBridgeEvent | None:
        """The envelope of EventBridge, or ``None``."""
        return next((kind for kind in self.envelopes if isinstance(kind, EventBridgeEvent)), None)

    @property
    def s3(self) -> S3Notification | None:
        """The notification of S3, or ``None``."""
        return next((kind for kind in self.envelopes if isinstance(kind, S3Notification)), None)


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job of a queue of ours, perhaps sent through a topic.

    :ivar message: with the job's own body and attributes.
    :ivar envelopes: what was taken off.
    """

    message: Message
    envelopes: tuple[EnvelopeKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to do: acknowledge it.

    :ivar reason: for the log.
    """

    reason: str
    envelopes: tuple[EnvelopeKind, ...] = ()


Opened: TypeAlias = "IncomingEvent[Any] | OwnJob | Ignored"
