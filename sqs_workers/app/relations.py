"""Whether the parts of an app fit together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqs_workers.app.keys import keys_of
from sqs_workers.app.problems import Path, suggestion
from sqs_workers.app.reading import Reader
from sqs_workers.app.spec import App, Task
from sqs_workers.app.spec_resources import (
    RESOURCE_TYPES,
    Inbox,
    MysqlTableSink,
    PostgresTableSink,
    SqsQueue,
    SqsSink,
    TableSinkSpec,
)

__all__ = ["check_relations"]

TABLE_SINKS = (TableSinkSpec, MysqlTableSink, PostgresTableSink)
_TYPE_NAMES = {cls: name for name, cls in RESOURCE_TYPES.items()}


def check_relations(reader: Reader, app: App) -> None:
    """Report what cannot work although each part by itself is right."""
    checks = _Checks(reader, app)
    for name, resource in app.resources.items():
        path = ("resources", name)
        checks.references(resource, path)
        if isinstance(resource, (SqsQueue, SqsSink)):
            checks.address(resource, path)
        if isinstance(resource, SqsQueue):
            checks.queue(name, resource, path)
        if isinstance(resource, TABLE_SINKS):
            checks.table_sink(resource, path)
    for index, task in enumerate(app.tasks):
        checks.references(task, ("tasks", index))
    checks.names()
    if not reader.problems:
        checks.sources()
        checks.cycles()
        for index, task in enumerate(app.tasks):
            checks.task(task, ("tasks", index))


class _Checks:
    def __init__(self, reader: Reader, app: App) -> None:
        self._reader = reader
        self._app = app

    def _add(self, path: Path, message: str, hint: str = "") -> None:
        known = path
        while known and known not in self._app.lines:
            known = known[:-1]
        self._reader.add(self._app.lines.get(known, 0), path, message, hint)

    def references(self, owner: Any, path: Path) -> None:
        cls: type = type(owner)
        for item in keys_of(cls).values():
            if not item.refers_to:
                continue
            value = getattr(owner, item.name)
            names: Iterable[str] = value if isinstance(value, tuple) else () if value is None else (value,)
            for name in names:
                self._reference(name, item.refers_to, (*path, item.name))

    def _reference(self, name: str, wanted: tuple[str, ...], path: Path) -> None:
        resource = self._app.resources.get(name)
        right = [key for key, value in self._app.resources.items() if _TYPE_NAMES[type(value)] in wanted]
        if resource is None:
            self._add(path, f"there is no resource `{name}`", suggestion(name, right))
        elif _TYPE_NAMES[type(resource)] not in wanted:
            kinds = " or ".join(f"`{kind}`" for kind in wanted)
            self._add(path, f"`{name}` is of type `{_TYPE_NAMES[type(resource)]}`, and must be {kinds}")

    def address(self, queue: SqsQueue | SqsSink, path: Path) -> None:
        if (queue.url is None) == (queue.name is None):
            self._add(path, "one of `url` and `name` must be given", "the other one is found by it")
        elif queue.url is not None and not queue.url.startswith(("http://", "https://")):
            self._add(
                (*path, "url"), "must begin with https:// or http://", "or give the `name` of the queue"
            )

    def queue(self, name: str, queue: SqsQueue, path: Path) -> None:
        interval, held = queue.heartbeat_interval_s, queue.heartbeat_visibility_timeout
        for key, other in (
            ("heartbeat_visibility_timeout", held),
            ("visibility_timeout", queue.visibility_timeout),
        ):
            if interval and other is not None and interval >= other:
                self._add(
                    (*path, "heartbeat_interval_s"),
                    f"{interval:g} is not below `{key}` {other}: messages would become visible between two "
                    "extensions",
                    f"{max(1, other // 3)} is a third of it",
                )
        if interval == 0 and held is not None:
            self._add(
                (*path, "heartbeat_visibility_timeout"), "has no effect, as `heartbeat_interval_s` is 0"
            )
        if queue.on_fail == "dead_letter" and queue.dead_letter_queue is None:
            self._add((*path, "on_fail"), "`dead_letter` needs `dead_letter_queue`")
        if queue.on_fail != "dead_letter" and queue.dead_letter_queue is not None:
            self._add((*path, "dead_letter_queue"), f"has no effect with `on_fail: {queue.on_fail}`")
        if queue.dead_letter_queue == name:
            self._add(
                (*path, "dead_letter_queue"), "is the queue itself: failed messages would come back for ever"
            )
        if queue.codec == "text" and queue.unwrap in ("sns", "eventbridge"):
            self._add((*path, "unwrap"), f"`{queue.unwrap}` reads JSON, and `codec` is `text`")

    def table_sink(self, sink: Any, path: Path) -> None:
        if sink.mode == "upsert" and not sink.keys:
            self._add(
                path, "`mode: upsert` needs `keys`", "the columns of a unique index, for instance [event_id]"
            )
        if sink.mode != "upsert":
            for key in ("update_columns", "update_expr"):
                if getattr(sink, key):
                    self._add((*path, key), f"has no effect with `mode: {sink.mode}`")
        for column in sink.update_columns or ():
            if column in sink.update_expr:
                self._add(
                    (*path, "update_expr"), f"`{column}` stands in `update_columns` too", "keep one of them"
                )
        for column in (*(sink.update_columns or ()), *sink.update_expr):
            if column in sink.keys:
                self._add(path, f"the key column `{column}` cannot be updated")

    def names(self) -> None:
        seen: dict[str, int] = {}
        for index, task in enumerate(self._app.tasks):
            if task.name in seen:
                self._add(
                    ("tasks", index, "name"), f"`{task.name}` is the name of tasks[{seen[task.name]}] too"
                )
            seen.setdefault(task.name, index)

    def sources(self) -> None:
        seen: dict[tuple[str, str], str] = {}
        for index, task in enumerate(self._app.tasks):
            address = self._queue_of(task.source)
            if address in seen:
                self._add(
                    ("tasks", index, "source"),
                    f"the task `{seen[address]}` reads the same queue, and each message goes to one of them "
                    "alone",
                    "give one task several sinks, or each its own queue",
                )
            seen.setdefault(address, task.name)

    def _queue_of(self, name: str) -> tuple[str, str]:
        queue = self._app.resources[name]
        assert isinstance(queue, (SqsQueue, SqsSink))
        return queue.connector, queue.name or (queue.url or "").rstrip("/").rpartition("/")[2]

    def cycles(self) -> None:
        """Messages must not come back to a queue from which they were taken."""
        onward: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for task in self._app.tasks:
            targets = {
                self._queue_of(name) for name in task.emit if isinstance(self._app.resources[name], SqsSink)
            }
            source = self._app.resources[task.source]
            if isinstance(source, SqsQueue) and source.dead_letter_queue:
                targets.add(self._queue_of(source.dead_letter_queue))
            onward.setdefault(self._queue_of(task.source), set()).update(targets)
        for index, task in enumerate(self._app.tasks):
            start = self._queue_of(task.source)
            if start in _reachable(onward, start):
                self._add(
                    ("tasks", index), f"a cycle: what it takes from `{task.source}` comes back there", ""
                )

    def task(self, task: Task, path: Path) -> None:
        retry = task.retry
        if retry.min_delay_s > retry.max_delay_s:
            self._add(
                (*path, "retry"),
                f"`min_delay_s` {retry.min_delay_s:g} is above `max_delay_s` {retry.max_delay_s:g}",
            )
        if retry.type == "none" and retry.max_attempts not in (None, 1):
            self._add((*path, "retry", "max_attempts"), "`type: none` is one attempt")
        if len(set(task.emit)) != len(task.emit):
            self._add((*path, "emit"), "the same sink stands there twice")
        module, _, function = task.handler.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
            self._add((*path, "handler"), "must be `module:function`", "for instance handler:to_row")
        if task.batch is not None and task.batch.size > task.concurrency * 10 and task.batch.size > 10:
            self._add((*path, "batch", "size"), "is more than ten receives of this concurrency bring")
        if task.inbox is not None:
            self._inbox(task, path)

    def _inbox(self, task: Task, path: Path) -> None:
        inbox = self._app.resources[task.inbox or ""]
        assert isinstance(inbox, Inbox)
        if task.batch is not None:
            self._add(
                (*path, "inbox"),
                "cannot be used with `batch`",
                "the inbox has a transaction for each message",
            )
        for name in task.emit:
            sink = self._app.resources[name]
            if isinstance(sink, TABLE_SINKS) and sink.connector != inbox.connector:
                self._add(
                    (*path, "inbox"),
                    f"is in `{inbox.connector}`, and the sink `{name}` in `{sink.connector}`: they cannot "
                    "share a transaction",
                    "use one database, or an upsert without an inbox",
                )


def _reachable(
    onward: dict[tuple[str, str], set[tuple[str, str]]], start: tuple[str, str]
) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    open_ends = [start]
    while open_ends:
        for target in onward.get(open_ends.pop(), ()):
            if target not in found:
                found.add(target)
                open_ends.append(target)
    return found
