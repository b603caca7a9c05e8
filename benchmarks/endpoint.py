"""The local endpoint in a process of its own, and how the harness talks to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from types import TracebackType
from typing import Any

from typing_extensions import Self

from benchmarks.peers import ROOT

__all__ = ["EndpointProcess"]

_READY = "SQS endpoint ready at "


class EndpointProcess:
    """``python -m sqs_workers.local`` on a free port, for the time of a ``with`` statement."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sqs_workers.local", "--port", "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(_READY):
            self._process.wait()
            raise RuntimeError("the local endpoint did not start; its reason stands above")
        self.url = line.removeprefix(_READY).strip()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.client = self._make_client()

    def _make_client(self) -> Any:
        import boto3

        return boto3.client(
            "sqs",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._process.terminate()
        self._process.communicate(timeout=10)

    def control(
        self, name: str, values: dict[str, Any] | None = None, method: str | None = None
    ) -> dict[str, Any]:
        """A request below ``/_local/``: POST if there are values, else GET, unless told otherwise."""
        data = None if values is None else json.dumps(values).encode()
        request = urllib.request.Request(
            f"{self.url}/_local/{name}", data, {"Content-Type": "application/json"}, method=method
        )
        with self._opener.open(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def queue_stats(self, queue: str) -> dict[str, Any]:
        """Counters of one queue, with the endpoint's CPU seconds as ``cpu_seconds``."""
        stats = self.control("stats")
        found: dict[str, Any] = stats["queues"].get(queue) or {
            "requests": {},
            "sent": 0,
            "received": 0,
            "deleted": 0,
            "first_receive": None,
            "last_delete": None,
        }
        return {**found, "cpu_seconds": stats["cpu_seconds"]}

    def latency(self, milliseconds: float) -> None:
        self.control("latency", {"seconds": milliseconds / 1000})

    def create_queue(self, name: str, visibility: int) -> str:
        attributes = {"VisibilityTimeout": str(visibility)}
        url: str = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def take_one(self, url: str) -> dict[str, Any]:
        """Receive and delete one message."""
        answer = self.client.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)
        message: dict[str, Any] = answer["Messages"][0]
        self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return message

    def fill(self, url: str, message: dict[str, Any], count: int) -> None:
        """Send ``count`` copies of ``message``."""
        copy = {"MessageBody": message["Body"]}
        if "MessageAttributes" in message:
            copy["MessageAttributes"] = message["MessageAttributes"]
        for start in range(0, count, 10):
            entries = [{"Id": str(number), **copy} for number in range(min(10, count - start))]
            self.client.send_message_batch(QueueUrl=url, Entries=entries)

    def left(self, url: str) -> int:
        """Messages in the queue, in whatever state."""
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
        attributes = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(attributes[name]) for name in names)

    def wait_until_empty(self, url: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.left(url):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True
