"""JSON values as envelopes: which one a value is, decided by its whole structure, and its content."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from sqs_workers.envelopes.kinds import EventBridgeEvent, S3Notification, S3Record, SNSNotification
from sqs_workers.envelopes.shapes import as_time, has_texts, is_object, optional_text, text_of
from sqs_workers.exceptions import UndecodableMessageError

__all__ = [
    "is_eventbridge_event",
    "is_s3_notification",
    "is_s3_test_event",
    "is_sns_control",
    "is_sns_notification",
    "read_eventbridge",
    "read_s3",
    "read_sns",
    "s3_event_id",
    "s3_identity",
]

SIGNED_MEMBERS = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_SIGNATURE_MEMBERS = ("SignatureVersion", "Signature", "SigningCertURL")


def _is_sns(value: Any, *types: str) -> bool:
    return (
        is_object(value)
        and has_texts(value, "Type", "MessageId", "TopicArn", "Message", "Timestamp")
        and value["Type"] in types
        and is_arn(value["TopicArn"], "sns")
    )


def is_arn(text: str, service: str) -> bool:
    """Whether it is the ARN of something of a service, in any partition."""
    parts = text.split(":")
    return len(parts) >= 6 and parts[0] == "arn" and parts[1].startswith("aws") and parts[2] == service


def is_sns_notification(value: Any) -> bool:
    """Whether SNS has put its envelope around something published."""
    return _is_sns(value, "Notification")


def is_sns_control(value: Any) -> bool:
    """Whether SNS asks to confirm that a subscription begins or ends."""
    return _is_sns(value, "SubscriptionConfirmation", "UnsubscribeConfirmation")


def read_sns(value: Mapping[str, Any], what: str) -> SNSNotification:
    """The envelope of SNS.

    :raises UndecodableMessageError: a member is malformed.
    """
    subject = value.get("Subject")
    if subject is not None and not isinstance(subject, str):
        raise UndecodableMessageError(f"{what} has a Subject that is no text")
    timestamp = as_time(value["Timestamp"], f"the Timestamp of {what}")
    assert timestamp is not None
    signed = {
        name: value[name]
        for name in (*SIGNED_MEMBERS, *_SIGNATURE_MEMBERS)
        if isinstance(value.get(name), str)
    }
    return SNSNotification(
        message_id=value["MessageId"],
        topic_arn=value["TopicArn"],
        message=value["Message"],
        timestamp=timestamp,
        subject=subject,
        attributes=_sns_attributes(value.get("MessageAttributes"), what),
        signed=signed,
    )


def _sns_attributes(attributes: Any, what: str) -> dict[str, dict[str, Any]]:
    if attributes is None:
        return {}
    if not is_object(attributes):
        raise UndecodableMessageError(f"the MessageAttributes of {what} are no object")
    found: dict[str, dict[str, Any]] = {}
    for name, attribute in attributes.items():
        if not is_object(attribute) or not has_texts(attribute, "Type", "Value"):
            raise UndecodableMessageError(f"a message attribute of {what} has no Type and Value")
        if attribute["Type"].startswith("Binary"):
            try:
                value = base64.b64decode(attribute["Value"], validate=True)
            except (binascii.Error, ValueError):
                raise UndecodableMessageError(f"a binary attribute of {what} is no base64") from None
            found[name] = {"DataType": attribute["Type"], "BinaryValue": value}
        else:
            found[name] = {"DataType": attribute["Type"], "StringValue": attribute["Value"]}
    return found


def is_eventbridge_event(value: Any) -> bool:
    """Whether it is an event as EventBridge, or CloudWatch Events, writes it."""
    return (
        is_object(value)
        and has_texts(value, "version", "id", "detail-type", "source", "account", "time", "region")
        and bool(value["id"])
        and isinstance(value.get("resources"), list)
        and is_object(value.get("detail"))
    )


def read_eventbridge(value: Mapping[str, Any], what: str) -> EventBridgeEvent:
    """The event.

    :raises UndecodableMessageError: a member is malformed.
    """
    time = as_time(value["time"], f"the time of {what}")
    assert time is not None
    if not all(isinstance(resource, str) for resource in value["resources"]):
        raise UndecodableMessageError(f"the resources of {what} are no texts")
    replay = value.get("replay-name")
    return EventBridgeEvent(
        id=value["id"],
        source=value["source"],
        detail_type=value["detail-type"],
        account=value["account"],
        time=time,
        region=value["region"],
        resources=tuple(value["resources"]),
        detail=value["detail"],
        version=value["version"],
        replay_name=replay if isinstance(replay, str) else None,
    )


def is_s3_test_event(value: Any) -> bool:
    """Whether S3 tries out a notification that was just configured."""
    return (
        is_object(value)
        and has_texts(value, "Service", "Event", "Time", "Bucket")
        and value["Service"] == "Amazon S3"
        and value["Event"] == "s3:TestEvent"
    )


def is_s3_notification(value: Any) -> bool:
    """Whether it is a notification of S3."""
    records = value.get("Records") if is_object(value) else None
    return isinstance(records, list) and bool(records) and all(_is_s3_record(record) for record in records)


def _is_s3_record(record: Any) -> bool:
    if not is_object(record) or not has_texts(record, "eventSource", "eventName", "eventTime"):
        return False
    s3 = record.get("s3")
    if record["eventSource"] != "aws:s3" or not is_object(s3):
        return False
    bucket, entry = s3.get("bucket"), s3.get("object")
    return is_object(bucket) and is_object(entry) and has_texts(bucket, "name") and has_texts(entry, "key")


def read_s3(value: Mapping[str, Any], what: str) -> S3Notification:
    """The notification, keys decoded.

    :raises UndecodableMessageError: a member is malformed.
    """
    return S3Notification(tuple(_read_s3_record(record, what) for record in value["Records"]))


def _read_s3_record(record: Mapping[str, Any], what: str) -> S3Record:
    s3 = record["s3"]
    entry = s3["object"]
    size = entry.get("size")
    time = as_time(text_of(record, "eventTime", what), f"the eventTime of {what}")
    assert time is not None
    return S3Record(
        event_name=record["eventName"],
        time=time,
        region=optional_text(record.get("awsRegion")),
        bucket=s3["bucket"]["name"],
        bucket_arn=optional_text(s3["bucket"].get("arn")),
        key=unquote_plus(entry["key"]),
        size=size if isinstance(size, int) and not isinstance(size, bool) else None,
        etag=optional_text(entry.get("eTag")) or None,
        version_id=optional_text(entry.get("versionId")) or None,
        sequencer=optional_text(entry.get("sequencer")) or None,
        configuration_id=optional_text(s3.get("configurationId")) or None,
        raw=record,
    )


def s3_identity(notification: S3Notification) -> list[list[str | None]]:
    """What two deliveries of one notification have in common; S3 gives it no id.

    The sequencer is that of the change. Events without one are told apart by their time.
    """
    return [
        [
            record.bucket,
            record.key,
            record.version_id,
            record.event_name,
            record.sequencer or record.time.isoformat(),
        ]
        for record in notification.records
    ]


def s3_event_id(notification: S3Notification) -> str:
    """A stable id, made of :func:`s3_identity`."""
    digest = hashlib.sha256(repr(s3_identity(notification)).encode("utf-8", "surrogatepass"))
    return f"s3:{digest.hexdigest()}"
