"""SendMessage and SendMessageBatch.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from sqs_workers.limits import MAX_DELAY_SECONDS, MAX_ID_LENGTH, MAX_MESSAGE_BYTES
from sqs_workers.memory_sqs import content
from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.batches import check_entries, failed_entry
from sqs_workers.memory_sqs.faults import (
    Fault,
    batch_request_too_long,
    invalid_parameter,
    missing_parameter,
)
from sqs_workers.memory_sqs.queue_state import QueueState
from sqs_workers.memory_sqs.records import Message, new_id

__all__ = ["check_id", "send_message", "send_message_batch"]

_ID = re.compile(rf"[!-~]{{1,{MAX_ID_LENGTH}}}")

Answer = dict[str, Any]


def check_id(parameter: str, value: str) -> None:
    """:raises Fault: unless it is 1 to 128 letters, digits and punctuation characters."""
    if not _ID.fullmatch(value):
        raise invalid_parameter(
            f"Value {value} for parameter {parameter} is invalid. Reason: {parameter} can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length."
        )


def send_message(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    if queue.fifo and "MessageGroupId" not in params:
        raise missing_parameter("MessageGroupId")
    message, delay, _ = _prepare(queue, params)
    now = account.clock.monotonic()
    queue.tick(now)
    answer = _commit(account, queue, message, delay, params, now)
    queue.notify()
    return answer


def send_message_batch(account: Account, params: Mapping[str, Any]) -> Answer:
    queue = account.queue_by_url(params["QueueUrl"])
    entries = check_entries("SendMessageBatch", params)
    prepared: list[tuple[Message, float] | Fault] = []
    total = 0
    for entry in entries:
        if queue.fifo:
            _check_fifo_entry(queue, entry)
        try:
            message, delay, size = _prepare(queue, entry)
            prepared.append((message, delay))
        except Fault as fault:
            prepared.append(fault)
            size = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
        total += size
    if total > MAX_MESSAGE_BYTES:
        raise batch_request_too_long(MAX_MESSAGE_BYTES, total)
    now = account.clock.monotonic()
    queue.tick(now)
    successful: list[Answer] = []
    failed: list[Answer] = []
    for entry, result in zip(entries, prepared, strict=True):
        if isinstance(result, Fault):
            failed.append(failed_entry(entry["Id"], result))
        else:
            answer = _commit(account, queue, result[0], result[1], entry, now)
            successful.append({"Id": entry["Id"], **answer})
    if successful:
        queue.notify()
    return _batch_answer(successful, failed)


def _batch_answer(successful: list[Answer], failed: list[Answer]) -> Answer:
    answer: Answer = {}
    if successful:
        answer["Successful"] = successful
    if failed:
        answer["Failed"] = failed
    return answer


def _check_fifo_entry(queue: QueueState, entry: Mapping[str, Any]) -> None:
    # SQS refuses the batch as a whole for these two, with another code than for a single message.
    if "MessageGroupId" not in entry:
        raise invalid_parameter("The request must contain the parameter MessageGroupId.")
    if "MessageDeduplicationId" not in entry and not queue.settings.content_based:
        raise _no_deduplication()


def _no_deduplication() -> Fault:
    return invalid_parameter(
        "The queue should either have ContentBasedDeduplication enabled or "
        "MessageDeduplicationId provided explicitly"
    )


def _prepare(queue: QueueState, entry: Mapping[str, Any]) -> tuple[Message, float, int]:
    """The message, its delay in seconds, and its size in bytes.

    :raises Fault: for what SQS would not take.
    """
    body = entry["MessageBody"]
    data = content.check_body(body)
    message = Message(new_id(), body, content.md5_of_text(data))
    size = len(data)
    attributes = entry.get("MessageAttributes")
    if attributes:
        message.attributes = content.check_attributes(attributes)
        message.md5_of_attributes = content.md5_of_attributes(message.attributes)
        size += content.attributes_size(message.attributes)
    if size > queue.settings.max_bytes:
        raise invalid_parameter(
            f"One or more parameters are invalid. Reason: Message must be shorter than "
            f"{queue.settings.max_bytes} bytes."
        )
    system = entry.get("MessageSystemAttributes")
    if system:
        message.trace_header = content.check_trace_header(system)
    group_id = entry.get("MessageGroupId")
    if group_id is not None:
        check_id("MessageGroupId", group_id)
        message.group_id = group_id
    delay = entry.get("DelaySeconds")
    if queue.fifo:
        message.deduplication_id = _deduplication_id(queue, entry, data)
        return message, _fifo_delay(queue, delay), size
    if "MessageDeduplicationId" in entry:
        raise invalid_parameter(
            f"Value {entry['MessageDeduplicationId']} for parameter MessageDeduplicationId is invalid. "
            "Reason: The request includes a parameter that is not valid for this queue type."
        )
    if delay is None:
        return message, queue.settings.delay, size
    if not 0 <= delay <= MAX_DELAY_SECONDS:
        raise invalid_parameter(
            f"Value {delay} for parameter DelaySeconds is invalid. "
            f"Reason: DelaySeconds must be >= 0 and <= {MAX_DELAY_SECONDS}."
        )
    return message, delay, size


def _fifo_delay(queue: QueueState, delay: int | None) -> int:
    if delay:
        raise invalid_parameter(
            f"Value {delay} for parameter DelaySeconds is invalid. "
            "Reason: The request include parameter that is not valid for this queue type."
        )
    return queue.settings.delay


def _deduplication_id(queue: QueueState, entry: Mapping[str, Any], data: bytes) -> str:
    given = entry.get("MessageDeduplicationId")
    if given is not None:
        check_id("MessageDeduplicationId", given)
        return str(given)
    if not queue.settings.content_based:
        raise _no_deduplication()
    return hashlib.sha256(data).hexdigest()


def _commit(
    account: Account, queue: QueueState, message: Message, delay: float, entry: Mapping[str, Any], now: float
) -> Answer:
    answer: Answer = {"MD5OfMessageBody": message.md5_of_body, "MessageId": message.id}
    if message.md5_of_attributes is not None:
        answer["MD5OfMessageAttributes"] = message.md5_of_attributes
    if message.trace_header is not None:
        answer["MD5OfMessageSystemAttributes"] = content.md5_of_attributes(entry["MessageSystemAttributes"])
    key = None
    if queue.fifo:
        scope = message.group_id if queue.settings.per_group else ""
        key = (scope or "", message.deduplication_id or "")
        first = queue.deduplication.find(key, now)
        if first is not None:
            answer["MessageId"], answer["SequenceNumber"] = first
            return answer
    message.sent_ms = account.now_ms()
    message.enqueued_at = now
    queue.put(message, now, delay)
    if key is not None:
        queue.deduplication.remember(key, message.id, message.sequence, now)
        answer["SequenceNumber"] = message.sequence
    return answer
