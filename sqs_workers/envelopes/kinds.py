"""What AWS wraps around events, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

__all__ = ["EnvelopeKind", "EventBridgeEvent", "S3Notification", "S3Record", "SNSNotification"]


@dataclass(frozen=True, slots=True)
class SNSNotification:
    """The JSON that SNS puts around what was published, unless raw delivery is on.

    https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html

    :ivar message_id: the same in every queue that the publication goes to, and in every repetition.
    :ivar message: what was published.
    :ivar subject: the subject that was given to it, or ``None``.
    :ivar attributes: in boto3's shape: ``{"kind": {"DataType": "String", "StringValue": "paid"}}``.
    :ivar signed: the members that the signature covers, and the signature.
    """

    message_id: str
    topic_arn: str
    message: str = field(repr=False)
    timestamp: datetime
    subject: str | None = None
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    signed: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class EventBridgeEvent:
    """An event of EventBridge, or CloudWatch Events as it was called before.

    https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html

    :ivar id: given by EventBridge: the same in every delivery, another one each time the event is *put*.
    :ivar detail: what the source says.
    """

    id: str
    source: str
    detail_type: str
    account: str
    time: datetime
    region: str
    resources: tuple[str, ...]
    detail: Mapping[str, Any] = field(repr=False)
    version: str = "0"
    replay_name: str | None = None

    @property
    def is_scheduled(self) -> bool:
        """Whether a schedule of a rule, or of CloudWatch Events, made it."""
        return self.source == "aws.events" and self.detail_type == "Scheduled Event"


@dataclass(frozen=True, slots=True)
class S3Record:
    """What happened to one object.

    :ivar event_name: for instance ``ObjectCreated:Put``.
    :ivar key: decoded: S3 writes ``my file`` as ``my+file``.
    :ivar size: bytes; ``None`` for a removal.
    :ivar version_id: of a bucket with versions, or ``None``.
    :ivar sequencer: orders the events of one key: compare as text of equal length, filled with zeros on the
        right.
    :ivar raw: the record as S3 sent it.
    """

    event_name: str
    time: datetime
    region: str
    bucket: str
    bucket_arn: str
    key: str
    size: int | None = None
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None
    configuration_id: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class S3Notification:
    """An event notification of S3.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html

    :ivar records: one, as far as S3's own deliveries go; the format allows for more.
    """

    records: tuple[S3Record, ...]

    @property
    def record(self) -> S3Record:
        """The first record."""
        return self.records[0]

    @property
    def event_name(self) -> str:
        """The records' event name; what they share before the colon if they differ, or an empty text."""
        names = {record.event_name for record in self.records}
        if len(names) == 1:
            return names.pop()
        families = {name.partition(":")[0] for name in names}
        return families.pop() if len(families) == 1 else ""


EnvelopeKind: TypeAlias = SNSNotification | EventBridgeEvent | S3Notification
