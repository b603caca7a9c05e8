"""Operations on queues: create, look up, list, configure, purge, delete.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_PurgeQueue.html
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.attributes import (
    COMPUTED_ATTRIBUTES,
    QUEUE_ATTRIBUTES,
    QueueSettings,
    check_attributes,
    check_queue_name,
    defaults,
    same_value,
)
from sqs_workers.memory_sqs.faults import (
    Fault,
    duplicate_queue,
    invalid_attribute_name,
    invalid_attribute_value,
    invalid_parameter,
    no_such_queue,
    purge_in_progress,
    queue_deleted_recently,
)
from sqs_workers.memory_sqs.fifo_state import FifoQueue
from sqs_workers.memory_sqs.queue_state import QueueState, StandardQueue
from sqs_workers.memory_sqs.records import DELAYED, IN_FLIGHT, VISIBLE
from sqs_workers.memory_sqs.redrive import parse_redrive_policy
from sqs_workers.memory_sqs.tagging import check_tags

__all__ = [
    "create_queue",
    "delete_queue",
    "get_queue_attributes",
    "get_queue_url",
    "list_dead_letter_source_queues",
    "list_queues",
    "purge_queue",
    "set_queue_attributes",
]

_SETTLE_SECONDS = 60
_MAX_RESULTS = 1_000

Answer = dict[str, Any]


def create_queue(account: Account, params: Mapping[str, Any]) -> Answer:
    name = params["QueueName"]
    given = params.get("Attributes", {})
    fifo = given.get("FifoQueue", "").lower() == "true"
    check_queue_name(name, fifo)
    checked = check_attributes(given, fifo)
    existing = account.queues.get(name)
    if existing is not None:
        for attribute, value in checked.items():
            if not same_value(attribute, existing.settings.values.get(attribute, ""), value):
                raise duplicate_queue(attribute)
        return {"QueueUrl": account.url(name)}
    now = account.clock.monotonic()
    deleted_at = account.deleted_at.get(name)
    if deleted_at is not None and now < deleted_at + _SETTLE_SECONDS:
        raise queue_deleted_recently()
    tags = params.get("tags", {})
    check_tags(tags, name)
    values = _merge(defaults(fifo), checked)
    _check_redrive(account, account.arn(name), fifo, values, checked)
    kind = FifoQueue if fifo else StandardQueue
    queue = kind(name, account.arn(name), QueueSettings.of(values), account.lock)
    queue.tags = dict(tags)
    queue.created_s = queue.modified_s = int(account.clock.time())
    account.add_queue(queue)
    return {"QueueUrl": account.url(name)}


def set_queue_attributes(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    given = params["Attributes"]
    if "FifoQueue" in given and queue.fifo and given["FifoQueue"].lower() != "true":
        raise invalid_attribute_value("FifoQueue", "Modifying queue type is not supported.")
    checked = check_attributes(given, queue.fifo)
    values = _merge(queue.settings.values, checked)
    _check_redrive(account, queue.arn, queue.fifo, values, checked)
    queue.settings = QueueSettings.of(values)
    if "DelaySeconds" in checked:
        queue.apply_delay()
    queue.modified_s = int(account.clock.time())
    queue.notify()
    return {}


def _merge(present: Mapping[str, str], checked: Mapping[str, str]) -> dict[str, str]:
    values = {**present, **checked}
    if checked.get("KmsMasterKeyId") and "SqsManagedSseEnabled" not in checked:
        values["SqsManagedSseEnabled"] = "false"
    if values.get("KmsMasterKeyId") and values["SqsManagedSseEnabled"] == "true":
        raise Fault(
            "InvalidAttributeName",
            "You can use one type of server-side encryption (SSE) at one time. "
            "You can either enable KMS SSE or SQS SSE.",
        )
    per_group = values.get("DeduplicationScope") == "messageGroup"
    if values.get("FifoThroughputLimit") == "perMessageGroupId" and not per_group:
        raise invalid_attribute_value(
            "FifoThroughputLimit",
            "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
            "messageGroup.",
        )
    return {name: value for name, value in values.items() if value != ""}


def _check_redrive(
    account: Account, arn: str, fifo: bool, values: Mapping[str, str], checked: Mapping[str, str]
) -> None:
    text = checked.get("RedrivePolicy")
    if not text:
        return

    def refuse(reason: str) -> Fault:
        return invalid_parameter(f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}")

    target_arn = parse_redrive_policy(text).target_arn
    target = account.queue_by_arn(target_arn)
    if target_arn == arn:
        raise refuse("A queue cannot be its own dead-letter queue.")
    if target is None:
        raise refuse("Dead letter target does not exist.")
    if target.fifo != fifo:
        raise refuse("Dead-letter queue must be same type of queue as the source.")
    if not target.settings.allow.allows(arn):
        raise refuse(
            f"Dead letter target {target.name} does not allow this queue as a source (RedriveAllowPolicy)."
        )


def get_queue_url(account: Account, params: Mapping[str, Any]) -> Answer:
    owner = params.get("QueueOwnerAWSAccountId", account.account_id)
    name = params["QueueName"]
    if name not in account.queues or owner != account.account_id:
        raise no_such_queue()
    return {"QueueUrl": account.url(name)}


def delete_queue(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    account.drop_queue(queue, account.clock.monotonic())
    return {}


def purge_queue(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    now = account.clock.monotonic()
    if queue.purged_at is not None and now < queue.purged_at + _SETTLE_SECONDS:
        raise purge_in_progress(queue.name)
    queue.purged_at = now
    queue.purge()
    return {}


def get_queue_attributes(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    names = params.get("AttributeNames", [])
    for name in names:
        if name not in ("All", *COMPUTED_ATTRIBUTES, *QUEUE_ATTRIBUTES):
            raise invalid_attribute_name(name)
    queue.tick(account.clock.monotonic())
    values = _computed(queue) | dict(queue.settings.values)
    if "All" not in names:
        values = {name: value for name, value in values.items() if name in names}
    return {"Attributes": values} if values else {}


def _computed(queue: QueueState) -> dict[str, str]:
    return {
        "QueueArn": queue.arn,
        "ApproximateNumberOfMessages": str(queue.counts[VISIBLE]),
        "ApproximateNumberOfMessagesNotVisible": str(queue.counts[IN_FLIGHT]),
        "ApproximateNumberOfMessagesDelayed": str(queue.counts[DELAYED]),
        "CreatedTimestamp": str(queue.created_s),
        "LastModifiedTimestamp": str(queue.modified_s),
    }


def list_queues(account: Account, params: Mapping[str, Any]) -> Answer:
    prefix = params.get("QueueNamePrefix", "")
    names = sorted(name for name in account.queues if name.startswith(prefix))
    return _page(account, names, params, "QueueUrls")


def list_dead_letter_source_queues(account: Account, params: Mapping[str, Any]) -> Answer:
    target = account.queue_by_url(params["QueueUrl"])
    names = sorted(
        queue.name
        for queue in account.queues.values()
        if queue.settings.redrive is not None and queue.settings.redrive.target_arn == target.arn
    )
    answer = _page(account, names, params, "queueUrls")
    answer.setdefault("queueUrls", [])
    return answer


def _page(account: Account, names: list[str], params: Mapping[str, Any], key: str) -> Answer:
    limit = params.get("MaxResults")
    if limit is not None and not 1 <= limit <= _MAX_RESULTS:
        raise invalid_parameter(
            f"Value {limit} for parameter MaxResults is invalid. "
            f"Reason: MaxResults must be an integer between 1 and {_MAX_RESULTS}."
        )
    token = params.get("NextToken")
    if token is not None:
        if limit is None:
            raise invalid_parameter(
                "MaxResults is a mandatory parameter when you provide a value for NextToken."
            )
        names = [name for name in names if name > _decode_token(token)]
    page = names[: limit or _MAX_RESULTS]
    answer: Answer = {}
    if page:
        answer[key] = [account.url(name) for name in page]
    if limit is not None and len(names) > limit:
        answer["NextToken"] = base64.b64encode(page[-1].encode()).decode()
    return answer


def _decode_token(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode()
    except (ValueError, binascii.Error):
        raise invalid_parameter("Invalid or expired next token.") from None
