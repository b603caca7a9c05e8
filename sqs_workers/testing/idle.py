"""Running everything that was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.testing.memory import memory_account

if TYPE_CHECKING:
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["IdleResult", "NotIdleError", "run_until_idle"]


class NotIdleError(AssertionError):
    """Jobs went on and on: one that always fails and is tried again at once, or one that sends itself."""


@dataclass
class IdleResult:
    """What was run.

    :ivar succeeded: jobs that succeeded.
    :ivar failed: attempts that did not.
    """

    succeeded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """All attempts."""
        return self.succeeded + self.failed


def run_until_idle(
    env: SQSEnv,
    *,
    max_jobs: int = 1000,
    advance: bool = False,
    queues: Iterable[str] | None = None,
) -> IdleResult:
    """Run jobs, in this thread, until no queue has a visible message left.

    :param max_jobs: attempts after which it gives up.
    :param advance: also move the clock of the ``MemorySession`` through delays, backoffs and visibility
        timeouts until nothing is left to come.
    :param queues: names of the queues; by default all with a processor but dead-letter queues that push back.
    :raises NotIdleError: more than ``max_jobs`` attempts were made.
    """
    worked = [env.queue(name) for name in queues] if queues is not None else _queues_to_work(env)
    move_on = _mover(env, worked) if advance else _stay
    result = IdleResult()
    while True:
        before = result.total
        for queue in worked:
            done = queue.process_batch()
            result.succeeded += done.succeeded_count()
            result.failed += done.failed_count()
            if result.total > max_jobs:
                raise NotIdleError(
                    f"{result.total} attempts were made and queue {queue.name!r} still has messages "
                    f"({result.failed} attempts failed)"
                )
        if result.total == before and not move_on():
            return result


def _queues_to_work(env: SQSEnv) -> list[Any]:
    return [
        queue
        for queue in env.queues.values()
        if queue.has_processors and getattr(queue, "upstream_queue", None) is None
    ]


def _stay() -> bool:
    return False


def _mover(env: SQSEnv, queues: list[Any]) -> Callable[[], bool]:
    """Moves the clock to the next moment at which a message becomes visible; ``False`` if there is none."""
    from sqs_workers.memory_sqs.peeking import next_change

    account = memory_account(env, "run_until_idle(advance=True)")
    clock: Any = env.clock
    if not hasattr(clock, "advance"):
        raise ConfigurationError(
            f"run_until_idle(advance=True) needs a clock that can be moved, not {clock!r}"
        )

    def move_on() -> bool:
        moments = [moment for queue in queues if (moment := next_change(account, queue.url)) is not None]
        if not moments:
            return False
        clock.advance(min(moments))
        return True

    return move_on
