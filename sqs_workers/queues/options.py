"""The options of ``process_queue``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT, MAX_WAIT_SECONDS
from sqs_workers.queues.checks import check_policy, is_number

__all__ = ["ProcessOptions", "RunOptions", "split_options"]


class ProcessOptions(TypedDict):
    """Options of ``process_queue`` and ``aprocess_queue``."""

    concurrency: NotRequired[int]
    """Jobs at once; 1 by default."""
    processes: NotRequired[int | None]
    """Run so many processes, each with this concurrency. They are started anew and import the environment."""
    env_path: NotRequired[str | None]
    """Where child processes find the environment: ``package.module:name``. Found by itself if the environment
    is a global variable of an imported module."""
    executor: NotRequired[Literal["auto", "inline", "threads"]]
    """``inline`` runs jobs one at a time in the calling thread, ``threads`` in a pool, ``auto`` takes inline
    for a concurrency of 1. ``async def`` jobs run on an event loop."""
    shutdown_timeout: NotRequired[float]
    """Seconds from the request to stop until the worker returns, at most; 30 by default."""
    heartbeat: NotRequired[float | None]
    """Seconds between extensions of the visibility of messages in hand; by default a third of the visibility
    timeout, 0 for none."""
    visibility_timeout: NotRequired[int | None]
    """Seconds that a receive hides messages; the queue's own by default."""
    circuit: NotRequired[Any]
    """When to pause because of what jobs raise: a ``PauseOn``."""
    missing: NotRequired[Literal["fail", "wait", "create"]]
    """If the queue does not exist: ``fail``, ``wait`` for it, or ``create`` it with SQS's defaults."""
    handle_signals: NotRequired[bool]
    """Stop on SIGTERM and SIGINT while the worker runs in the main thread; the default."""
    receivers: NotRequired[int | None]
    """Receives of the queue under way at once while it is busy: by default, as many as bring messages and keep
    a processor busy, 3 to 16."""
    prefetch: NotRequired[int | None]
    """Messages held above the free slots at most; half a second of work by default."""


def split_options(
    queue_name: str, wait_second: int, options: ProcessOptions
) -> tuple[RunOptions, dict[str, Any], str]:
    """Options of the queue, those of the worker, and what to do if the queue is missing.

    :raises ConfigurationError: an option is not known.
    """
    known = ProcessOptions.__annotations__.keys()
    unknown = options.keys() - known
    if unknown:
        raise ConfigurationError(
            f"process_queue() of queue {queue_name!r} has no option {', '.join(sorted(unknown))}; known "
            f"are {', '.join(sorted(known))}"
        )
    given: dict[str, Any] = dict(options)
    run = RunOptions(
        wait_second,
        given.pop("heartbeat", None),
        given.pop("visibility_timeout", None),
        given.pop("circuit", None),
    )
    missing = given.pop("missing", "fail")
    given.pop("processes", None)
    given.pop("env_path", None)
    return run, given, missing


@dataclass(frozen=True)
class RunOptions:
    """How one queue is received from and held; see :meth:`WorksQueue.process_queue`."""

    wait_seconds: int = 10
    heartbeat: float | None = None
    visibility_timeout: int | None = None
    circuit: Any = None
    weight: int = 1

    def check(self, queue_name: str) -> None:
        """Refuse options that cannot work.

        :raises ConfigurationError: says what to do.
        """
        wait: Any = self.wait_seconds
        if not is_number(wait) or not 0 <= wait <= MAX_WAIT_SECONDS:
            raise ConfigurationError(
                f"wait_second of queue {queue_name!r} must be 0 to {MAX_WAIT_SECONDS}, not "
                f"{self.wait_seconds!r}"
            )
        check_policy("circuit", self.circuit, f"queue {queue_name!r}")
        if self.heartbeat is not None and not (is_number(self.heartbeat) and self.heartbeat >= 0):
            raise ConfigurationError(
                f"heartbeat of queue {queue_name!r} must be 0 (none) or more seconds, not {self.heartbeat!r}"
            )
        timeout = self.visibility_timeout
        if timeout is not None and not (is_number(timeout) and 0 <= timeout <= MAX_VISIBILITY_TIMEOUT):
            raise ConfigurationError(
                f"visibility_timeout of queue {queue_name!r} must be 0 to {MAX_VISIBILITY_TIMEOUT} "
                f"seconds, not {self.visibility_timeout!r}"
            )
        weight: Any = self.weight
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise ConfigurationError(
                f"the weight of queue {queue_name!r} must be 1 or more, not {self.weight!r}"
            )
