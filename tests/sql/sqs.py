"""An SQS in memory for the relay, and a transport that fails as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from sqs_workers.exceptions import QueueNotFoundError
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.transport import Boto3Transport
from sqs_workers.transport.protocol import ReceiveOptions, SendResult

Answer = Callable[[str, Sequence[OutgoingMessage]], list[SendResult]]


class FakeTask:
    """Prepares messages as a task does."""

    def __init__(self, queue_name: str = "jobs", *, group_id: str | None = None) -> None:
        self.queue_name = queue_name
        self.group_id = group_id

    def prepare(self, **kwargs: Any) -> tuple[str, OutgoingMessage]:
        group = kwargs.pop("_group_id", self.group_id)
        attributes = {"JobName": string_attribute("job"), "ContentType": string_attribute("json")}
        message = OutgoingMessage(json.dumps(kwargs), attributes, group_id=group, job_name="job")
        return self.queue_name, message


class Sqs:
    """Queues in memory, as a relay and a consumer see them.

    :ivar answers: answers to the next calls of ``send_batch``; empty: the real ones.
    """

    def __init__(self, *names: str) -> None:
        self.session = MemorySession()
        client = self.session.client("sqs")
        self._inner = Boto3Transport(lambda: client)
        self.answers: list[Answer] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.urls: dict[str, str] = {}
        for name in names or ("jobs",):
            attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            self.urls[name] = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    @property
    def transport(self) -> Any:
        return self

    def resolve_queue_url(self, name: str) -> str:
        if name not in self.urls:
            raise QueueNotFoundError(f"no queue {name!r}", queue_name=name)
        return self.urls[name]

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        self.calls.append((queue_url.rpartition("/")[2], [message.body for message in messages]))
        if self.answers:
            return self.answers.pop(0)(queue_url, messages)
        return self._inner.send_batch(queue_url, messages)

    def really(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        return self._inner.send_batch(queue_url, messages)

    def received(self, name: str = "jobs") -> list[tuple[dict[str, Any], str]]:
        """Takes everything off a queue: arguments and ``OutboxId`` of each message, in order."""
        found = []
        while True:
            messages = self._inner.receive(self.urls[name], ReceiveOptions())
            if not messages:
                return found
            for message in messages:
                found.append((json.loads(message.body), message.string_attribute("OutboxId") or ""))
                self._inner.delete(self.urls[name], message.receipt_handle)


def client_error(code: str, message: str = "words of SQS", status: int = 400) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "SendMessageBatch")


def failing(error: Exception) -> Answer:
    def answer(queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        raise error

    return answer


def no_network() -> EndpointConnectionError:
    return EndpointConnectionError(endpoint_url="https://sqs.example")
