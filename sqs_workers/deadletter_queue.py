"""Sending the messages of a dead-letter queue back to where they came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import Self

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.raw_queue import RawQueue
from sqs_workers.redriven import redriven

__all__ = ["DeadLetterQueue", "PushBackSender"]

PUSH_BACK_DELAY = 1
"""Seconds that a message pushed back to a standard queue stays hidden there."""


@dataclass(eq=False)
class DeadLetterQueue(RawQueue):
    """A dead-letter queue whose messages are pushed back to their queue when it is worked.

    ::

        foo = env.queue("foo")
        foo_dead = env.queue("foo_dead", DeadLetterQueue.maker(foo))
        foo_dead.process_queue(shutdown_policy=IdleShutdown(10))

    :param upstream_queue: where the messages go.
    """

    upstream_queue: Any = None

    @classmethod
    def maker(cls, upstream_queue: GenericQueue | None = None, **kwargs: Any) -> Callable[..., Self]:
        """A ``queue_maker`` for the dead-letter queue of ``upstream_queue``."""
        kwargs.setdefault("processor", PushBackSender(upstream_queue))
        return partial(cls, upstream_queue=upstream_queue, **kwargs)


@dataclass
class PushBackSender:
    """Copies messages to a queue: body and message group as they are, and the attributes but for those that
    say why the message was a dead letter.

    The worker deletes a message only after SQS has taken the copy. On a standard queue the copy is hidden for
    one second. On a FIFO queue it has a deduplication id of its own, derived from the id of the message: with
    the old one SQS might drop it as a duplicate, and a copy made twice is dropped the second time.

    :param upstream_queue: where the copies go.
    """

    upstream_queue: Any = None

    def __call__(self, message: Any) -> None:
        upstream = self.upstream_queue
        if upstream is None:
            raise ConfigurationError("this PushBackSender has no upstream_queue to send to")
        fifo = upstream.is_fifo
        copy = redriven(
            message,
            fifo=fifo,
            where=f"message {message.message_id} for queue {upstream.name!r}",
            deduplication_id=f"pushed-back-{message.message_id}",
            delay_seconds=None if fifo else PUSH_BACK_DELAY,
        )
        upstream.send_now(copy)
