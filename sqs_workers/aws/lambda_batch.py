"""The processors of a queue under Lambda.

::

    handler = lambda_handler(queue)

The event source mapping must have ``FunctionResponseTypes=["ReportBatchItemFailures"]``: see
``docs/lambda.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from sqs_workers.aws.lambda_event import BatchResponse, LambdaContext, SQSEvent, messages_of
from sqs_workers.aws.mapping import MappingCheck, MappingWatch
from sqs_workers.exceptions import ConfigurationError, JobTimeoutError
from sqs_workers.outcome import ChangeVisibility, Delete, Failed, Leave, MoveTo, Outcome, Unrun, Unsettled
from sqs_workers.queues.checks import is_number
from sqs_workers.queues.options import RunOptions
from sqs_workers.transport.errors import error_code
from sqs_workers.worker import steps
from sqs_workers.worker.held import Held, ReceiptControl, log_fields
from sqs_workers.worker.moves import copy_message
from sqs_workers.worker.source import SourceState

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["LambdaHandler", "lambda_handler"]

logger = logging.getLogger(__name__)

STOP_BEFORE = 5.0
CLEAN_UP_SECONDS = 1.0
"""Kept back from an ``async def`` job, so that there is time to answer when it is cut off."""


def lambda_handler(
    queue: Any,
    *,
    stop_before: float = STOP_BEFORE,
    backoff: bool = False,
    check_mapping: bool = False,
    lambda_client: Any = None,
) -> LambdaHandler:
    """The function for Lambda to call with batches of ``queue``.

    :param queue: a queue with processors.
    :param stop_before: seconds before Lambda's deadline from which on no further job is started; what is left
        of the batch is reported and comes again. More than the longest job takes.
    :param backoff: make failed messages visible again when the backoff policy says, which is one call to SQS
        each; otherwise they come back after the queue's visibility timeout.
    :param check_mapping: before the first failure is reported, ask Lambda whether the mapping listens, and
        give the whole batch back if it does not.
    :param lambda_client: a boto3 client of Lambda for that.
    :raises ConfigurationError: the queue has no processor, or ``stop_before`` is out of range.
    """
    return LambdaHandler(
        queue,
        stop_before=stop_before,
        backoff=backoff,
        check_mapping=MappingCheck(lambda_client) if check_mapping else None,
    )


class LambdaHandler:
    """Runs the messages of a batch one after another, and answers with those that are to come again.

    One batch at a time, as Lambda calls it.
    """

    def __init__(
        self, queue: Any, *, stop_before: float, backoff: bool, check_mapping: MappingCheck | None
    ) -> None:
        if not is_number(stop_before) or stop_before < 0:
            raise ConfigurationError(f"stop_before must be 0 or more seconds, not {stop_before!r}")
        if not hasattr(queue, "has_processors"):
            raise ConfigurationError(f'lambda_handler() takes a queue, sqs.queue("name"), not {queue!r:.80}')
        if not queue.has_processors:
            raise ConfigurationError(
                f"queue {queue.name!r} has no processor: declare them, or import the modules that do, before "
                "lambda_handler()"
            )
        self._queue = queue
        self._stop_before = stop_before
        self._backoff = backoff
        self._check = check_mapping
        self._clock = queue.env.clock
        self._hooks = queue.env.hooks
        self._watch = MappingWatch(self._clock)
        self._state = SourceState(queue.source(), self._clock)
        self._control = _Control(queue, self._hooks)
        self._loop: asyncio.AbstractEventLoop | None = None
        queue.check_runnable(RunOptions(), "auto")

    def __repr__(self) -> str:
        return f"<LambdaHandler of {self._queue.name}>"

    def __call__(self, event: SQSEvent, context: LambdaContext | None = None) -> BatchResponse:
        """Run a batch.

        :param context: Lambda's; without it there is no deadline.
        :raises ConfigurationError: ``event`` is no batch of SQS, or the mapping does not listen. The whole
            batch comes again.
        """
        records = messages_of(event, self._clock.monotonic())
        batch = [self._hold(message, context) for message, _ in records]
        self._watch.see([held.message.receive_count for held in batch], self._queue.name)
        fifo = self._queue.is_fifo or any(arn.endswith(".fifo") for _, arn in records)
        failed = self._run(batch, context, fifo)
        if failed and self._check is not None and context is not None:
            self._check.require(context.invoked_function_arn, records[0][1])
        self._watch.reported(len(failed))
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    def close(self) -> None:
        """Close the event loop of ``async def`` jobs. Lambda never asks for it; tests may."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def __del__(self) -> None:
        loop = getattr(self, "_loop", None)
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):
                loop.close()

    def _hold(self, message: Message, context: LambdaContext | None) -> Held:
        held = Held(message, self._state, _seconds_left(context) or 0.0)
        message.lease, message.control = held, self._control
        return held

    def _run(self, batch: list[Held], context: LambdaContext | None, fifo: bool) -> list[str]:
        """Message ids that are to come again, in the order of the batch."""
        steps.received(self._hooks, batch)
        failed: dict[str, None] = {}
        failed_groups: set[str | None] = set()
        size = self._state.source.batch.size if self._state.source.batch is not None else 1
        waiting = list(batch)
        while waiting:
            chunk = self._next_chunk(waiting, size, failed_groups if fifo else set(), failed)
            if not chunk:
                continue
            left = _seconds_left(context)
            if left is not None and left <= self._stop_before:
                self._stop([*chunk, *waiting], left, first=len(chunk) + len(waiting) == len(batch))
                failed.update(dict.fromkeys(held.message.message_id for held in (*chunk, *waiting)))
                break
            for held, outcome, seconds in self._outcomes(chunk, left):
                if not self._finish(held, outcome, seconds):
                    failed[held.message.message_id] = None
                    failed_groups.add(held.message.group_id)
        # A group's failures may have been found out of order.
        return [id_ for id_ in dict.fromkeys(held.message.message_id for held in batch) if id_ in failed]

    def _next_chunk(
        self, waiting: list[Held], size: int, failed_groups: set[str | None], failed: dict[str, None]
    ) -> list[Held]:
        """Take up to ``size`` messages off; those of a group that has failed are given back unrun."""
        chunk: list[Held] = []
        while waiting and len(chunk) < size:
            held = waiting.pop(0)
            if held.message.group_id in failed_groups:
                self._finish(held, Unrun("an earlier message of its group failed"), 0.0)
                failed[held.message.message_id] = None
            else:
                chunk.append(held)
        return chunk

    def _outcomes(self, chunk: list[Held], left: float | None) -> list[tuple[Held, Outcome, float]]:
        started = self._clock.monotonic()
        for held in chunk:
            steps.look_up(held)
            steps.started(self._hooks, held, started)
        outcomes: Sequence[Outcome]
        if self._state.source.batch is not None:
            outcomes = steps.run_batch(chunk)
        elif self._state.handler.is_async(chunk[0].message):
            outcomes = [self._run_async(chunk[0], left)]
        else:
            outcomes = [steps.run(chunk[0])]
        seconds = self._clock.monotonic() - started
        return [(held, outcome, seconds) for held, outcome in zip(chunk, outcomes, strict=True)]

    def _run_async(self, held: Held, left: float | None) -> Outcome:
        if self._loop is None:
            # Clients that jobs keep from one call to the next belong to their event loop.
            self._loop = asyncio.new_event_loop()
        deadline = None if left is None else max(left - CLEAN_UP_SECONDS, 0.0)
        limits = [limit for limit in (held.timeout, deadline) if limit is not None]
        try:
            return self._loop.run_until_complete(
                asyncio.wait_for(steps.run_async(held), min(limits) if limits else None)
            )
        except asyncio.TimeoutError:
            if held.timeout is not None and (deadline is None or held.timeout <= deadline):
                error = steps.timeout_error(held)
                logger.error("%s", error, extra=log_fields(held))
                return Failed(error)
            reason = "Lambda's deadline came before its end"
            return Unsettled(reason, JobTimeoutError(f"job {held.label} was cut off: {reason}"))

    def _finish(self, held: Held, outcome: Outcome, seconds: float) -> bool:
        """Settle one message; whether Lambda may delete it."""
        steps.look_up(held)
        action = held.action = steps.settle(held, outcome)
        steps.report(self._hooks, held, outcome, action, seconds)
        match action:
            case Delete():
                done, ok = True, True
            case MoveTo():
                done = ok = self._copy(held, action)
            case ChangeVisibility(delay):
                done, ok = False, self._delay(held, delay, outcome)
            case Leave():
                done, ok = False, True
            case _:
                assert_never(action)
        steps.settled(self._hooks, held, ok)
        if held.deleted_by_handler:
            # Else Lambda acknowledges after the answer, and may not: what belongs to the message stays.
            steps.clean_up(held)
        return done

    def _copy(self, held: Held, action: MoveTo) -> bool:
        env = self._queue.env
        try:
            target = env.resolve_queue_url(action.queue_name)
            env.transport.send(target, copy_message(action, fifo=target.endswith(".fifo")))
        except Exception as error:  # noqa: BLE001 - the original comes again
            logger.error(
                "Message %s of queue %s could not be copied to %s: %s",
                held.message.message_id,
                self._queue.name,
                action.queue_name,
                error_code(error),
                extra=log_fields(held),
            )
            return False
        held.copied = True
        return True

    def _delay(self, held: Held, delay: int, outcome: Outcome) -> bool:
        if not self._backoff or isinstance(outcome, Unrun):
            return True
        try:
            self._control.change_visibility(held.message, delay)
        except Exception as error:  # noqa: BLE001 - it then comes back after the visibility timeout
            logger.warning(
                "The visibility of message %s of queue %s cannot be changed: %s",
                held.message.message_id,
                self._queue.name,
                error_code(error),
                extra=log_fields(held),
            )
            return False
        return True

    def _stop(self, rest: list[Held], left: float, *, first: bool) -> None:
        logger.log(
            logging.ERROR if first else logging.WARNING,
            "%d message(s) of queue %s are given back unrun: %.1f s are left%s",
            len(rest),
            self._queue.name,
            left,
            f", and stop_before is {self._stop_before:g} s: give the function a longer timeout"
            if first
            else "",
            extra={"queue_name": self._queue.name},
        )
        for held in rest:
            self._finish(held, Unrun("Lambda's deadline is near"), 0.0)


class _Control(ReceiptControl):
    """Acts on messages of a batch; asks for the URL of the queue when it is first needed."""

    def __init__(self, queue: Any, hooks: Any) -> None:
        super().__init__(queue.env.transport, None, hooks)
        self._queue = queue

    def delete(self, message: Message) -> None:
        """Acknowledge the message now; Lambda does so again."""
        message.queue_url = message.queue_url or self._queue.url
        super().delete(message)

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Hide the message for ``seconds`` from now."""
        message.queue_url = message.queue_url or self._queue.url
        super().change_visibility(message, seconds)


def _seconds_left(context: LambdaContext | None) -> float | None:
    return None if context is None else context.get_remaining_time_in_millis() / 1000
