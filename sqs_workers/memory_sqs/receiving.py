"""ReceiveMessage, waiting and not waiting.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_VISIBILITY_TIMEOUT, MAX_WAIT_SECONDS
from sqs_workers.memory_sqs.account import Account, ReceiveAttempt, dead_letter
from sqs_workers.memory_sqs.attributes import COMPUTED_ATTRIBUTES, QUEUE_ATTRIBUTES
from sqs_workers.memory_sqs.content import md5_of_attributes, pick_attributes
from sqs_workers.memory_sqs.faults import invalid_attribute_name, invalid_parameter, no_such_queue, over_limit
from sqs_workers.memory_sqs.move_tasks import next_step_due, run_tasks
from sqs_workers.memory_sqs.queue_state import QueueState
from sqs_workers.memory_sqs.records import IN_FLIGHT, Message, receipt
from sqs_workers.memory_sqs.sending import check_id

__all__ = ["ATTEMPT_SECONDS", "Poll", "poll", "receive_message"]

ATTEMPT_SECONDS = 300
"""Seconds during which a ReceiveRequestAttemptId returns the same messages again."""

SENDER_ID = "AIDAMEMORYSESSIONUSER"

_SYSTEM_ATTRIBUTES = (
    "SenderId",
    "ApproximateFirstReceiveTimestamp",
    "ApproximateReceiveCount",
    "SentTimestamp",
    "SequenceNumber",
    "MessageDeduplicationId",
    "MessageGroupId",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
)
# AttributeNames of a receive is typed as names of *queue* attributes: SQS takes those and
# returns nothing for them.
_KNOWN_NAMES = frozenset((*_SYSTEM_ATTRIBUTES, *COMPUTED_ATTRIBUTES, *QUEUE_ATTRIBUTES, "All"))


@dataclass(frozen=True)
class Poll:
    """The outcome of one look at a queue.

    :ivar answer: what ReceiveMessage returns; without ``Messages`` if there are none.
    :ivar wait_seconds: how long the request may wait, by its ``WaitTimeSeconds`` or the queue's attribute.
    :ivar next_in: seconds until a message may become visible by itself; ``None`` if none is hidden.
    """

    answer: dict[str, Any]
    wait_seconds: int
    next_in: float | None


@dataclass(frozen=True)
class _Request:
    queue: QueueState
    limit: int
    visibility: int
    wait: int
    names: frozenset[str]
    attribute_names: list[str]
    attempt_id: str | None


def receive_message(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    """Look until there is a message or the wait is over. The lock is free while waiting."""
    request = _parse(account, params)
    queue, clock = request.queue, account.clock
    deadline = clock.monotonic() + request.wait
    wakes = queue.wakes
    while True:
        now = clock.monotonic()
        answer = _look(account, request, now)
        if answer or now >= deadline or queue.wakes != wakes:
            return answer
        due = _next_due(account, queue)
        until = deadline if due is None else min(deadline, max(due, now))
        queue.pollers += 1
        try:
            clock.wait(queue.changed, until - now)
        finally:
            queue.pollers -= 1
        if queue.deleted:
            raise no_such_queue()
        run_tasks(account)


def poll(account: Account, params: Mapping[str, Any]) -> Poll:
    """Look once."""
    request = _parse(account, params)
    now = account.clock.monotonic()
    answer = _look(account, request, now)
    due = None if answer else _next_due(account, request.queue)
    return Poll(answer, request.wait, None if due is None else max(0.0, due - now))


def _next_due(account: Account, queue: QueueState) -> float | None:
    due, step = queue.next_due(), next_step_due(account)
    if due is None or step is None:
        return due if step is None else step
    return min(due, step)


def _parse(account: Account, params: Mapping[str, Any]) -> _Request:
    queue = account.queue_by_url(params["QueueUrl"])
    limit = params.get("MaxNumberOfMessages", 1)
    if not 1 <= limit <= MAX_BATCH_ENTRIES:
        raise invalid_parameter(
            f"Value {limit} for parameter MaxNumberOfMessages is invalid. "
            f"Reason: Must be between 1 and {MAX_BATCH_ENTRIES}, if provided."
        )
    visibility = params.get("VisibilityTimeout", queue.settings.visibility)
    if not 0 <= visibility <= MAX_VISIBILITY_TIMEOUT:
        raise invalid_parameter(
            f"Value {visibility} for parameter VisibilityTimeout is invalid. "
            f"Reason: Must be >= 0 and <= {MAX_VISIBILITY_TIMEOUT}, if provided."
        )
    wait = params.get("WaitTimeSeconds", queue.settings.wait)
    if not 0 <= wait <= MAX_WAIT_SECONDS:
        raise invalid_parameter(
            f"Value {wait} for parameter WaitTimeSeconds is invalid. "
            f"Reason: Must be >= 0 and <= {MAX_WAIT_SECONDS}, if provided."
        )
    attempt_id = params.get("ReceiveRequestAttemptId")
    if attempt_id is not None:
        if not queue.fifo:
            raise invalid_parameter(
                f"Value {attempt_id} for parameter ReceiveRequestAttemptId is invalid. "
                "Reason: The request includes a parameter that is not valid for this queue type."
            )
        check_id("ReceiveRequestAttemptId", attempt_id)
    names = frozenset((*params.get("AttributeNames", ()), *params.get("MessageSystemAttributeNames", ())))
    unknown = names - _KNOWN_NAMES
    if unknown:
        raise invalid_attribute_name(min(unknown))
    return _Request(
        queue, limit, visibility, wait, names, params.get("MessageAttributeNames", []), attempt_id
    )


def _look(account: Account, request: _Request, now: float) -> dict[str, Any]:
    queue = request.queue
    queue.tick(now)
    messages = None
    if request.attempt_id is not None:
        messages = _replay(account, request, request.attempt_id, now)
    if messages is None:
        messages = _take(account, request, now)
        if messages and request.attempt_id is not None:
            _remember(account, request, request.attempt_id, messages, now)
    if not messages:
        return {}
    return {"Messages": [_render(queue, message, request) for message in messages]}


def _take(account: Account, request: _Request, now: float) -> list[Message]:
    queue = request.queue
    limit = min(request.limit, account.max_in_flight - queue.counts[IN_FLIGHT])
    if limit <= 0:
        # FIFO queues and long polls get no error, and no messages:
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
        if queue.fifo or request.wait:
            return []
        raise over_limit("The maximum number of in flight messages is reached.")

    def dead(message: Message) -> bool:
        return dead_letter(account, queue, message, now)

    messages = queue.take(now, limit, request.visibility, dead if queue.settings.redrive else None)
    if messages:
        now_ms = account.now_ms()
        for message in messages:
            if message.first_received_ms is None:
                message.first_received_ms = now_ms
    return messages


def _replay(account: Account, request: _Request, attempt_id: str, now: float) -> list[Message] | None:
    """The messages of an earlier receive with this id, hidden anew, if nothing happened to them since."""
    key = (request.queue.uid, attempt_id)
    attempt = account.attempts.get(key)
    if attempt is None:
        return None
    untouched = now < attempt.until and all(
        message.state == IN_FLIGHT and message.receives == receives and message.due == due
        for message, receives, due in zip(attempt.messages, attempt.receives, attempt.dues, strict=True)
    )
    if not untouched:
        del account.attempts[key]
        return None
    for message in attempt.messages:
        request.queue.hide_until(message, now + attempt.visibility)
    attempt.dues = [message.due for message in attempt.messages]
    return attempt.messages


def _remember(
    account: Account, request: _Request, attempt_id: str, messages: list[Message], now: float
) -> None:
    attempts = account.attempts
    while attempts and next(iter(attempts.values())).until <= now:
        attempts.popitem(last=False)
    attempts[request.queue.uid, attempt_id] = ReceiveAttempt(
        until=now + ATTEMPT_SECONDS,
        visibility=request.visibility,
        messages=messages,
        receives=[message.receives for message in messages],
        dues=[message.due for message in messages],
    )


def _render(queue: QueueState, message: Message, request: _Request) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": receipt(queue.uid, message),
        "MD5OfBody": message.md5_of_body,
        "Body": message.body,
    }
    if request.names:
        system = _system_attributes(message, queue)
        if "All" not in request.names:
            system = {name: value for name, value in system.items() if name in request.names}
        if system:
            answer["Attributes"] = system
    if message.attributes and request.attribute_names:
        picked = pick_attributes(message.attributes, request.attribute_names)
        if picked:
            whole = len(picked) == len(message.attributes)
            answer["MD5OfMessageAttributes"] = (
                message.md5_of_attributes if whole else md5_of_attributes(picked)
            )
            answer["MessageAttributes"] = {name: dict(value) for name, value in picked.items()}
    return answer


def _system_attributes(message: Message, queue: QueueState) -> dict[str, str]:
    values = {
        "SenderId": SENDER_ID,
        "ApproximateFirstReceiveTimestamp": str(message.first_received_ms),
        "ApproximateReceiveCount": str(message.receive_count),
        "SentTimestamp": str(message.sent_ms),
    }
    if queue.fifo:
        values["SequenceNumber"] = message.sequence
        values["MessageDeduplicationId"] = message.deduplication_id or ""
    if message.group_id is not None:
        values["MessageGroupId"] = message.group_id
    if message.trace_header is not None:
        values["AWSTraceHeader"] = message.trace_header
    if message.source_arn is not None:
        values["DeadLetterQueueSourceArn"] = message.source_arn
    return values
