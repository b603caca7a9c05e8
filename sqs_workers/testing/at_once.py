"""Running jobs where they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from sqs_workers.delays import NOT_BEFORE
from sqs_workers.messages import Message
from sqs_workers.outcome import Failed, Outcome, Rejected, RetryRequested

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["eager"]


@contextmanager
def eager(env: SQSEnv, *, max_retries: int = 3) -> Iterator[None]:
    """Run every job at once, in the thread that sends it; nothing reaches SQS.

    Arguments go through the codec, middleware and processors as they would in a worker. What a job raises is
    raised by ``delay``. A job that raises ``RetryJob`` is run again at once.

    :param max_retries: how often.
    :raises RuntimeError: from ``delay``, of a job that still asks for a retry then.
    """
    before = env.route
    env.route = _RunAtOnce(max_retries)
    try:
        yield
    finally:
        env.route = before


class _RunAtOnce:
    def __init__(self, max_retries: int) -> None:
        self._max_retries = max_retries
        self._numbers = count(1)

    def __call__(self, queue: Any, outgoing: OutgoingMessage) -> str:
        message_id = f"eager-{next(self._numbers)}"
        for attempt in range(1, self._max_retries + 2):
            outcome = _run(queue, _received(outgoing, message_id, attempt))
            if isinstance(outcome, (Failed, Rejected)):
                raise outcome.error
            if not isinstance(outcome, RetryRequested):
                return message_id
        raise RuntimeError(
            f"{queue.name}.{outgoing.job_name} still asks for a retry after {self._max_retries} of them"
        )


def _run(queue: Any, message: Message) -> Outcome:
    if queue.takes_batches:
        outcomes: list[Outcome] = queue.handler.run_batch([message])
        return outcomes[0]
    outcome: Outcome = queue.handler.run(message)
    return outcome


def _received(outgoing: OutgoingMessage, message_id: str, attempt: int) -> Message:
    attributes = {"ApproximateReceiveCount": str(attempt)}
    if outgoing.group_id is not None:
        attributes["MessageGroupId"] = outgoing.group_id
    if outgoing.deduplication_id is not None:
        attributes["MessageDeduplicationId"] = outgoing.deduplication_id
    return Message(
        message_id,
        f"receipt-of-{message_id}",
        outgoing.body,
        attributes,
        # Its time has come: nobody waits here.
        {name: dict(value) for name, value in outgoing.attributes.items() if name != NOT_BEFORE},
        control=_Nothing(),
    )


class _Nothing:
    """A job may act on its message; there is none on SQS."""

    def delete(self, message: Message) -> None:
        """Nothing to delete."""

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Nothing to hide."""
