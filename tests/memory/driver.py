"""Short words for what the tests of the backend do over and over."""

from __future__ import annotations

import json
from typing import Any

import pytest


def receive(client: Any, url: str, limit: int = 10, **kwargs: Any) -> list[dict[str, Any]]:
    answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=limit, AttributeNames=["All"], **kwargs)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def counts(client: Any, url: str) -> tuple[int, int, int]:
    """Visible, in flight, delayed."""
    values = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return (
        int(values["ApproximateNumberOfMessages"]),
        int(values["ApproximateNumberOfMessagesNotVisible"]),
        int(values["ApproximateNumberOfMessagesDelayed"]),
    )


def arn(client: Any, url: str) -> str:
    value: str = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    return value


def redrive(client: Any, dead_letter_url: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn(client, dead_letter_url), "maxReceiveCount": receives})


def refused(code: str, match: str = "") -> Any:
    """Expect a ClientError with that code and a message that contains ``match``."""
    from botocore.exceptions import ClientError

    class _Refused:
        def __enter__(self) -> Any:
            self.raises = pytest.raises(ClientError)
            self.info = self.raises.__enter__()
            return self.info

        def __exit__(self, *exc_info: Any) -> bool:
            suppressed = self.raises.__exit__(*exc_info)
            error = self.info.value.response["Error"]
            assert error["Code"] == code, error
            assert match in error["Message"], error
            return bool(suppressed)

    return _Refused()
