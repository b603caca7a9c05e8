"""Queues in memory with dead letters in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.redrive import DeadLetters


@dataclass
class World:
    """An account in memory whose time passes when somebody waits."""

    client: Any
    clock: ManualClock

    def queue(self, name: str, **attributes: str) -> str:
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        url: str = self.client.create_queue(QueueName=name, Attributes={**fifo, **attributes})["QueueUrl"]
        return url

    def arn(self, url: str) -> str:
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        arn: str = answer["Attributes"]["QueueArn"]
        return arn

    def pair(self, name: str = "jobs", receives: int = 1) -> tuple[str, str]:
        """A queue and its dead-letter queue."""
        base, dot, suffix = name.partition(".")
        dead = self.queue(f"{base}-dead{dot}{suffix}")
        policy = {"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": receives}
        return self.queue(name, RedrivePolicy=json.dumps(policy)), dead

    def send(self, url: str, body: str, *, group: str | None = None, job: str = "", **texts: str) -> str:
        request: dict[str, Any] = {}
        if job:
            texts = {**texts, "JobName": job}
        if texts:
            request["MessageAttributes"] = {
                name: {"DataType": "String", "StringValue": text} for name, text in texts.items()
            }
        if url.endswith(".fifo"):
            request |= {"MessageGroupId": group or "g", "MessageDeduplicationId": f"{url}{body}"[-100:]}
        answer = self.client.send_message(QueueUrl=url, MessageBody=body, **request)
        message_id: str = answer["MessageId"]
        return message_id

    def fail(self, url: str) -> None:
        """Receive everything until the redrive policy has moved it."""
        while any(self.counts(url)):
            self.client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)

    def bodies(self, url: str, *, hide: int = 600) -> list[str]:
        """Bodies of what is visible, which is hidden after."""
        found: list[str] = []
        while True:
            answer = self.client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=hide, MessageAttributeNames=["All"]
            )
            messages = answer.get("Messages") or []
            if not messages:
                return found
            found += [message["Body"] for message in messages]
            for message in messages:
                # So that the rest of its group can be received.
                self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def counts(self, url: str) -> tuple[int, int, int]:
        names = (
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        )
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
        visible, hidden, delayed = (int(answer["Attributes"][name]) for name in names)
        return visible, hidden, delayed

    def letters(self, url: str, **options: Any) -> DeadLetters:
        options.setdefault("wait_seconds", 0)
        return DeadLetters(self.client, url, clock=self.clock, **options)


@pytest.fixture
def world() -> World:
    clock = ManualClock(auto_advance=True)
    session = MemorySession(clock=clock)
    return World(session.client("sqs"), clock)


Worlds = Callable[[], World]
