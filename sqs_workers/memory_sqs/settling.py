"""DeleteMessage, ChangeMessageVisibility, and their batch forms.

Where the documentation leaves SQS a choice, the stricter one is taken:

- Deleting with a receipt handle that is not the newest one succeeds and deletes nothing on a
  standard queue ("the request will succeed, but the message might not be deleted").
- On a FIFO queue a receipt handle whose visibility timeout is over is refused as expired.
- Changing the visibility of a message whose timeout ran out answers 200 and leaves it visible;
  after the receiver itself released it, it is ``MessageNotInflight``.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT
from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.batches import Entry, for_each_entry
from sqs_workers.memory_sqs.faults import (
    Fault,
    invalid_parameter,
    invalid_receipt_handle,
    message_not_in_flight,
    missing_parameter,
)
from sqs_workers.memory_sqs.queue_state import QueueState
from sqs_workers.memory_sqs.records import IN_FLIGHT, Message, parse_receipt

__all__ = [
    "change_message_visibility",
    "change_message_visibility_batch",
    "delete_message",
    "delete_message_batch",
]


def delete_message(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    queue.tick(account.clock.monotonic())
    _delete(queue, params["ReceiptHandle"])
    return {}


def delete_message_batch(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    queue.tick(account.clock.monotonic())

    def act(entry: Entry) -> None:
        _delete(queue, entry["ReceiptHandle"])

    return for_each_entry("DeleteMessageBatch", params, act)


def change_message_visibility(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    now = account.clock.monotonic()
    queue.tick(now)
    _change(queue, params["ReceiptHandle"], params["VisibilityTimeout"], now)
    return {}


def change_message_visibility_batch(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    now = account.clock.monotonic()
    queue.tick(now)

    def act(entry: Entry) -> None:
        if "VisibilityTimeout" not in entry:
            raise missing_parameter("VisibilityTimeout")
        _change(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"], now)

    return for_each_entry("ChangeMessageVisibilityBatch", params, act)


def _find(queue: QueueState, handle: str) -> tuple[Message | None, int]:
    """The message, if it is still there, and which of its receives the handle is from."""
    found = parse_receipt(handle, queue.uid)
    if found is None or not 0 < found[0] <= queue.last_number:
        raise invalid_receipt_handle(handle)
    return queue.find(found[0]), found[1]


def _expired(handle: str) -> Fault:
    return invalid_parameter(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
    )


def _delete(queue: QueueState, handle: str) -> None:
    message, receives = _find(queue, handle)
    if message is None:
        return
    newest = message.receives == receives
    if queue.fifo:
        if not newest or message.state != IN_FLIGHT:
            raise _expired(handle)
        queue.remove(message)
        queue.notify()
    elif newest:
        queue.remove(message)


def _change(queue: QueueState, handle: str, timeout: int, now: float) -> None:
    if not 0 <= timeout <= MAX_VISIBILITY_TIMEOUT:
        raise invalid_parameter(
            f"Value {timeout} for parameter VisibilityTimeout is invalid. "
            f"Reason: VisibilityTimeout must be an integer between 0 and {MAX_VISIBILITY_TIMEOUT}."
        )
    message, receives = _find(queue, handle)
    if message is None or (message.receives != receives and not queue.fifo):
        raise invalid_parameter(
            f"Value {handle} for parameter ReceiptHandle is invalid. "
            "Reason: Message does not exist or is not available for visibility timeout change."
        )
    if queue.fifo and (message.receives != receives or message.state != IN_FLIGHT):
        raise _expired(handle)
    if message.state != IN_FLIGHT:
        if message.timed_out:
            return
        raise message_not_in_flight(handle)
    if now + timeout > message.received_at + MAX_VISIBILITY_TIMEOUT:
        raise invalid_parameter(
            f"Value {timeout} for parameter VisibilityTimeout is invalid. Reason: Total "
            f"VisibilityTimeout for the message is beyond the limit [{MAX_VISIBILITY_TIMEOUT} seconds]"
        )
    if timeout == 0:
        queue.release(message)
        queue.notify()
    else:
        queue.hide_until(message, now + timeout)
        if queue.pollers or queue.listeners:
            # A shortened timeout moves the moment for which pollers sleep.
            queue.notify()
