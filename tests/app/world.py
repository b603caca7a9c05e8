"""An app with its queues on the local endpoint and its table in SQLite, run in this process."""

from __future__ import annotations

import json
import sqlite3
import textwrap
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqs_workers.app.building import RunOptions, build, load_functions
from sqs_workers.app.loading import load
from sqs_workers.app.outlets import WriteReport
from sqs_workers.app.running import AppRun
from sqs_workers.hooks import Event, HookRegistry

__all__ = ["Ran", "World"]

TABLE = (
    "CREATE TABLE events (event_id VARCHAR(64) PRIMARY KEY, payload TEXT, status VARCHAR(32) NOT NULL, n INT)"
)
HEAD = """\
apiVersion: sqs-workers/v1
kind: App
app: {name: test, shutdown_timeout_s: 5}
resources:
  sqs: {type: sqs, region_name: us-east-1, endpoint_url: "${ENDPOINT}"}
  db: {type: sqlite, dsn: "sqlite:///test.db"}
"""
SINK = "  sink: {type: table_sink, connector: db, table: events, keys: [event_id]}\n"


@dataclass
class Ran:
    """What a run has done."""

    code: int
    events: list[Event]
    writes: list[WriteReport]

    def of(self, cls: type) -> list[Any]:
        """Events of a class, in order."""
        return [event for event in self.events if type(event) is cls]


@dataclass
class World:
    """One test's queues, files and database.

    :ivar client: boto3 client of the endpoint.
    """

    directory: Path
    endpoint: str
    client: Any
    urls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with closing(sqlite3.connect(self.directory / "test.db")) as connection, connection:
            connection.execute(TABLE)

    def queue(self, name: str = "events", *, dead_after: int | None = None, visibility: int = 30) -> str:
        """Create a queue, and its dead-letter queue ``<name>-dead``."""
        attributes = {"VisibilityTimeout": str(visibility)}
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        if dead_after is not None:
            dead = self.queue(f"{name}-dead")
            arn = self.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
            policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": dead_after}
            attributes["RedrivePolicy"] = json.dumps(policy)
        self.urls[name] = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return self.urls[name]

    def send(self, *items: Any, queue: str = "events") -> None:
        """Send items as JSON; texts as they are."""
        for start in range(0, len(items), 10):
            bodies = [
                item if isinstance(item, str) else json.dumps(item) for item in items[start : start + 10]
            ]
            entries = [{"Id": str(index), "MessageBody": body} for index, body in enumerate(bodies)]
            answer = self.client.send_message_batch(QueueUrl=self.urls[queue], Entries=entries)
            assert len(answer["Successful"]) == len(bodies)

    def counts(self, queue: str = "events") -> tuple[int, int]:
        """Visible messages, and those in flight."""
        answer = self.client.get_queue_attributes(QueueUrl=self.urls[queue], AttributeNames=["All"])
        found = answer["Attributes"]
        return (
            int(found["ApproximateNumberOfMessages"]),
            int(found["ApproximateNumberOfMessagesNotVisible"]),
        )

    def take(self, queue: str) -> list[dict[str, Any]]:
        """What a receive brings at once."""
        answer = self.client.receive_message(
            QueueUrl=self.urls[queue], MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def rows(self, columns: str = "event_id, status") -> list[tuple[Any, ...]]:
        """The table, in the order of its key."""
        with closing(sqlite3.connect(self.directory / "test.db")) as connection, connection:
            return connection.execute(f"SELECT {columns} FROM events ORDER BY event_id").fetchall()

    def write(
        self, *, handler: str, resources: str = "", task: str = "", queue: str = "wait_time_s: 1"
    ) -> Path:
        """Write the files of an app with one task, ``ingest``."""
        (self.directory / "test_handler.py").write_text(textwrap.dedent(handler), encoding="utf-8")
        text = (
            f"{HEAD}{SINK}  events: {{type: sqs_queue, connector: sqs, name: events, {queue}}}\n"
            f"{textwrap.indent(textwrap.dedent(resources), '  ')}"
            "tasks:\n  - name: ingest\n    source: events\n    handler: test_handler:handle\n"
            f"{textwrap.indent(textwrap.dedent(task), '    ')}"
        )
        path = self.directory / "worker.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, environment: Mapping[str, str] | None = None, **options: Any) -> Ran:
        """Run the app that was written, to its end."""
        path = self.directory / "worker.yaml"
        app = load(path, {"ENDPOINT": self.endpoint, **(environment or {})})
        hooks = HookRegistry()
        events: list[Event] = []
        hooks.add(Event, events.append)
        writes: list[WriteReport] = []
        built = build(
            app,
            path,
            load_functions(app, path),
            hooks=hooks,
            options=RunOptions(**options),
            report=writes.append,
        )
        try:
            code = AppRun(built).run()
        finally:
            built.close()
        return Ran(code, events, writes)
