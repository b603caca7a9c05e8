"""A procedure written once, for engines that wait and for those that are awaited.

It is a generator that yields what it needs and gets the answer back, errors included::

    def procedure() -> Steps:
        row = yield InTransaction("reading a row", read)
        answer = yield Ask(call, key)
        return answer
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.connections import is_async, transaction
from sqs_workers.sql.errors import translated

__all__ = ["Ask", "InTransaction", "Steps", "atake", "take"]


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Run ``work(connection)`` in a transaction of its own.

    :ivar what: what fails if the database does, for the error.
    """

    what: str
    work: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """Call ``function(key)``, outside of any transaction."""

    function: Callable[[str], Any]
    key: str


Steps: TypeAlias = Generator[InTransaction | Ask, Any, Any]


def take(engine: Any, steps: Steps) -> Any:
    """What ``steps`` return, on a synchronous engine or a callable that opens a connection.

    :raises ConfigurationError: the engine is asynchronous.
    """
    answer, error = None, None
    try:
        while True:
            step = steps.send(answer) if error is None else steps.throw(error)
            answer, error = None, None
            try:
                if isinstance(step, Ask):
                    answer = step.function(step.key)
                else:
                    with translated(step.what), transaction(engine) as connection:
                        answer = step.work(connection)
            except Exception as raised:  # noqa: BLE001 - the steps get it
                error = raised
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()


async def atake(engine: Any, steps: Steps) -> Any:
    """What ``steps`` return, on an asynchronous engine; what they ask may be a coroutine function or not.

    :raises ConfigurationError: the engine is synchronous.
    """
    if not is_async(engine) or not hasattr(engine, "begin"):
        steps.close()
        raise ConfigurationError(
            "this needs an asynchronous engine: one of sqlalchemy.ext.asyncio.create_async_engine; or use the "
            "methods without 'a'"
        )
    answer, error = None, None
    try:
        while True:
            step = steps.send(answer) if error is None else steps.throw(error)
            answer, error = None, None
            try:
                if isinstance(step, Ask):
                    answer = step.function(step.key)
                    if hasattr(answer, "__await__"):
                        answer = await answer
                else:
                    with translated(step.what):
                        async with engine.begin() as connection:
                            answer = await connection.run_sync(step.work)
            except Exception as raised:  # noqa: BLE001 - the steps get it
                error = raised
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()
