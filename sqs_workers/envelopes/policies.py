"""What a queue expects around its messages: ``sqs.queue("orders", envelope=SNSEnvelope())``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sqs_workers.envelopes import readers
from sqs_workers.envelopes.opened import IncomingEvent, Opened, OwnJob
from sqs_workers.envelopes.opening import (
    Layer,
    inner_job,
    open_eventbridge,
    open_layer,
    open_plain,
    open_s3,
    open_sns,
)
from sqs_workers.exceptions import ConfigurationError, UndecodableMessageError

if TYPE_CHECKING:
    from sqs_workers.envelopes.signatures import SignatureCheck
    from sqs_workers.messages import Message

__all__ = [
    "AutoEnvelope",
    "Envelope",
    "EventBridgeEnvelope",
    "S3Event",
    "SNSEnvelope",
    "envelope_policy",
]


@runtime_checkable
class Envelope(Protocol):
    """Opens the messages of a queue.

    Jobs of our own are left alone by all envelopes of this module, but for an :class:`SNSEnvelope` that lets
    nothing in but what comes through its topics.
    """

    def open(self, message: Message) -> Opened:
        """What the message carries. Called often and in any thread: must not block.

        :raises UndecodableMessageError: it is not what the queue expects; permanent.
        """
        ...

    def check(self, opened: Opened) -> None:
        """Last check before the processor runs, in the job's own thread: may ask the network.

        :raises UndecodableMessageError: it must not be processed; permanent.
        """
        ...


class _Unchecked:
    def check(self, opened: Opened) -> None:
        """Nothing to check."""


@dataclass(frozen=True)
class AutoEnvelope(_Unchecked):
    """Whatever it is, decided by the structure of the message: SNS around any of the others, EventBridge, S3,
    events of our own, or plain JSON. ``envelope="auto"``."""

    def open(self, message: Message) -> Opened:
        return open_layer(Layer.of(message))


@dataclass(frozen=True)
class EventBridgeEnvelope(_Unchecked):
    """Events of EventBridge, scheduled ones included, and nothing else."""

    def open(self, message: Message) -> Opened:
        return self.open_inside(Layer.of(message))

    def open_inside(self, layer: Layer) -> Opened:
        """As :meth:`open`, inside of SNS."""
        return inner_job(layer) or open_eventbridge(layer, layer.json())


@dataclass(frozen=True)
class S3Event(_Unchecked):
    """Notifications of S3 and nothing else; ``event.data`` is an
    :class:`~sqs_workers.envelopes.kinds.S3Notification`."""

    def open(self, message: Message) -> Opened:
        return self.open_inside(Layer.of(message))

    def open_inside(self, layer: Layer) -> Opened:
        """As :meth:`open`, inside of SNS."""
        return inner_job(layer) or open_s3(layer, layer.json())


@dataclass(frozen=True)
class SNSEnvelope:
    """Messages that come through a topic.

    :param raw: raw delivery of the subscription: ``False``: off, every message has SNS's envelope; ``True``:
        on, none has; ``None``: the message tells.
    :param inner: what was published: ``EventBridgeEnvelope()`` or ``S3Event()``; ``None``: its structure
        tells.
    :param topics: ARNs of the topics that may send; ``None`` for any.
    :param verify: check SNS's signature, which needs the extra ``sns``: ``True``, or a
        :class:`~sqs_workers.envelopes.signatures.SignatureCheck`. Raw delivery has no signature.
    :raises ConfigurationError: options that exclude each other.
    :raises MissingExtraError: the extra is not installed.
    """

    raw: bool | None = None
    inner: EventBridgeEnvelope | S3Event | None = None
    topics: Collection[str] | None = None
    verify: bool | SignatureCheck = field(default=False)

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):
            object.__setattr__(self, "topics", (self.topics,))
        if self.raw is True and (self.verify or self.topics is not None):
            raise ConfigurationError(
                "raw delivery has neither signature nor topic: leave out verify= and topics=, or turn raw "
                "delivery of the subscription off"
            )
        if self.verify and not self.topics:
            raise ConfigurationError(
                "a signature proves that SNS sent a message, not for which topic: name yours in topics="
            )
        if self.verify is True:
            from sqs_workers.envelopes.signatures import SignatureCheck

            object.__setattr__(self, "verify", SignatureCheck())

    def open(self, message: Message) -> Opened:
        layer = Layer.of(message)
        strict = bool(self.verify) or self.topics is not None or self.raw is False
        if not strict:
            job = inner_job(layer)
            if job is not None:
                return job
        if self.raw is not True:
            value: Any = None
            try:
                value = layer.json()
            except UndecodableMessageError:
                if strict:
                    raise
            wrapped = readers.is_sns_notification(value) or readers.is_sns_control(value)
            if strict or wrapped:
                layer = open_sns(layer, value)
                self._check_topic(layer)
        return self._open_inside(layer)

    def _open_inside(self, layer: Layer) -> Opened:
        if self.inner is not None:
            return self.inner.open_inside(layer)
        if layer.envelopes or self.raw is None:
            return open_layer(layer)
        # Raw delivery: what looks like SNS's envelope was published like that.
        value = None if (job := inner_job(layer)) else layer.json()
        if job is not None:
            return job
        if readers.is_sns_notification(value) or readers.is_sns_control(value):
            return open_plain(layer, value)
        return open_layer(layer)

    def _check_topic(self, layer: Layer) -> None:
        sns = layer.sns
        if self.topics is not None and sns is not None and sns.topic_arn not in self.topics:
            raise UndecodableMessageError(
                f"message {layer.message.message_id} comes from topic {sns.topic_arn}, which is none of the "
                "queue's topics="
            )

    def check(self, opened: Opened) -> None:
        """Check the signature, if that was asked for.

        :raises SignatureError: it is wrong or absent; permanent.
        :raises SigningCertificateError: the certificate cannot be fetched now; temporary.
        """
        if self.verify is False:
            return
        assert not isinstance(self.verify, bool)
        notification = next(iter(opened.envelopes), None)
        self.verify.check(notification, _message_id(opened))


def _message_id(opened: Opened) -> str:
    if isinstance(opened, (IncomingEvent, OwnJob)) and opened.message is not None:
        return opened.message.message_id
    return ""


_BY_NAME = {"auto": AutoEnvelope, "sns": SNSEnvelope, "eventbridge": EventBridgeEnvelope, "s3": S3Event}


def envelope_policy(envelope: Any, where: str) -> Envelope | None:
    """The policy that ``envelope`` names or is.

    :raises ConfigurationError: it is none; names ``where``.
    """
    if envelope is None:
        return None
    if isinstance(envelope, str) and envelope in _BY_NAME:
        made: Envelope = _BY_NAME[envelope]()
        return made
    if isinstance(envelope, type) or not isinstance(envelope, Envelope):
        raise ConfigurationError(
            f"envelope of {where} must be {', '.join(map(repr, _BY_NAME))} or an envelope such as "
            f"SNSEnvelope(), not {envelope!r:.80}"
        )
    return envelope
