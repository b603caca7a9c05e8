"""Getting the messages of one batch call to SQS: retries of what failed, and the order of FIFO groups."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sqs_workers.exceptions import SQSError
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES
from sqs_workers.transport.errors import ErrorKind, classify, classify_code, error_code
from sqs_workers.transport.protocol import EntryError

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.transport.protocol import SendResult

__all__ = ["Packer", "RetryPolicy", "Unsent", "deliver"]

logger = logging.getLogger(__name__)

EARLIER_FAILED = EntryError(
    "EarlierMessageFailed", "not sent, because an earlier message of the same group was not sent"
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a batch call is tried again, on top of the retries of boto3 itself.

    :param attempts: calls for one message, the first included.
    :param base: seconds before the second call; doubled from one to the next.
    :param cap: most seconds between two calls.
    """

    attempts: int = 4
    base: float = 0.2
    cap: float = 5.0

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the call number ``attempt`` (from 1), with jitter."""
        longest = min(self.cap, self.base * 2 ** (attempt - 1))
        return random.uniform(longest / 2, longest)  # noqa: S311


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message that SQS did not take.

    :param position: where it stood among all messages of the batch.
    """

    position: int
    message: OutgoingMessage
    error: EntryError
    cause: BaseException | None = None


Positioned: TypeAlias = "tuple[int, OutgoingMessage]"
SendCall: TypeAlias = "Callable[[list[OutgoingMessage]], list[SendResult]]"


def deliver(
    call: SendCall,
    chunk: Sequence[Positioned],
    *,
    clock: Clock,
    retry: RetryPolicy,
    queue_name: str,
) -> list[Unsent]:
    """Send 1 to 10 messages; what SQS throttles or fails is sent again, and only that.

    A call without an answer is repeated: on a standard queue its messages may arrive twice, on a FIFO queue
    deduplication drops the second.

    :param call: makes one batch call; a result for each message, in their order.
    :returns: what was not sent in the end, in the order of ``chunk``.
    """
    pending = list(chunk)
    given_up: list[Unsent] = []
    for attempt in range(1, retry.attempts + 1):
        failures = _send_once(call, pending)
        again: list[Unsent] = []
        for failure in failures:
            (again if _worth_retrying(failure) else given_up).append(failure)
        if not again:
            break
        if attempt == retry.attempts:
            given_up.extend(again)
            break
        delay = retry.delay(attempt)
        logger.warning(
            "%d of %d message(s) for queue %s were not taken (%s); trying again in %.1f s",
            len(again),
            len(pending),
            queue_name,
            ", ".join(sorted({failure.error.code for failure in again})),
            delay,
            extra={"queue_name": queue_name},
        )
        pending = [(failure.position, failure.message) for failure in again]
        _wait(clock, delay)
    return sorted(given_up, key=lambda failure: failure.position)


def _send_once(call: SendCall, chunk: Sequence[Positioned]) -> list[Unsent]:
    try:
        results = call([message for _, message in chunk])
    except Exception as error:  # noqa: BLE001 - whatever the call raised, its messages must not be lost
        failure = EntryError(error_code(error), str(error), sender_fault=not _may_pass(error))
        return [Unsent(position, message, failure, error) for position, message in chunk]
    return [
        Unsent(position, message, result.error)
        for (position, message), result in zip(chunk, results, strict=True)
        if result.error is not None
    ]


def _worth_retrying(failure: Unsent) -> bool:
    if failure.cause is not None:
        return _may_pass(failure.cause)
    kind = classify_code(failure.error.code)
    if kind in (ErrorKind.THROTTLED, ErrorKind.SERVER):
        # KMS throttling is told as a fault of the sender.
        return True
    return kind.temporary and not failure.error.sender_fault


def _may_pass(error: BaseException) -> bool:
    # The library's own errors (no such queue, for instance) say that somebody has to act.
    return not isinstance(error, SQSError) and classify(error).temporary


def _wait(clock: Clock, seconds: float) -> None:
    condition = threading.Condition()
    deadline = clock.monotonic() + seconds
    with condition:
        while (remaining := deadline - clock.monotonic()) > 0:
            clock.wait(condition, remaining)


@dataclass
class Packer:
    """Messages that wait to be sent, and how they are cut into calls of 10 entries and so many bytes.

    SQS may take some entries of a call and refuse others. On a FIFO queue a call therefore carries one
    message of each group, so that none can overtake an earlier one that failed.

    :param fifo: carry at most one message of each group in a call.
    :param max_bytes: of one call.
    """

    fifo: bool = False
    waiting: list[Positioned] = field(default_factory=list)
    max_bytes: int = MAX_MESSAGE_BYTES
    _bytes: int = 0

    def add(self, position: int, message: OutgoingMessage) -> None:
        """Append a message, which is not above the limit by itself."""
        self.waiting.append((position, message))
        self._bytes += message.size

    def drop_from(self, position: int) -> int:
        """Forget the messages from ``position`` on; returns how many."""
        kept = [entry for entry in self.waiting if entry[0] < position]
        dropped = len(self.waiting) - len(kept)
        self._reset(kept)
        return dropped

    def has_full_call(self) -> bool:
        """Whether waiting for more messages would not make the next call any fuller."""
        if self.fifo:
            # More than one call's worth, for a chance to find ten different groups among them.
            return len(self.waiting) >= 4 * MAX_BATCH_ENTRIES or self._bytes > self.max_bytes
        return len(self.waiting) >= MAX_BATCH_ENTRIES or self._bytes > self.max_bytes

    def next_call(self) -> list[Positioned]:
        """Take the entries of the next call; empty if nothing waits."""
        chunk: list[Positioned] = []
        left: list[Positioned] = []
        groups: set[str | None] = set()
        size = 0
        for index, entry in enumerate(self.waiting):
            message = entry[1]
            full = len(chunk) == MAX_BATCH_ENTRIES or size + message.size > self.max_bytes
            if (full and not self.fifo) or len(chunk) == MAX_BATCH_ENTRIES:
                left.extend(self.waiting[index:])
                break
            if self.fifo and (full or message.group_id in groups):
                # Nothing later of this group may go before it.
                groups.add(message.group_id)
                left.append(entry)
                continue
            groups.add(message.group_id)
            chunk.append(entry)
            size += message.size
        self._reset(left)
        return chunk

    def _reset(self, waiting: list[Positioned]) -> None:
        self.waiting = waiting
        self._bytes = sum(message.size for _, message in waiting)


def as_error_entries(unsent: Sequence[Unsent]) -> list[dict[str, Any]]:
    """``SQSBatchError.errors``: SQS's ``Failed`` entries, each with the entry that was sent."""
    return [
        {
            "Id": str(failure.position),
            "Code": failure.error.code,
            "SenderFault": failure.error.sender_fault,
            "Message": failure.error.message,
            "_message": {"Id": str(failure.position), **failure.message.to_request()},
        }
        for failure in unsent
    ]
