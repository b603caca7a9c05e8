"""A task as the engine's handler: decode, call, write, and only then succeed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextvars import Token
from typing import TYPE_CHECKING, Any

from sqs_workers.app.context import TaskContext
from sqs_workers.app.envelopes import item_of
from sqs_workers.app.landing import Landing
from sqs_workers.app.outlets import Entry, Outlet, Row
from sqs_workers.backoff_policies import backoff_seconds
from sqs_workers.exceptions import ConfigurationError, PermanentError
from sqs_workers.job import CURRENT_JOB, Job
from sqs_workers.outcome import Failed, Outcome, Rejected, RetryRequested, Succeeded
from sqs_workers.retry import RetryJob

if TYPE_CHECKING:
    from sqs_workers.app.handlers import HandlerFunction
    from sqs_workers.app.inbox_step import InboxStep
    from sqs_workers.app.spec import Task
    from sqs_workers.app.spec_resources import SqsQueue
    from sqs_workers.messages import Message
    from sqs_workers.worker.contract import JobPolicies

__all__ = ["TaskHandler"]

_SUCCEEDED = Succeeded()


class TaskHandler:
    """Runs the messages of one task.

    :param outlets: written to in this order.
    :param resources: for ``ctx.resources``.
    :param permanent_errors: exceptions that no retry can help.
    """

    def __init__(
        self,
        task: Task,
        queue: SqsQueue,
        function: HandlerFunction,
        policies: JobPolicies,
        *,
        outlets: Sequence[Outlet] = (),
        resources: Mapping[str, Any] | None = None,
        permanent_errors: tuple[type[Exception], ...] = (),
        inbox: InboxStep | None = None,
    ) -> None:
        self._task = task
        self._queue = queue
        self._function = function
        self._policies = policies
        self._outlets = tuple(outlets)
        self._resources = {} if resources is None else resources
        self._permanent: tuple[type[Exception], ...] = (PermanentError, *permanent_errors)
        self._inbox = inbox
        self._landing = Landing()
        self._log = logging.getLogger(f"sqs_workers.handlers.{task.name}")

    def job_name(self, message: Message) -> str:
        return self._task.name

    def policies(self, message: Message) -> JobPolicies:
        return self._policies

    def is_async(self, message: Message) -> bool:
        return self._function.is_async

    def run(self, message: Message) -> Outcome:
        token = self._begin([message])
        try:
            item = self._item(message)
            if self._inbox is not None:
                self._inbox.run(self, message, item)
            else:
                entry = self.call(message, item)
                for outlet in self._outlets_for(entry):
                    outlet.submit(entry).result()
        except Exception as error:  # noqa: BLE001 - the outcome says it
            return self._failed(message, error)
        finally:
            self._end([message], token)
        return _SUCCEEDED

    async def arun(self, message: Message) -> Outcome:
        token = self._begin([message])
        try:
            item = self._item(message)
            rows = await self._function.call(self._context([message]), item)
            entry = self._entry(message, rows)
            for outlet in self._outlets_for(entry):
                await self._landing.wait(outlet.submit(entry))
        except Exception as error:  # noqa: BLE001 - the outcome says it
            return self._failed(message, error)
        finally:
            self._end([message], token)
        return _SUCCEEDED

    def run_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        outcomes: dict[int, Outcome] = {}
        items: dict[int, Any] = {}
        token = self._begin(messages)
        try:
            for index, message in enumerate(messages):
                try:
                    items[index] = self._item(message)
                except Exception as error:  # noqa: BLE001 - the outcome says it
                    outcomes[index] = self._failed(message, error)
            if items:
                outcomes.update(self._run_items(messages, items))
        finally:
            self._end(messages, token)
        return [outcomes[index] for index in range(len(messages))]

    def _run_items(self, messages: Sequence[Message], items: Mapping[int, Any]) -> dict[int, Outcome]:
        chosen = [messages[index] for index in items]
        try:
            result = self._function.call(self._context(chosen), list(items.values()))
            answers = self._answers(result, len(items))
        except Exception as error:  # noqa: BLE001 - the outcome says it
            return {index: self._failed(messages[index], error) for index in items}
        outcomes: dict[int, Outcome] = dict.fromkeys(items, _SUCCEEDED)
        entries: dict[int, Entry] = {}
        for index, rows in zip(items, answers, strict=True):
            try:
                entries[index] = self._entry(messages[index], rows)
            except Exception as error:  # noqa: BLE001 - the outcome says it
                outcomes[index] = self._failed(messages[index], error)
        for outlet in self._outlets:
            waiting = {index: outlet.submit(entry) for index, entry in entries.items() if entry.rows}
            for index, future in waiting.items():
                refusal = future.exception()
                if refusal is not None:
                    outcomes[index] = self._failed(messages[index], refusal)
                    del entries[index]
        return outcomes

    def _answers(self, result: Any, count: int) -> Sequence[Any]:
        if result is None:
            return [None] * count
        if isinstance(result, (list, tuple)) and len(result) == count:
            return result
        what = f"{len(result)} rows" if isinstance(result, (list, tuple)) else type(result).__name__
        raise ConfigurationError(
            f"the handler of task {self._task.name!r} must return one row (or None, or a list of rows) for "
            f"each of the {count} items, and returned {what}"
        )

    def call(self, message: Message, item: Any, tx: Any = None) -> Entry:
        """Call a sync handler; its rows."""
        return self._entry(message, self._function.call(self._context([message], tx), item))

    @property
    def outlets(self) -> Sequence[Outlet]:
        """Where the rows go, in order."""
        return self._outlets

    def _item(self, message: Message) -> Any:
        return item_of(message.body, codec=self._queue.codec, unwrap=self._queue.unwrap)

    def _entry(self, message: Message, result: Any) -> Entry:
        rows = _rows_of(result, self._task.name)
        if rows and not self._outlets:
            raise ConfigurationError(
                f"the handler of task {self._task.name!r} returned a row, and the task has no `emit`"
            )
        return Entry(message.message_id, rows)

    def _outlets_for(self, entry: Entry) -> Sequence[Outlet]:
        return self._outlets if entry.rows else ()

    def _context(self, messages: Sequence[Message], tx: Any = None) -> TaskContext:
        extra: dict[str, object] = {"job_name": self._task.name, "queue_name": self._task.source}
        if len(messages) == 1:
            extra["message_id"] = messages[0].message_id
            extra["receive_count"] = messages[0].receive_count
        log = logging.LoggerAdapter(self._log, extra)
        return TaskContext(self._task.name, messages, self._resources, log, tx)

    def _begin(self, messages: Sequence[Message]) -> Token[Job | None]:
        """To be followed by :meth:`_end`. No context manager: it would cost what a short handler does."""
        token = CURRENT_JOB.set(Job(messages[0], queue_name=self._task.source, name=self._task.name))
        for outlet in self._outlets:
            outlet.enter(len(messages))
        return token

    def _end(self, messages: Sequence[Message], token: Token[Job | None]) -> None:
        for outlet in self._outlets:
            outlet.leave(len(messages))
        CURRENT_JOB.reset(token)

    def _failed(self, message: Message, error: BaseException) -> Outcome:
        if isinstance(error, RetryJob):
            policy = error.backoff_policy
            return RetryRequested(None if policy is None else backoff_seconds(policy, message))
        if isinstance(error, self._permanent):
            return Rejected(error)
        return Failed(error)


def _rows_of(result: Any, task: str) -> tuple[Row, ...]:
    if result is None:
        return ()
    if isinstance(result, Mapping):
        return (result,)
    if isinstance(result, (list, tuple)) and all(isinstance(row, Mapping) for row in result):
        return tuple(result)
    raise ConfigurationError(
        f"the handler of task {task!r} must return a row (a mapping), a list of rows or None, not "
        f"{type(result).__name__}"
    )
