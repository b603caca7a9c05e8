"""Every way in which the backend refuses a request, with the code that SQS gives it.

The backend raises a :class:`Fault`, which costs no import of botocore and
becomes either a ``ClientError`` or an entry of ``Failed`` in a batch answer.

Codes: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
and the *Errors* of each operation's page.
"""

from __future__ import annotations

__all__ = [
    "Fault",
    "batch_entry_ids_not_distinct",
    "batch_request_too_long",
    "duplicate_queue",
    "empty_batch_request",
    "invalid_attribute_name",
    "invalid_attribute_value",
    "invalid_batch_entry_id",
    "invalid_message_contents",
    "invalid_parameter",
    "invalid_receipt_handle",
    "message_not_in_flight",
    "missing_parameter",
    "no_such_queue",
    "over_limit",
    "purge_in_progress",
    "queue_deleted_recently",
    "resource_not_found",
    "too_many_entries",
    "unsupported",
]

_LEGACY = "AWS.SimpleQueueService."


class Fault(Exception):
    """A request, or one entry of a batch, that SQS refuses.

    :ivar code: what botocore shows as ``Error.Code`` (the code of the query protocol).
    :ivar shape: the name of the error in the service model (``Error.QueryErrorCode``).
    :ivar message: the text of ``Error.Message``.
    :ivar status: the HTTP status of the answer.
    """

    def __init__(self, code: str, message: str, *, shape: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.shape = shape or code.removeprefix(_LEGACY)
        self.message = message
        self.status = status


def invalid_parameter(message: str) -> Fault:
    return Fault("InvalidParameterValue", message, shape="InvalidParameterValueException")


def missing_parameter(name: str) -> Fault:
    return Fault(
        "MissingParameter",
        f"The request must contain the parameter {name}.",
        shape="MissingRequiredParameterException",
    )


def no_such_queue() -> Fault:
    return Fault(
        _LEGACY + "NonExistentQueue", "The specified queue does not exist.", shape="QueueDoesNotExist"
    )


def duplicate_queue(attribute: str) -> Fault:
    message = f"A queue already exists with the same name and a different value for attribute {attribute}"
    return Fault("QueueAlreadyExists", message, shape="QueueNameExists")


def queue_deleted_recently() -> Fault:
    return Fault(
        _LEGACY + "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    )


def purge_in_progress(queue_name: str) -> Fault:
    return Fault(
        _LEGACY + "PurgeQueueInProgress",
        f"Only one PurgeQueue operation on {queue_name} is allowed every 60 seconds.",
        status=403,
    )


def invalid_attribute_name(name: str) -> Fault:
    return Fault("InvalidAttributeName", f"Unknown Attribute {name}.")


def invalid_attribute_value(name: str, reason: str = "") -> Fault:
    message = f"Invalid value for the parameter {name}." + (f" Reason: {reason}" if reason else "")
    return Fault("InvalidAttributeValue", message)


def invalid_message_contents(message: str) -> Fault:
    return Fault("InvalidMessageContents", message)


def invalid_receipt_handle(handle: str) -> Fault:
    return Fault(
        "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.'
    )


def message_not_in_flight(handle: str) -> Fault:
    return Fault(
        _LEGACY + "MessageNotInflight",
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The message is not in flight.",
    )


def over_limit(message: str) -> Fault:
    return Fault("OverLimit", message, status=403)


def unsupported(message: str) -> Fault:
    return Fault(_LEGACY + "UnsupportedOperation", message)


def resource_not_found(message: str) -> Fault:
    return Fault("ResourceNotFoundException", message, status=404)


def empty_batch_request(operation: str) -> Fault:
    return Fault(
        _LEGACY + "EmptyBatchRequest", f"There should be at least one {operation}RequestEntry in the request."
    )


def too_many_entries(count: int) -> Fault:
    return Fault(
        _LEGACY + "TooManyEntriesInBatchRequest",
        f"Maximum number of entries per request are 10. You have sent {count}.",
    )


def batch_entry_ids_not_distinct(entry_id: str) -> Fault:
    return Fault(_LEGACY + "BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")


def invalid_batch_entry_id() -> Fault:
    return Fault(
        _LEGACY + "InvalidBatchEntryId",
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
        "It can be at most 80 letters long.",
    )


def batch_request_too_long(limit: int, size: int) -> Fault:
    return Fault(
        _LEGACY + "BatchRequestTooLong",
        f"Batch requests cannot be longer than {limit} bytes. You have sent {size} bytes.",
    )
