"""The memory backend as the endpoint sees it: one awaitable call that never blocks the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqs_workers.local.wire import Refusal, RefusedError, unreadable
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.memory_sqs.contract import service_model

if TYPE_CHECKING:
    from botocore.exceptions import ClientError, ParamValidationError

__all__ = ["Backend"]

_CLOCK_CHECK_SECONDS = 0.02
_URL_RESULTS = {
    "CreateQueue": "QueueUrl",
    "GetQueueUrl": "QueueUrl",
    "ListQueues": "QueueUrls",
    "ListDeadLetterSourceQueues": "queueUrls",
}


class Backend:
    """The queues of a session, for an event loop.

    :param session: whose queues; ``None`` makes a new session.
    :param watch_clock: look after a clock that is moved by somebody else than :meth:`advance`, so
        that long polls see it.
    """

    def __init__(self, session: MemorySession | None = None, *, watch_clock: bool = False) -> None:
        # Imported now: the first error must not stop the event loop for an import.
        from botocore.exceptions import ClientError, ParamValidationError

        self._client_error: type[ClientError] = ClientError
        self._validation_error: type[ParamValidationError] = ParamValidationError
        self.session = session or MemorySession()
        self.operations = frozenset(service_model().operation_names)
        self._paused: set[str] = set()
        self._waiting: set[asyncio.Event] = set()
        self._watch_clock = watch_clock
        self._watcher: asyncio.TimerHandle | None = None

    async def perform(self, operation: str, params: dict[str, Any], host: str) -> dict[str, Any]:
        """Do one operation.

        :param host: host and port with which the queue URLs of the answer begin.
        :returns: the answer in boto3's shape, without ``ResponseMetadata``.
        :raises RefusedError: when SQS would refuse.
        """
        aws = self.session.backend
        try:
            aws.validate(operation, params)
            if operation == "ReceiveMessage":
                return await self._receive(params)
            result = aws.call(operation, params)
        except self._client_error as error:
            raise RefusedError(_refusal(error)) from None
        except self._validation_error as error:
            raise _malformed(error) from None
        name = _URL_RESULTS.get(operation)
        if name is not None and name in result:
            result = {**result, name: _served_from(result[name], aws.endpoint_url, f"http://{host}")}
        return result

    async def _receive(self, params: dict[str, Any]) -> dict[str, Any]:
        aws, clock = self.session.backend, self.session.clock
        url = params["QueueUrl"]
        # Most receives of a busy queue find something: they cost no subscription.
        began = clock.monotonic()
        paused = self._is_paused(url)
        poll = aws.receive_now({**params, "MaxNumberOfMessages": 1, "WaitTimeSeconds": 0} if False else params)
        return poll.answer

    # -- held queues and the clock ------------------------------------------

    def advance(self, seconds: float) -> float:
        """Move the session's clock forward, wake the long polls, and return the new time."""
        clock = self.session.clock
        if not hasattr(clock, "advance"):
            raise ValueError("the clock of this session cannot be moved")
        clock.advance(seconds)
        self.wake_all()
        return float(clock.time())
