"""The job that is being run, for handlers and middleware."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sqs_workers.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CURRENT_JOB", "BatchJob", "Job", "current_job"]


class Job:
    """A named call that a worker is about to run or is running.

    :ivar message: the message that carries it.
    :ivar queue_name: name of the queue as ``env.queue(...)`` takes it.
    :ivar name: name under which the processor is registered; empty on a raw queue.
    :ivar kwargs: decoded arguments; empty before decoding and on a raw queue.
    :ivar context: the sender's context, a mapping.
    """

    __slots__ = ("context", "kwargs", "message", "name", "queue_name")

    def __init__(
        self,
        message: Message,
        *,
        queue_name: str,
        name: str = "",
        kwargs: dict[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message
        self.queue_name = queue_name
        self.name = name
        self.kwargs: dict[str, Any] = {} if kwargs is None else kwargs
        self.context: Any = {} if context is None else context

    def __repr__(self) -> str:
        return f"<Job {self.queue_name}.{self.name} {self.message.message_id}>"

    @property
    def message_id(self) -> str:
        """Id that SQS gave the message."""
        return self.message.message_id

    @property
    def receive_count(self) -> int:
        """Which attempt this is, counted by SQS from 1."""
        return self.message.receive_count

    @property
    def lost(self) -> bool:
        """Whether the worker's hold on the message is lost, so that another may run it too."""
        return self.message.lost

    def change_visibility(self, seconds: int) -> None:
        """Hide the message for ``seconds`` from now (0 to 43,200). The heartbeat never shortens it."""
        self.message.change_visibility(seconds)


class BatchJob(Job):
    """Several jobs of one name that a batch handler gets at once.

    ``message``, and what is told of it, is the first one.

    :ivar messages: the messages that carry them.
    :ivar items: what the handler gets: decoded arguments, or messages on a raw queue.
    """

    __slots__ = ("items", "messages")

    def __init__(
        self, messages: Sequence[Message], items: list[Any], *, queue_name: str, name: str = ""
    ) -> None:
        super().__init__(messages[0], queue_name=queue_name, name=name)
        self.messages = list(messages)
        self.items = items

    @property
    def lost(self) -> bool:
        """Whether the worker's hold on any of the messages is lost."""
        return any(message.lost for message in self.messages)

    def change_visibility(self, seconds: int) -> None:
        """Hide all messages for ``seconds`` from now (0 to 43,200)."""
        for message in self.messages:
            message.change_visibility(seconds)


CURRENT_JOB: ContextVar[Job | None] = ContextVar("sqs_workers_current_job", default=None)


def current_job() -> Job | None:
    """The job that this thread or task runs, or ``None`` outside of one."""
    return CURRENT_JOB.get()
