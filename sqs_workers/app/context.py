"""What a handler is told about the message that it works on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["TaskContext"]


class TaskContext:
    """The first argument of a handler, if it takes two.

    :ivar task: name of the task.
    :ivar message_ids: ids that SQS gave the messages; one, but for a handler of batches.
    :ivar resources: what the file calls `resources`, opened: a SQLAlchemy engine for a database, a boto3
        client for `sqs`.
    :ivar tx: the connection whose transaction holds the mark of the inbox; ``None`` without an inbox.
    """

    __slots__ = ("_messages", "_resources", "log", "task", "tx")

    def __init__(
        self,
        task: str,
        messages: Sequence[Message],
        resources: Mapping[str, Any],
        log: logging.Logger | logging.LoggerAdapter[Any],
        tx: Any = None,
    ) -> None:
        self.task = task
        self.log = log
        self.tx = tx
        self._messages = messages
        self._resources = resources

    def __repr__(self) -> str:
        return f"<TaskContext {self.task} {self.message_id}>"

    @property
    def message_id(self) -> str:
        """Id that SQS gave the message."""
        return self._messages[0].message_id

    @property
    def message_ids(self) -> tuple[str, ...]:
        """Ids of all messages of a batch."""
        return tuple(message.message_id for message in self._messages)

    @property
    def receive_count(self) -> int:
        """Which attempt this is, counted by SQS from 1."""
        return self._messages[0].receive_count

    @property
    def lost(self) -> bool:
        """Whether the worker's hold on the message is lost, so that another may run it too."""
        return any(message.lost for message in self._messages)

    @property
    def attributes(self) -> Mapping[str, str]:
        """Text and number attributes that the sender gave the message."""
        return MappingProxyType(
            {
                name: attribute["StringValue"]
                for name, attribute in self._messages[0].message_attributes.items()
                if "StringValue" in attribute
            }
        )

    @property
    def system_attributes(self) -> Mapping[str, str]:
        """What SQS says of the message, for instance ``SentTimestamp`` and ``MessageGroupId``."""
        return MappingProxyType(self._messages[0].attributes)

    @property
    def resources(self) -> Mapping[str, Any]:
        """Opened resources by the names of the file."""
        return self._resources
