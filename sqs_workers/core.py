"""The result of a batch, the redrive policy of a queue, and the name of a message's job."""

from __future__ import annotations

import json
from typing import Any

from sqs_workers.exceptions import ConfigurationError

__all__ = ["BatchProcessingResult", "RedrivePolicy", "get_job_name"]

MAX_RECEIVE_COUNT_LIMIT = 1000
"""Highest ``maxReceiveCount`` of a redrive policy.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html"""


class BatchProcessingResult:
    """What became of the messages that a worker took from one queue.

    Shutdown policies get it.

    :ivar queue_name: name of the queue as ``env.queue(...)`` takes it.
    :ivar succeeded: messages whose job succeeded.
    :ivar failed: messages whose job failed, asked for a retry, or was not run.
    """

    def __init__(
        self, queue_name: str, succeeded: list[Any] | None = None, failed: list[Any] | None = None
    ) -> None:
        self.queue_name = queue_name
        self.succeeded: list[Any] = [] if succeeded is None else succeeded
        self.failed: list[Any] = [] if failed is None else failed

    def update_with_message(self, message: Any, success: bool) -> None:
        """Add one message."""
        (self.succeeded if success else self.failed).append(message)

    def succeeded_count(self) -> int:
        """Number of messages whose job succeeded."""
        return len(self.succeeded)

    def failed_count(self) -> int:
        """Number of the other messages."""
        return len(self.failed)

    def total_count(self) -> int:
        """Number of all messages."""
        return len(self.succeeded) + len(self.failed)

    def __repr__(self) -> str:
        return f"<BatchProcessingResult/{self.queue_name}/{self.succeeded_count()}/{self.failed_count()}>"


class RedrivePolicy:
    """Where SQS moves a message that was received too often; for ``create_standard_queue`` and its kin.

    :param sqs_env: environment that knows the dead-letter queue.
    :param dead_letter_queue_name: its name, as ``env.queue(...)`` takes it.
    :param max_receive_count: 1 to 1,000; the receive after that many moves the message.
    :raises ConfigurationError: the count is out of range.
    """

    def __init__(self, sqs_env: Any, dead_letter_queue_name: str, max_receive_count: int) -> None:
        try:
            count = int(max_receive_count)
        except (TypeError, ValueError):
            count = 0
        if not 1 <= count <= MAX_RECEIVE_COUNT_LIMIT:
            raise ConfigurationError(
                f"max_receive_count of the redrive policy to {dead_letter_queue_name!r} must be "
                f"1 to {MAX_RECEIVE_COUNT_LIMIT}, not {max_receive_count!r}"
            )
        self.sqs_env = sqs_env
        self.dead_letter_queue_name = dead_letter_queue_name
        self.max_receive_count = count

    def __repr__(self) -> str:
        return f"RedrivePolicy({self.dead_letter_queue_name!r}, {self.max_receive_count})"

    def __json__(self) -> str:
        """The queue attribute ``RedrivePolicy``; asks SQS for the ARN of the dead-letter queue.

        :raises QueueNotFoundError: there is no such dead-letter queue.
        """
        url = self.sqs_env.resolve_queue_url(self.dead_letter_queue_name)
        attributes = self.sqs_env.transport.get_queue_attributes(url, ["QueueArn"])
        return json.dumps(
            {"deadLetterTargetArn": attributes["QueueArn"], "maxReceiveCount": str(self.max_receive_count)}
        )


def get_job_name(message: Any) -> str | None:
    """Name of the job that a message carries, or ``None``."""
    attributes = message.message_attributes
    attribute = attributes.get("JobName") if attributes else None
    name: str | None = attribute.get("StringValue") if attribute else None
    return name
