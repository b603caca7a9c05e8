"""Attributes of a queue: names, ranges, defaults, and what the state machine needs of them.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqs_workers.limits import (
    DEFAULT_VISIBILITY_TIMEOUT,
    MAX_DELAY_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_QUEUE_NAME_LENGTH,
    MAX_VISIBILITY_TIMEOUT,
    MAX_WAIT_SECONDS,
)
from sqs_workers.memory_sqs.faults import (
    Fault,
    invalid_attribute_name,
    invalid_attribute_value,
    invalid_parameter,
)
from sqs_workers.memory_sqs.redrive import (
    AllowPolicy,
    RedrivePolicy,
    parse_allow_policy,
    parse_redrive_policy,
)

__all__ = [
    "COMPUTED_ATTRIBUTES",
    "QUEUE_ATTRIBUTES",
    "QueueSettings",
    "check_attributes",
    "check_queue_name",
    "defaults",
    "same_value",
]

_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")

_RANGES: dict[str, tuple[int, int]] = {
    "DelaySeconds": (0, MAX_DELAY_SECONDS),
    "MaximumMessageSize": (1_024, MAX_MESSAGE_BYTES),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, MAX_WAIT_SECONDS),
    "VisibilityTimeout": (0, MAX_VISIBILITY_TIMEOUT),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}

_FIFO_ONLY: dict[str, tuple[str, ...]] = {
    "FifoQueue": ("true",),
    "ContentBasedDeduplication": ("true", "false"),
    "DeduplicationScope": ("messageGroup", "queue"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}

COMPUTED_ATTRIBUTES = (
    "QueueArn",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
)
"""Attributes that can be read and never set."""

QUEUE_ATTRIBUTES = (
    *_RANGES,
    *_FIFO_ONLY,
    "SqsManagedSseEnabled",
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
)
"""Attributes that can be set."""

_OPTIONAL = (
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
)


@dataclass(frozen=True)
class QueueSettings:
    """The attributes of a queue as numbers, for the state machine. Seconds and bytes."""

    values: Mapping[str, str]
    visibility: int
    delay: int
    wait: int
    max_bytes: int
    retention: int
    redrive: RedrivePolicy | None
    allow: AllowPolicy
    content_based: bool
    per_group: bool

    @classmethod
    def of(cls, values: Mapping[str, str]) -> QueueSettings:
        redrive = values.get("RedrivePolicy")
        allow = values.get("RedriveAllowPolicy")
        return cls(
            values=dict(values),
            visibility=int(values["VisibilityTimeout"]),
            delay=int(values["DelaySeconds"]),
            wait=int(values["ReceiveMessageWaitTimeSeconds"]),
            max_bytes=int(values["MaximumMessageSize"]),
            retention=int(values["MessageRetentionPeriod"]),
            redrive=parse_redrive_policy(redrive) if redrive else None,
            allow=parse_allow_policy(allow) if allow else AllowPolicy(),
            content_based=values.get("ContentBasedDeduplication") == "true",
            per_group=values.get("DeduplicationScope") == "messageGroup",
        )


def check_queue_name(name: str, fifo: bool) -> None:
    """:raises Fault: unless ``name`` may be the name of such a queue."""
    valid = 0 < len(name) <= MAX_QUEUE_NAME_LENGTH and _QUEUE_NAME.fullmatch(name)
    if fifo and not (valid and name.endswith(".fifo")):
        raise invalid_parameter(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
            "must end with .fifo suffix and be 1 to 80 in length"
        )
    if not valid or name.endswith(".fifo") != fifo:
        raise invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def defaults(fifo: bool) -> dict[str, str]:
    """The attributes of a queue created without any."""
    values = {
        "VisibilityTimeout": str(DEFAULT_VISIBILITY_TIMEOUT),
        "MaximumMessageSize": str(MAX_MESSAGE_BYTES),
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
    }
    if fifo:
        values |= {
            "FifoQueue": "true",
            "ContentBasedDeduplication": "false",
            "DeduplicationScope": "queue",
            "FifoThroughputLimit": "perQueue",
        }
    return values


def check_attributes(given: Mapping[str, str], fifo: bool) -> dict[str, str]:
    """The attributes in the form in which they are stored.

    Optional attributes set to an empty string are taken away from the queue,
    as SQS does: their value in the answer is empty.

    :raises Fault: for an unknown name, a value out of range, or a name that this type of queue lacks.
    """
    return {name: _check(name, value, fifo) for name, value in given.items()}


def _check(name: str, value: str, fifo: bool) -> str:
    if name in _FIFO_ONLY:
        return _check_fifo_only(name, value, fifo)
    if name in _OPTIONAL and value == "":
        return ""
    if name in _RANGES:
        return _check_range(name, value)
    if name == "SqsManagedSseEnabled":
        return _check_choice(name, value.lower(), ("true", "false"))
    parser = _JSON.get(name)
    if parser is not None:
        parser(value)
        return value
    if name == "KmsMasterKeyId":
        return value
    raise invalid_attribute_name(name)


def _check_fifo_only(name: str, value: str, fifo: bool) -> str:
    if not fifo:
        raise invalid_attribute_name(name)
    if name == "FifoQueue" and value.lower() == "false":
        raise invalid_attribute_value(name, "Modifying queue type is not supported.")
    lowered = value.lower() if name in ("FifoQueue", "ContentBasedDeduplication") else value
    return _check_choice(name, lowered, _FIFO_ONLY[name])


def _check_range(name: str, value: str) -> str:
    low, high = _RANGES[name]
    if not re.fullmatch(r"[0-9]{1,10}", value) or not low <= int(value) <= high:
        raise invalid_attribute_value(name)
    return str(int(value))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise invalid_attribute_value(name)
    return value


def same_value(name: str, one: str, other: str) -> bool:
    """Whether two checked values of an attribute mean the same; in JSON, layout does not matter."""
    if one == other or not one or not other:
        return one == other
    parser = _JSON.get(name)
    return parser is not None and parser(one) == parser(other)


def _check_policy(value: str) -> object:
    fault: Fault = invalid_attribute_value("Policy")
    try:
        document = json.loads(value)
    except ValueError:
        raise fault from None
    if not isinstance(document, dict) or "Statement" not in document:
        raise fault
    return document


_JSON: dict[str, Callable[[str], object]] = {
    "Policy": _check_policy,
    "RedrivePolicy": parse_redrive_policy,
    "RedriveAllowPolicy": parse_allow_policy,
}
