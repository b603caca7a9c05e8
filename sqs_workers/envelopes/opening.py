"""Taking a message out of its envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqs_workers.envelopes import readers
from sqs_workers.envelopes.bounded_json import read_json
from sqs_workers.envelopes.documents import EVENT_TYPE_ATTRIBUTE, is_event_document
from sqs_workers.envelopes.kinds import EnvelopeKind, EventBridgeEvent, SNSNotification
from sqs_workers.envelopes.opened import Ignored, IncomingEvent, Opened, OwnJob
from sqs_workers.envelopes.shapes import as_time
from sqs_workers.exceptions import UndecodableMessageError
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import Message

__all__ = ["Layer", "inner_job", "open_eventbridge", "open_layer", "open_plain", "open_s3", "open_sns"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A message, as far as it is unpacked.

    :param message: as it was received.
    :param body: the text inside of ``envelopes``.
    :param attributes: of the innermost envelope that has attributes, in boto3's shape.
    :param limit: characters of JSON that are read at most.
    """

    message: Message
    body: str = field(repr=False)
    attributes: Mapping[str, Mapping[str, Any]] = field(repr=False)
    envelopes: tuple[EnvelopeKind, ...] = ()
    limit: int = MAX_MESSAGE_BYTES

    @classmethod
    def of(cls, message: Message) -> Layer:
        """Nothing unpacked yet. A body that was fetched is as large as whoever fetched it has allowed."""
        limit = max(MAX_MESSAGE_BYTES, message.stored_size)
        return cls(message, message.body, message.message_attributes, limit=limit)

    @classmethod
    def fetched(cls, message: Message, loaded: Message, envelopes: tuple[EnvelopeKind, ...]) -> Layer:
        """What ``envelopes`` of ``message`` pointed to."""
        limit = max(MAX_MESSAGE_BYTES, loaded.stored_size)
        return cls(message, loaded.body, loaded.message_attributes, envelopes, limit)

    @property
    def what(self) -> str:
        """For errors; never the content."""
        inside = "the content of " if self.envelopes else "the body of "
        return f"{inside}message {self.message.message_id}"

    def json(self) -> Any:
        """The body as JSON.

        :raises UndecodableMessageError: it is none, or too deep.
        """
        return read_json(self.body, self.what, self.limit)

    def text_or_json(self) -> Any:
        """As :meth:`json`; within an envelope, text that does not look like an object or array stays text."""
        if self.envelopes and self.body.lstrip()[:1] not in ("{", "["):
            try:
                return self.json()
            except UndecodableMessageError:
                return self.body
        return self.json()

    @property
    def sns(self) -> SNSNotification | None:
        """The envelope of SNS, or ``None``."""
        return next((kind for kind in self.envelopes if isinstance(kind, SNSNotification)), None)


def inner_job(layer: Layer) -> OwnJob | None:
    """The job that the layer is, told by its two attributes; a body that looks like one is none."""
    if not all(_is_string(layer.attributes.get(name)) for name in ("JobName", "ContentType")):
        return None
    message = layer.message
    if not layer.envelopes:
        return OwnJob(message)
    job = Message(
        message.message_id,
        message.receipt_handle,
        layer.body,
        message.attributes,
        {name: dict(attribute) for name, attribute in layer.attributes.items()},
        queue_url=message.queue_url,
        received_at=message.received_at,
    )
    return OwnJob(job, layer.envelopes)


def _is_string(attribute: Mapping[str, Any] | None) -> bool:
    return attribute is not None and isinstance(attribute.get("StringValue"), str)


def open_layer(layer: Layer) -> Opened:
    """What is inside, decided by its structure.

    :raises UndecodableMessageError: it is malformed.
    """
    job = inner_job(layer)
    if job is not None:
        return job
    value = layer.text_or_json()
    if not layer.envelopes and (readers.is_sns_notification(value) or readers.is_sns_control(value)):
        return open_layer(open_sns(layer, value))
    if readers.is_eventbridge_event(value):
        return open_eventbridge(layer, value)
    if readers.is_s3_notification(value) or readers.is_s3_test_event(value):
        return open_s3(layer, value)
    return open_plain(layer, value)


def open_sns(layer: Layer, value: Any) -> Layer:
    """What is inside of SNS's envelope.

    :raises UndecodableMessageError: it is none, or asks to confirm a subscription, or is malformed.
    """
    if readers.is_sns_control(value):
        raise UndecodableMessageError(
            f"message {layer.message.message_id} asks to confirm that a subscription to {value['TopicArn']} "
            "begins or ends. Nothing was fetched: confirm it yourself if you know the topic "
            "(aws sns confirm-subscription), and delete the message"
        )
    if not readers.is_sns_notification(value):
        raise UndecodableMessageError(f"{layer.what} has no envelope of SNS around it")
    notification = readers.read_sns(value, layer.what)
    return Layer(
        layer.message,
        notification.message,
        notification.attributes,
        (*layer.envelopes, notification),
        layer.limit,
    )


def open_eventbridge(layer: Layer, value: Any) -> Opened:
    """An event of EventBridge; one of our own inside of it keeps its own id.

    :raises UndecodableMessageError: it is none, or malformed.
    """
    if not readers.is_eventbridge_event(value):
        raise UndecodableMessageError(f"{layer.what} is no event of EventBridge")
    event = readers.read_eventbridge(value, layer.what)
    envelopes = (*layer.envelopes, event)
    if is_event_document(event.detail):
        return _own_event(layer, event.detail, envelopes, event)
    return IncomingEvent(
        event_id=event.id,
        type=event.detail_type,
        data=event.detail,
        source=event.source,
        subject=_subject(layer),
        time=event.time,
        attributes=_plain_attributes(layer),
        envelopes=envelopes,
        message=layer.message,
        payload=event.detail,
    )


def open_s3(layer: Layer, value: Any) -> Opened:
    """A notification of S3; its test is ignored.

    :raises UndecodableMessageError: it is none, or malformed.
    """
    if readers.is_s3_test_event(value):
        return Ignored(f"S3 tries out a notification of bucket {value['Bucket']}", layer.envelopes)
    if not readers.is_s3_notification(value):
        raise UndecodableMessageError(f"{layer.what} is no notification of S3")
    notification = readers.read_s3(value, layer.what)
    return IncomingEvent(
        event_id=readers.s3_event_id(notification),
        type=notification.event_name,
        data=notification,
        source="aws:s3",
        subject=_subject(layer),
        time=notification.record.time,
        attributes=_plain_attributes(layer),
        envelopes=(*layer.envelopes, notification),
        message=layer.message,
        payload=readers.s3_identity(notification),
    )


def open_plain(layer: Layer, value: Any) -> Opened:
    """An event of our own, or whatever somebody sent as JSON."""
    if is_event_document(value):
        return _own_event(layer, value, layer.envelopes, None)
    sns = layer.sns
    attributes = _plain_attributes(layer)
    type_ = attributes.get(EVENT_TYPE_ATTRIBUTE)
    return IncomingEvent(
        event_id=layer.message.message_id if sns is None else sns.message_id,
        type=type_ if isinstance(type_, str) else "",
        data=value,
        subject=_subject(layer),
        time=None if sns is None else sns.timestamp,
        attributes=attributes,
        envelopes=layer.envelopes,
        message=layer.message,
        payload=value,
    )


def _own_event(
    layer: Layer,
    document: Mapping[str, Any],
    envelopes: tuple[EnvelopeKind, ...],
    bridge: EventBridgeEvent | None,
) -> Opened:
    subject = document.get("subject")
    return IncomingEvent(
        event_id=document["eventId"],
        # What the rules and permissions of the bus looked at, if there is one.
        type=document["eventType"] if bridge is None else bridge.detail_type,
        data=document["data"],
        source=document["source"] if bridge is None else bridge.source,
        subject=subject if isinstance(subject, str) else _subject(layer),
        time=as_time(document["time"], f"the time of {layer.what}"),
        schema_version=document["schemaVersion"],
        attributes=_plain_attributes(layer),
        envelopes=envelopes,
        message=layer.message,
        payload=document["data"],
    )


def _subject(layer: Layer) -> str | None:
    return None if layer.sns is None else layer.sns.subject


def _plain_attributes(layer: Layer) -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for name, attribute in layer.attributes.items():
        value = attribute.get("StringValue", attribute.get("BinaryValue"))
        if isinstance(value, (str, bytes)):
            found[name] = value
    return found
