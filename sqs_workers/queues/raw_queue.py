"""A queue with one processor, which gets messages as they are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqs_workers.outgoing import DEFAULT_MESSAGE_GROUP_ID
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.signatures import is_async_callable

__all__ = ["RawQueue"]

logger = logging.getLogger("sqs_workers.queue")

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(eq=False)
class RawQueue(GenericQueue):
    """A queue whose messages come from elsewhere, from EventBridge or S3 for instance.

    ::

        cron = sqs.queue("cron", RawQueue)

        @cron.raw_processor()
        def process(message):
            print(message.body)

    With a batching policy the processor gets a list of messages.

    :param processor: the function that gets the messages.
    """

    processor: Callable[..., Any] | None = None

    def raw_processor(self) -> Callable[[FunctionT], FunctionT]:
        """Decorator: the function gets the messages of the queue. It stays what it was."""
        return self.connect_raw_processor

    def connect_raw_processor(self, processor: FunctionT) -> FunctionT:
        """Give the messages of the queue to ``processor``; returns it."""
        self.refuse_async_batches(processor, "the raw processor")
        logger.debug(
            "Connect queue %s to processor %r", self.name, processor, extra={"queue_name": self.name}
        )
        self.processor = processor
        return processor

    def add_raw_job(
        self,
        message_body: str,
        delay_seconds: float | None = 0,
        deduplication_id: str | None = None,
        group_id: str | None = DEFAULT_MESSAGE_GROUP_ID,
        *,
        attributes: dict[str, dict[str, Any]] | None = None,
    ) -> str | None:
        """Send a message.

        :param message_body: text of the message.
        :param delay_seconds: up to 366 days; on a FIFO queue by the environment's scheduler alone.
        :param deduplication_id: FIFO queues only; left out on others.
        :param group_id: message group; on a standard queue ``default`` stands for none.
        :param attributes: message attributes in boto3's shape.
        :returns: the message id; ``None`` in a batch.
        :raises InvalidMessageError: SQS would refuse it.
        """
        if not self.is_fifo:
            deduplication_id = None
            group_id = None if group_id == DEFAULT_MESSAGE_GROUP_ID else group_id
        message = self._outgoing(
            message_body,
            attributes or {},
            "a raw message",
            delay_seconds=delay_seconds,
            deduplication_id=deduplication_id,
            group_id=group_id,
        )
        return self.send_message(message)

    @property
    def has_async_processor(self) -> bool:
        """Whether the processor is ``async def``."""
        cached = self.__dict__.get("_async_processor")
        if cached is None or cached[0] is not self.processor:
            cached = self.__dict__["_async_processor"] = self.processor, is_async_callable(self.processor)
        return bool(cached[1])

    @property
    def has_processors(self) -> bool:
        return self.processor is not None or self.overrides_process_message

    @property
    def has_async_processors(self) -> bool:
        return self.has_async_processor

    def _make_handler(self) -> Any:
        from sqs_workers.queues.handlers import RawHandler

        return RawHandler(self)
