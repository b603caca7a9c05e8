"""Values that travel with every job which a thread or an asyncio task sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from typing_extensions import Self

__all__ = ["JobContext", "SQSContext"]


class SQSContext:
    """Values that travel with every job sent, and that the handler gets on the other side.

    ::

        with sqs.context(remote_addr="127.0.0.1"):
            hello_world.delay(username="Foo")

        sqs.context["remote_addr"] = "127.0.0.1"
        hello_world.delay(username="Foo")
        sqs.context.clear()  # at the end of a web request, for instance

    Each thread and each asyncio task has values of its own. A new thread begins with the values given to the
    constructor, a new task with those of the task that made it.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._initial: dict[str, Any] = kwargs
        self._values: ContextVar[dict[str, Any]] = ContextVar("sqs_workers_context")

    @classmethod
    def from_dict(cls, kwargs: Mapping[str, Any]) -> Self:
        """A context with these values."""
        return cls(**kwargs)

    # The dictionary is replaced and never changed: tasks share it until they write.

    def _read(self) -> dict[str, Any]:
        return self._values.get(self._initial)

    def _write(self, values: dict[str, Any]) -> None:
        self._values.set(values)

    def set(self, **kwargs: Any) -> None:
        """Replace all values."""
        self._write(kwargs)

    def update(self, **kwargs: Any) -> None:
        """Add values."""
        self._write({**self._read(), **kwargs})

    def clear(self) -> None:
        """Remove all values."""
        self._write({})

    def to_dict(self) -> dict[str, Any]:
        """A copy of the values."""
        return self._read().copy()

    def get(self, key: str, default: Any = None) -> Any:
        """One value, or ``default``."""
        return self._read().get(key, default)

    def __getitem__(self, item: str) -> Any:
        return self._read()[item]

    def __setitem__(self, key: str, value: Any) -> None:
        self._write({**self._read(), key: value})

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    @contextmanager
    def __call__(self, **kwargs: Any) -> Iterator[Self]:
        """Add values until the end of the ``with`` block, which puts back what was there before."""
        before = self._read()
        self._write({**before, **kwargs})
        try:
            yield self
        finally:
            self._write(before)

    def __repr__(self) -> str:
        return f"SQSContext({self._read()!r})"


class JobContext(SQSContext):
    """The context that came with a job: one set of values, seen by whatever thread the handler uses.

    It lives as long as the job does, and leaves nothing behind in the thread that ran it.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._own = kwargs

    def _read(self) -> dict[str, Any]:
        return self._own

    def _write(self, values: dict[str, Any]) -> None:
        self._own = values
