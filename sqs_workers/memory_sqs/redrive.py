"""Redrive and redrive-allow policies: which queue is whose dead-letter queue.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from sqs_workers.memory_sqs.faults import Fault, invalid_parameter

__all__ = ["AllowPolicy", "RedrivePolicy", "parse_allow_policy", "parse_arn", "parse_redrive_policy"]

_ARN = re.compile(r"arn:[a-z0-9-]+:sqs:([a-z0-9-]+):(\d{12}):([A-Za-z0-9_-]+(?:\.fifo)?)")
_MAX_RECEIVE_COUNT = 1_000
_MAX_SOURCES = 10


@dataclass(frozen=True)
class RedrivePolicy:
    """Messages received more than ``max_receive_count`` times go to ``target_arn``."""

    target_arn: str
    max_receive_count: int


@dataclass(frozen=True)
class AllowPolicy:
    """Which queues may name this one as their dead-letter queue."""

    permission: str = "allowAll"
    source_arns: tuple[str, ...] = ()

    def allows(self, source_arn: str) -> bool:
        if self.permission == "byQueue":
            return source_arn in self.source_arns
        return self.permission == "allowAll"


def parse_arn(arn: str) -> tuple[str, str, str] | None:
    """Region, account and name of a queue's ARN, or ``None`` if it is not one."""
    found = _ARN.fullmatch(arn)
    return (found[1], found[2], found[3]) if found else None


def _refuse(name: str, value: str, reason: str) -> Fault:
    return invalid_parameter(f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def _load(name: str, value: str) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _refuse(name, value, "Redrive policy is not a valid JSON map.")
    return document


def parse_redrive_policy(value: str) -> RedrivePolicy:
    """:raises Fault: if it is not a JSON object with exactly the two parameters, in range."""
    name = "RedrivePolicy"
    document = _load(name, value)
    for parameter in ("deadLetterTargetArn", "maxReceiveCount"):
        if parameter not in document:
            raise _refuse(name, value, f"Redrive policy does not contain mandatory attribute: {parameter}.")
    unknown = sorted(document.keys() - {"deadLetterTargetArn", "maxReceiveCount"})
    if unknown:
        raise _refuse(name, value, f"Redrive policy contains an unknown attribute: {unknown[0]}.")
    target = document["deadLetterTargetArn"]
    if not isinstance(target, str) or parse_arn(target) is None:
        raise _refuse(name, value, "Invalid value for deadLetterTargetArn.")
    count = document["maxReceiveCount"]
    # SQS reads a number in a string, which many templates send, as a number.
    if isinstance(count, str) and re.fullmatch(r"[0-9]{1,5}", count):
        count = int(count)
    if type(count) is not int or not 1 <= count <= _MAX_RECEIVE_COUNT:
        raise _refuse(name, value, "Invalid value for maxReceiveCount: must be between 1 and 1000.")
    return RedrivePolicy(target, count)


def parse_allow_policy(value: str) -> AllowPolicy:
    """:raises Fault: unless it says allowAll, denyAll, or byQueue with 1 to 10 source queues."""
    name = "RedriveAllowPolicy"
    document = _load(name, value)
    unknown = sorted(document.keys() - {"redrivePermission", "sourceQueueArns"})
    if unknown:
        raise _refuse(name, value, f"Redrive allow policy contains an unknown attribute: {unknown[0]}.")
    permission = document.get("redrivePermission")
    if permission not in ("allowAll", "denyAll", "byQueue"):
        raise _refuse(name, value, "redrivePermission must be one of allowAll, denyAll and byQueue.")
    sources = document.get("sourceQueueArns", [])
    if not isinstance(sources, list) or not all(isinstance(arn, str) and parse_arn(arn) for arn in sources):
        raise _refuse(name, value, "Invalid value for sourceQueueArns.")
    if (permission == "byQueue") != bool(sources) or len(sources) > _MAX_SOURCES:
        raise _refuse(name, value, "sourceQueueArns takes 1 to 10 ARNs, with redrivePermission byQueue only.")
    return AllowPolicy(permission, tuple(sources))
