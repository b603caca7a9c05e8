"""Tags of a queue.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-tags.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.faults import invalid_parameter

__all__ = ["check_tags", "list_queue_tags", "tag_queue", "untag_queue"]

_MAX_TAGS = 50
_MAX_KEY = 128
_MAX_VALUE = 256


def check_tags(tags: Mapping[str, str], queue_name: str) -> None:
    """:raises Fault: for more than 50 tags in all, or a key or value that no tag may have."""
    if len(tags) > _MAX_TAGS:
        raise invalid_parameter(f"Too many tags added for queue {queue_name}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= _MAX_KEY:
            raise invalid_parameter(f"Tag keys must be between 1 and {_MAX_KEY} characters in length.")
        if len(value) > _MAX_VALUE:
            raise invalid_parameter(f"Tag values must be between 0 and {_MAX_VALUE} characters in length.")
        if key.lower().startswith("aws:"):
            raise invalid_parameter("Tag keys that start with aws: are reserved.")


def tag_queue(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    tags = params["Tags"]
    if not tags:
        raise invalid_parameter("The request must contain the parameter Tags.")
    merged = {**queue.tags, **tags}
    check_tags(tags, queue.name)
    check_tags(merged, queue.name)
    queue.tags = merged
    return {}


def untag_queue(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    for key in params["TagKeys"]:
        queue.tags.pop(key, None)
    return {}


def list_queue_tags(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    return {"Tags": dict(queue.tags)} if queue.tags else {}
