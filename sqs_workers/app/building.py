"""From what a file says to workers that are ready to run. Nothing is received before they do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.app.connections import Connections
from sqs_workers.app.handlers import HandlerFunction, load_exceptions, load_handler
from sqs_workers.app.outlets import GroupCommit, OneByOne, Outlet, WriteReport
from sqs_workers.app.problems import AppFileError, Problem
from sqs_workers.app.receiving import BoundedTransport, Quota
from sqs_workers.app.retrying import TaskBackoff
from sqs_workers.app.spec import Task
from sqs_workers.app.spec_resources import HttpSink, Inbox, Mysql, Postgres, Sqlite, Sqs, SqsQueue, SqsSink
from sqs_workers.app.task_handler import TaskHandler
from sqs_workers.exceptions import ConfigurationError, WorkerError
from sqs_workers.failure_policies import DeadLetter, Discard, FailurePolicy, Leave, Release
from sqs_workers.worker import Worker
from sqs_workers.worker.circuit import PauseOn
from sqs_workers.worker.contract import BatchSettings, JobPolicies, Source

if TYPE_CHECKING:
    from sqs_workers.app.inbox_step import InboxStep
    from sqs_workers.app.spec import App
    from sqs_workers.hooks import HookRegistry
    from sqs_workers.transport import Mode

__all__ = ["Built", "RunOptions", "build", "load_functions"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run differs from what the file says.

    :param concurrency: instead of that of every task.
    :param max_jobs: messages in all, of all tasks.
    :param once: one receive of each queue.
    :param until_idle: stop when nothing has come for so many seconds.
    :param transport: how requests get to SQS, instead of what the ``sqs`` resources say.
    """

    concurrency: int | None = None
    max_jobs: int | None = None
    once: bool = False
    until_idle: float | None = None
    transport: Mode | None = None


@dataclass(frozen=True, slots=True)
class Functions:
    """What a task names in Python."""

    handler: HandlerFunction
    permanent_errors: tuple[type[Exception], ...]


def load_functions(app: App, path: Path) -> dict[str, Functions]:
    """Import the handlers of all tasks, and check their shapes.

    :raises AppFileError: with everything that is wrong with them.
    """
    found: dict[str, Functions] = {}
    problems: list[Problem] = []
    for index, task in enumerate(app.tasks):
        where = ("tasks", index)
        line = app.lines.get(where, 0)
        try:
            handler = load_handler(task.handler, path.parent)
            _check_shape(task, handler)
        except ConfigurationError as error:
            line = app.lines.get((*where, "handler"), line)
            problems.append(Problem(str(path), line, (*where, "handler"), str(error)))
            continue
        try:
            errors = load_exceptions(task.permanent_errors, path.parent)
        except ConfigurationError as error:
            line = app.lines.get((*where, "permanent_errors"), line)
            problems.append(Problem(str(path), line, (*where, "permanent_errors"), str(error)))
            continue
        found[task.name] = Functions(handler, errors)
    if problems:
        raise AppFileError(problems)
    return found


def _check_shape(task: Task, handler: HandlerFunction) -> None:
    if handler.is_async and task.inbox is not None:
        raise ConfigurationError(
            f"`{task.handler}` is async, and with `inbox` it runs inside of a transaction: write it with "
            "plain `def`"
        )
    if handler.is_async and task.batch is not None:
        raise ConfigurationError(
            f"`{task.handler}` is async, and handlers of batches are not: write it with plain `def`"
        )


@dataclass(eq=False)
class Built:
    """An app that is ready to run.

    :ivar workers: one a task, by its name.
    """

    app: App
    workers: Mapping[str, Worker]
    outlets: Mapping[str, Outlet]
    connections: Connections

    def close(self) -> None:
        """Write what waits in sinks, and close all connections."""
        for outlet in self.outlets.values():
            outlet.close()
        self.connections.close()


def build(
    app: App,
    path: Path,
    functions: Mapping[str, Functions],
    *,
    hooks: HookRegistry,
    options: RunOptions | None = None,
    report: Callable[[WriteReport], object] = lambda report: None,
) -> Built:
    """Open the resources, look at the tables, and make a worker for each task.

    :raises SQSError: a resource cannot be opened, or cannot do what it must.
    """
    options = RunOptions() if options is None else options
    connections = Connections(app, path.parent, transport=options.transport)
    builder = _Builder(app, connections, functions, hooks, options, report)
    try:
        builder.open_resources()
        workers = {task.name: builder.worker(task) for task in app.tasks}
    except BaseException:
        for outlet in builder.outlets.values():
            outlet.close()
        connections.close()
        raise
    return Built(app, workers, builder.outlets, connections)


class _Builder:
    def __init__(
        self,
        app: App,
        connections: Connections,
        functions: Mapping[str, Functions],
        hooks: HookRegistry,
        options: RunOptions,
        report: Callable[[WriteReport], object],
    ) -> None:
        self._app = app
        self._connections = connections
        self._functions = functions
        self._hooks = hooks
        self._options = options
        self._report = report
        self._quota = Quota(options.max_jobs) if options.max_jobs is not None else None
        self.outlets: dict[str, Outlet] = {}

    def open_resources(self) -> None:
        for name, resource in self._app.resources.items():
            if isinstance(resource, Sqs):
                self._connections.choose_transport(name)
            elif isinstance(resource, (Mysql, Postgres, Sqlite)):
                self._connections.database(name)

    def worker(self, task: Task) -> Worker:
        queue = self._app.resources[task.source]
        assert isinstance(queue, SqsQueue)
        options = self._options
        quota = Quota(once=True) if options.once and self._quota is None else self._quota
        concurrency = options.concurrency or task.concurrency
        return Worker(
            [self._source(task, queue)],
            BoundedTransport(
                self._connections.transport(queue.connector), batch_size=queue.batch_size, quota=quota
            ),
            concurrency=concurrency,
            executor="threads",
            shutdown_policy=quota if quota is not None else _idle(options.until_idle),
            shutdown_timeout=max(self._app.app.shutdown_timeout_s, 0.1),
            hooks=self._hooks,
            handle_signals=False,
            prefetch=0 if quota is not None else None,
        )

    def _source(self, task: Task, queue: SqsQueue) -> Source:
        batch = task.batch
        functions = self._functions[task.name]
        outlets = [self._outlet(name, task) for name in task.emit]
        handler = TaskHandler(
            task,
            queue,
            functions.handler,
            _policies(task, queue),
            outlets=outlets,
            resources=self._connections.opened(),
            permanent_errors=functions.permanent_errors,
            inbox=None if task.inbox is None else self._inbox(task.inbox),
        )
        wait = queue.wait_time_s
        if self._options.until_idle is not None:
            wait = min(wait, max(1, round(self._options.until_idle)))
        return Source(
            name=task.source,
            resolve_url=lambda: self._connections.queue_url(queue),
            handler=handler,
            resolve_target=self._target,
            fifo=(queue.name or queue.url or "").endswith(".fifo"),
            wait_seconds=0 if self._options.once else wait,
            visibility_timeout=queue.visibility_timeout,
            heartbeat=self._heartbeat(task.source, queue),
            heartbeat_visibility=queue.heartbeat_visibility_timeout,
            batch=None if batch is None else BatchSettings(batch.size, batch.linger_s),
            circuit=_circuit(outlets),
            system_attributes=("SentTimestamp",),
        )

    def _heartbeat(self, name: str, queue: SqsQueue) -> float | None:
        """The interval of the file, or a shorter one where the queue hides messages for less than that."""
        interval = queue.heartbeat_interval_s
        if not interval or queue.visibility_timeout is not None:
            return interval
        own = self._connections.visibility_timeout(queue)
        if own is None or own == 0 or interval < own:
            return interval
        logger.warning(
            "Queue %s hides messages for %d s, and heartbeat_interval_s is %g: it is %.1f instead. "
            "Give it a visibility timeout above the interval, or write visibility_timeout in the file",
            name,
            own,
            interval,
            own / 3,
            extra={"queue_name": name},
        )
        return own / 3

    def _target(self, name: str) -> str:
        queue = self._app.resources[name]
        assert isinstance(queue, SqsQueue)
        return self._connections.queue_url(queue)

    def _outlet(self, name: str, task: Task) -> Outlet:
        if name not in self.outlets:
            self.outlets[name] = self._new_outlet(name, task)
        return self.outlets[name]

    def _new_outlet(self, name: str, task: Task) -> Outlet:
        spec = self._app.resources[name]
        if isinstance(spec, HttpSink):
            from sqs_workers.app.remote_sinks import RowsToHttp

            threads = max((other.concurrency for other in self._app.tasks if name in other.emit), default=1)
            return OneByOne(RowsToHttp(name, spec, connections=threads), threads=threads, report=self._report)
        if isinstance(spec, SqsSink):
            from sqs_workers.app.remote_sinks import RowsToQueue

            transport = self._connections.transport(spec.connector)
            sink = RowsToQueue(name, spec, transport, lambda: self._connections.queue_url(spec))
            return GroupCommit(sink, max_rows=100, report=self._report)
        from sqs_workers.app.table_sink import RowsToTable

        assert not isinstance(spec, (Sqs, SqsQueue, Mysql, Postgres, Sqlite, Inbox))
        table = RowsToTable(name, spec, self._connections.database(spec.connector))
        try:
            table.check()
        except ConfigurationError as error:
            raise WorkerError(f"sink {name!r} of task {task.name!r}: {error}") from None
        return GroupCommit(table, max_rows=spec.batch_rows, linger=spec.linger_s, report=self._report)

    def _inbox(self, name: str) -> InboxStep:
        from sqs_workers.app.inbox_step import InboxStep, open_inbox

        spec = self._app.resources[name]
        assert isinstance(spec, Inbox)
        inbox = open_inbox(name, spec, self._connections.database(spec.connector), self._hooks)
        return InboxStep(name, inbox, spec.event_id)


def _circuit(outlets: list[Outlet]) -> Any:
    """A database that is down is asked by one message at a time until it answers."""
    if not any(isinstance(outlet, GroupCommit) and hasattr(outlet.sink, "check") for outlet in outlets):
        return None
    from sqs_workers.app.table_sink import SinkUnavailableError

    return PauseOn(errors=(SinkUnavailableError,))


def _idle(seconds: float | None) -> Any:
    if seconds is None:
        return None
    from sqs_workers.shutdown_policies import IdleShutdown

    return IdleShutdown(seconds)


def _policies(task: Task, queue: SqsQueue) -> JobPolicies:
    failure: FailurePolicy
    match queue.on_fail:
        case "leave":
            failure = Leave()
        case "release":
            failure = Release()
        case "delete":
            failure = Discard()
        case "dead_letter":
            failure = DeadLetter(queue.dead_letter_queue or "")
    return JobPolicies(
        backoff=TaskBackoff.of(task.retry),
        failure_policy=failure,
        max_attempts=1 if task.retry.type == "none" else task.retry.max_attempts,
        timeout=task.timeout_s,
    )
