"""Whether a handler gets one job at a time or a list of them.

A policy of one's own derives from :class:`BatchingConfiguration`::

    class FullHouse(BatchingConfiguration):
        batching_enabled = True
        batch_size = 52
        wait_seconds = 5.0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqs_workers.exceptions import ConfigurationError

__all__ = [
    "BatchMessages",
    "BatchOutcome",
    "BatchingConfiguration",
    "FailedItem",
    "NoBatching",
    "PartialBatchError",
]


class BatchingConfiguration(ABC):
    """How many jobs a handler gets at once."""

    wait_seconds: float = 1.0
    """How long a batch that has its first message waits for more."""

    @property
    @abstractmethod
    def batching_enabled(self) -> bool:
        """Whether the handler gets a list."""
        ...

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Most jobs that it gets at once."""
        ...


class NoBatching(BatchingConfiguration):
    """One job at a time: the default."""

    @property
    def batching_enabled(self) -> bool:
        return False

    @property
    def batch_size(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "NoBatching()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class BatchMessages(BatchingConfiguration):
    """The handler gets a list of up to ``batch_size`` jobs of its name.

    :param batch_size: jobs, 1 or more; above 10 they come from several receives.
    :param wait_seconds: how long a batch that has its first message waits for more, 1 second by default.
    :raises ConfigurationError: a value is out of range.
    """

    def __init__(self, batch_size: int, wait_seconds: float = 1.0) -> None:
        size: Any = batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigurationError(f"batch_size must be an integer of 1 or more, not {batch_size!r}")
        if not wait_seconds >= 0:
            raise ConfigurationError(f"wait_seconds must be 0 or more, not {wait_seconds!r}")
        self.number_of_messages = batch_size
        self.wait_seconds = wait_seconds

    @property
    def batching_enabled(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        return self.number_of_messages

    def __repr__(self) -> str:
        return f"BatchMessages({self.number_of_messages}, wait_seconds={self.wait_seconds})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.number_of_messages, self.wait_seconds))


@dataclass(frozen=True, slots=True)
class FailedItem:
    """One item of a batch that failed.

    :param item: its index in the list that the handler got, or the item itself.
    :param error: why; ``None`` if it is not known.
    :param delay: seconds until the next attempt; ``None`` for the backoff policy.
    :param permanent: no retry can help: the failure policy applies.
    """

    item: Any
    error: BaseException | None = None
    delay: int | None = None
    permanent: bool = False


class BatchOutcome:
    """What a batch handler returns when some of its items failed; the others are acknowledged.

    ::

        @queue.processor("index")
        def index(jobs):
            outcome = BatchOutcome()
            for position, job in enumerate(jobs):
                if not store(job):
                    outcome.fail(position, delay=60)
            return outcome

    :param failed: indexes (or items) that failed, or a mapping of them to seconds until the next attempt.
    """

    def __init__(self, failed: Mapping[Any, int | None] | Iterable[Any] = ()) -> None:
        self.failed: list[FailedItem] = []
        if isinstance(failed, Mapping):
            for item, delay in failed.items():
                self.fail(item, delay=delay)
        else:
            for item in failed:
                self.fail(item)

    def fail(
        self,
        item: Any,
        *,
        error: BaseException | None = None,
        delay: int | None = None,
        permanent: bool = False,
    ) -> None:
        """Name an item that failed; see :class:`FailedItem`."""
        self.failed.append(
            item if isinstance(item, FailedItem) else FailedItem(item, error, delay, permanent)
        )

    def __repr__(self) -> str:
        return f"<BatchOutcome, {len(self.failed)} failed>"


class PartialBatchError(Exception):
    """Raised by a batch handler, says the same as returning a :class:`BatchOutcome`.

    :param failed: as for :class:`BatchOutcome`, or one.
    """

    def __init__(self, failed: BatchOutcome | Mapping[Any, int | None] | Iterable[Any]) -> None:
        self.outcome = failed if isinstance(failed, BatchOutcome) else BatchOutcome(failed)
        super().__init__(f"{len(self.outcome.failed)} item(s) of the batch failed")
