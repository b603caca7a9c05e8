"""Several queues for one worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.queues.running import RunOptions

if TYPE_CHECKING:
    from sqs_workers.worker.contract import Source

__all__ = ["check_worker_options", "sources_of"]

_OF_QUEUES = ("wait_second", "heartbeat", "visibility_timeout", "circuit")
_OF_THE_ENVIRONMENT = ("sources", "transport", "clock", "hooks")


def check_worker_options(options: Iterable[str]) -> None:
    """Refuse what a worker does not know.

    :raises ConfigurationError: names it, and what is known.
    """
    from inspect import signature

    from sqs_workers.worker import Worker

    known = {*signature(Worker).parameters, *_OF_QUEUES} - set(_OF_THE_ENVIRONMENT)
    unknown = set(options) - known
    if unknown:
        raise ConfigurationError(
            f"a worker has no option {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}"
        )


def sources_of(env: Any, queues: Sequence[Any], executor: str, **options: Any) -> list[Source]:
    """The sources of a worker.

    :param queues: names (``mail`` or ``mail:3``), pairs of name and weight, or queues.
    :raises ConfigurationError: a weight is no number of 1 or more, or a queue has no processor.
    """
    sources = []
    for entry in queues:
        queue, weight = _queue_and_weight(env, entry)
        if not queue.has_processors:
            raise ConfigurationError(
                f"queue {queue.name!r} has no processor in this environment: import the modules that "
                "register them"
            )
        run = RunOptions(weight=weight, **options)
        queue.check_runnable(run, executor)
        sources.append(queue.source(run))
    return sources


def _queue_and_weight(env: Any, entry: Any) -> tuple[Any, int]:
    weight: Any = 1
    if isinstance(entry, tuple):
        entry, weight = entry
    elif isinstance(entry, str):
        entry, colon, text = entry.partition(":")
        if colon:
            if not text.isdigit():
                raise ConfigurationError(f"the weight after the colon must be a number: {entry}:{text}")
            weight = int(text)
    return (env.queue(entry) if isinstance(entry, str) else entry), weight
