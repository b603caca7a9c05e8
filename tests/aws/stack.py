"""Topics, buses, schedules and functions of a MiniStack, connected to queues."""

from __future__ import annotations

import io
import json
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqs_workers import SQSEnv, create_standard_queue
from tests.servers import boto_session

__all__ = ["Stack", "until"]

ROOT = Path(__file__).parents[2]
ROLE = "arn:aws:iam::000000000000:role/test"


def until(check: Callable[[], bool], what: str, seconds: float = 40.0) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        pause.wait(0.05)


class Stack:
    """An AWS with names of its own."""

    def __init__(self, endpoint: str) -> None:
        self.name = f"t{uuid.uuid4().hex[:10]}"
        self.session = boto_session(endpoint)
        self.env = SQSEnv(self.session, codec="json", queue_prefix=f"{self.name}-")
        self.sns = self.session.client("sns")
        self.events = self.session.client("events")

    def queue_arn(self, name: str, **attributes: Any) -> str:
        create_standard_queue(self.env, name, **attributes)
        url = self.env.resolve_queue_url(name)
        return self.env.transport.get_queue_attributes(url, ["QueueArn"])["QueueArn"]

    def topic(self) -> str:
        arn: str = self.sns.create_topic(Name=self.name)["TopicArn"]
        return arn

    def subscribe(self, topic_arn: str, queue_arn: str, *, raw: bool) -> None:
        attributes = {"RawMessageDelivery": "true"} if raw else {}
        self.sns.subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=queue_arn, Attributes=attributes)

    def rule(self, pattern: dict[str, Any], target_arn: str) -> None:
        self.events.put_rule(Name=self.name, EventPattern=json.dumps(pattern))
        self.events.put_targets(Rule=self.name, Targets=[{"Id": "1", "Arn": target_arn}])

    def schedule(self, expression: str, queue_arn: str, text: str) -> None:
        self.session.client("scheduler").create_schedule(
            Name=self.name,
            ScheduleExpression=expression,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": queue_arn, "RoleArn": ROLE, "Input": text},
        )

    @contextmanager
    def function(self, handler: str, queue_arn: str, **variables: str) -> Iterator[None]:
        """A function of this repository, mapped to a queue and listened to."""
        client = self.session.client("lambda")
        module, _, attribute = handler.rpartition(".")
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr(
                "function.py",
                f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom {module} import {attribute}\n",
            )
        client.create_function(
            FunctionName=self.name,
            Runtime="python3.12",
            Role=ROLE,
            Handler=f"function.{attribute}",
            Timeout=30,
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": variables},
        )
        mapping = client.create_event_source_mapping(
            EventSourceArn=queue_arn,
            FunctionName=self.name,
            BatchSize=10,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )
        try:
            yield
        finally:
            client.delete_event_source_mapping(UUID=mapping["UUID"])
            client.delete_function(FunctionName=self.name)
