"""The memory backend as the endpoint sees it: one awaitable call that never blocks the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import TYPE_CHECKING, Any

from sqs_workers.local.wire import Refusal, RefusedError, unreadable
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.memory_sqs.contract import service_model

if TYPE_CHECKING:
    from botocore.exceptions import ClientError, ParamValidationError

__all__ = ["Backend"]

_CLOCK_CHECK_SECONDS = 0.02
_MISSING = re.compile(r'Missing required parameter in \w[^:]*: "(\w+)"')
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
        self._drift = 0.0

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
        """Receive, and wait for messages without a thread."""
        aws, clock = self.session.backend, self.session.clock
        began = clock.monotonic()
        name = params["QueueUrl"].rsplit("/", 1)[-1]
        if name not in self._paused:
            # A busy queue has something at once: that costs no subscription.
            poll = aws.receive_now(params)
            if poll.answer or not poll.wait_seconds:
                return poll.answer
            wait = poll.wait_seconds
        else:
            wait = self._wait_seconds(params)
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        unsubscribe = aws.subscribe(params["QueueUrl"], lambda: _set_soon(loop, changed))
        self._waiting.add(changed)
        self._watch()
        try:
            while True:
                changed.clear()
                rest = began + wait - clock.monotonic()
                if name not in self._paused:
                    poll = aws.receive_now(params)
                    if poll.answer:
                        return poll.answer
                    if poll.next_in is not None:
                        rest = min(rest, poll.next_in)
                if clock.monotonic() >= began + wait:
                    return {}
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), max(rest, 0.001))
        finally:
            self._waiting.discard(changed)
            unsubscribe()

    def _wait_seconds(self, params: dict[str, Any]) -> int:
        if "WaitTimeSeconds" in params:
            return int(params["WaitTimeSeconds"])
        name = "ReceiveMessageWaitTimeSeconds"
        asked = {"QueueUrl": params["QueueUrl"], "AttributeNames": [name]}
        return int(self.session.backend.call("GetQueueAttributes", asked)["Attributes"][name])

    # -- what the control requests do -----------------------------------------

    def pause(self, queue: str, paused: bool) -> None:
        """Let receives of the queue called ``queue`` find nothing, or end that."""
        if paused:
            self._paused.add(queue)
        else:
            self._paused.discard(queue)
            self._wake_all()

    def reset(self) -> None:
        """Forget every queue, as if there had never been one."""
        aws = self.session.backend
        with aws.lock:
            for queue in list(aws.queues.values()):
                aws.drop_queue(queue, aws.clock.monotonic())
            aws.deleted_at.clear()
            aws.attempts.clear()
            aws.tasks.clear()
            aws.running_tasks = 0
        self._paused.clear()

    def advance(self, seconds: float) -> float:
        """Move the session's clock forward, wake the long polls, and return the new time."""
        clock = self.session.clock
        if not hasattr(clock, "advance"):
            raise ValueError("the clock of this session cannot be moved")
        clock.advance(seconds)
        self._wake_all()
        return float(clock.time())

    def _wake_all(self) -> None:
        for changed in self._waiting:
            changed.set()

    def _watch(self) -> None:
        """While somebody waits, look whether the clock was moved."""
        if self._watch_clock and self._watcher is None:
            self._drift = self._clock_drift()
            loop = asyncio.get_running_loop()
            self._watcher = loop.call_later(_CLOCK_CHECK_SECONDS, self._check_clock)

    def _check_clock(self) -> None:
        self._watcher = None
        if self._clock_drift() > self._drift + _CLOCK_CHECK_SECONDS / 2:
            self._wake_all()
        if self._waiting:
            self._watch()

    def _clock_drift(self) -> float:
        return float(self.session.clock.monotonic()) - time.monotonic()


def _set_soon(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    # The thread of another client may still send when the endpoint has ended.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)


def _refusal(error: ClientError) -> Refusal:
    details: Any = error.response["Error"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code = details["Code"]
    return Refusal(status, code, details.get("QueryErrorCode", code), details["Message"])


def _malformed(error: ParamValidationError) -> RefusedError:
    """What SQS says of a request that boto3 would not have sent."""
    report = str(error)
    missing = _MISSING.search(report)
    if missing is not None:
        message = f"The request must contain the parameter {missing[1]}."
        return RefusedError(Refusal(400, "MissingParameter", "MissingRequiredParameterException", message))
    return unreadable(report.partition("\n")[2] or report)


def _served_from(value: Any, old: str, new: str) -> Any:
    """``value``, a queue URL or a list of them, on the host that is served."""
    if isinstance(value, list):
        return [_served_from(item, old, new) for item in value]
    return new + value[len(old) :] if value.startswith(old) else value
