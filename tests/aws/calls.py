"""Batches of SQS as Lambda hands them to a function, and a context of Lambda's."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Context", "batch", "failures", "job", "record"]

QUEUE_ARN = "arn:aws:sqs:us-east-1:123456789012:jobs"


class Context:
    """A context whose clock a test moves.

    :ivar left: seconds until Lambda ends the function.
    """

    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:work"

    def __init__(self, left: float = 60.0) -> None:
        self.left = left

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left * 1000)


def record(message_id: str, body: Any, group: str | None = None, count: int = 1, **attributes: str) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    system = {"ApproximateReceiveCount": str(count), "SentTimestamp": "1545082649183"}
    if group is not None:
        system |= {"MessageGroupId": group, "SequenceNumber": "1", "MessageDeduplicationId": message_id}
    return {
        "messageId": message_id,
        "receiptHandle": f"receipt-{message_id}",
        "body": text,
        "attributes": system,
        "messageAttributes": {
            name: {"stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String"}
            for name, value in attributes.items()
        },
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN + (".fifo" if group is not None else ""),
        "awsRegion": "us-east-1",
    }


def job(message_id: str, name: str, group: str | None = None, count: int = 1, **arguments: Any) -> Any:
    return record(message_id, arguments, group, count, JobName=name, ContentType="json", JobContext="{}")


def batch(*records: Any) -> Any:
    return {"Records": list(records)}


def failures(*message_ids: str) -> Any:
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}
