"""Messages of a dead-letter queue in hand: hidden while somebody decides, given back at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.limits import MAX_BATCH_ENTRIES
from sqs_workers.redrive.letters import Letter
from sqs_workers.transport import Boto3Transport, ReceiveOptions, error_code

if TYPE_CHECKING:
    from types import TracebackType

    from sqs_workers.transport import EntryError

__all__ = ["Hold", "pause"]

logger = logging.getLogger(__name__)

_ATTEMPTS = 3
_RETRY_SECONDS = 0.5


class Hold:
    """Receives letters, each once, and gives back at the end of the ``with`` block what is still in hand.

    What is in hand is hidden for ``visibility`` seconds, and again for as long when half of that has passed
    and a method is called. A process that is killed leaves its letters hidden for that time at most.

    :param client: boto3's SQS client.
    :param url: URL of the dead-letter queue.
    :param visibility: seconds.
    :param wait_seconds: of long polling; SQS looks on all of its servers only if it is above 0.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        visibility: int = 120,
        wait_seconds: int = 1,
    ) -> None:
        self._transport = Boto3Transport(lambda: client, monotonic=clock.monotonic)
        self._url = url
        self._clock = clock
        self._visibility = visibility
        self._wait_seconds = wait_seconds
        self._held: dict[str, Letter] = {}
        self._due: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def receive(self, at_most: int = MAX_BATCH_ENTRIES) -> list[Letter]:
        """Up to 10 letters that are not in hand yet; empty if none is visible."""
        self.keep()
        options = ReceiveOptions(
            min(at_most, MAX_BATCH_ENTRIES),
            self._wait_seconds,
            visibility_timeout=self._visibility,
            system_attributes=("All",),
        )
        # SQS may hand out what is in hand already; then the newer receipt counts.
        for _ in range(_ATTEMPTS):
            messages = self._transport.receive(self._url, options)
            fresh = [Letter(message) for message in messages if message.message_id not in self._held]
            due = self._clock.monotonic() + self._visibility / 2
            for message in messages:
                self._held[message.message_id] = Letter(message)
                self._due[message.message_id] = due
            if fresh or not messages:
                return fresh
        return []

    def scan(self, at_most: int) -> Iterator[Letter]:
        """All letters that can be seen, ``at_most`` of them; those that nobody takes stay in hand."""
        seen = 0
        while seen < at_most:
            letters = self.receive(at_most - seen)
            if not letters:
                return
            seen += len(letters)
            yield from letters

    def keep(self) -> None:
        """Hide what is in hand for longer, if half of its time has passed."""
        now = self._clock.monotonic()
        late = [letter for letter in self._held.values() if self._due[letter.id] <= now]
        for chunk in _chunks(late):
            entries = [(letter.message.receipt_handle, self._visibility) for letter in chunk]
            errors = self._transport.change_visibility_batch(self._url, entries)
            for letter, error in zip(chunk, errors, strict=True):
                self._due[letter.id] = now + self._visibility / 2
                if error is not None:
                    logger.warning(
                        "Message %s cannot be held any longer (%s): others may see it",
                        letter.id,
                        error.code,
                        extra={"message_id": letter.id},
                    )

    def release(self, letters: Sequence[Letter]) -> None:
        """Make letters visible at once."""
        receipts = self._receipts(letters)
        self._forget(letters)
        for chunk in _chunks(letters):
            try:
                errors = self._transport.change_visibility_batch(
                    self._url, [(receipts[letter.id], 0) for letter in chunk]
                )
                codes = {error.code for error in errors if error is not None}
            except Exception as error:  # noqa: BLE001 - they come back by themselves
                codes = {error_code(error)}
            if codes:
                logger.warning(
                    "Some of %d message(s) could not be released (%s): they come back within %d s",
                    len(chunk),
                    ", ".join(sorted(codes)),
                    self._visibility,
                )

    def delete(self, letters: Sequence[Letter]) -> list[str]:
        """Delete letters, trying again what SQS fails; returns the ids of those that it did not delete."""
        left = list(letters)
        for attempt in range(_ATTEMPTS):
            if attempt:
                pause(self._clock, _RETRY_SECONDS * 2**attempt)
            left = [letter for chunk in _chunks(left) for letter in self._delete_once(chunk)]
            if not left:
                break
        self._forget([letter for letter in letters if letter not in left])
        return [letter.id for letter in left]

    def _delete_once(self, letters: Sequence[Letter]) -> list[Letter]:
        receipts = self._receipts(letters)
        try:
            errors: Sequence[EntryError | None] = self._transport.delete_batch(
                self._url, [receipts[letter.id] for letter in letters]
            )
        except Exception as error:  # noqa: BLE001 - tried again, then reported
            logger.warning("%d message(s) could not be deleted: %s", len(letters), error_code(error))
            return list(letters)
        return [letter for letter, error in zip(letters, errors, strict=True) if error is not None]

    def _receipts(self, letters: Iterable[Letter]) -> dict[str, str]:
        # The newest receipt counts, if SQS has handed a message out again meanwhile.
        return {letter.id: self._held.get(letter.id, letter).message.receipt_handle for letter in letters}

    def _forget(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            self._held.pop(letter.id, None)
            self._due.pop(letter.id, None)


def pause(clock: Clock, seconds: float) -> None:
    """Let time pass."""
    condition = threading.Condition()
    deadline = clock.monotonic() + seconds
    with condition:
        while (remaining := deadline - clock.monotonic()) > 0:
            clock.wait(condition, remaining)


def _chunks(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    rest = iter(letters)
    while chunk := list(islice(rest, MAX_BATCH_ENTRIES)):
        yield chunk
