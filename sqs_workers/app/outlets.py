"""Where rows go, and how rows of messages that run at once share a statement.

A sink writes entries: the rows of one message each. An outlet stands before it and answers each message
alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from sqs_workers.clock import SYSTEM_CLOCK, Clock

__all__ = ["Entry", "GroupCommit", "OneByOne", "Outlet", "Row", "Sink", "WriteReport"]

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one message.

    :ivar event_id: the same at each attempt; idempotency keys are made from it.
    """

    event_id: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What one write did, for logs."""

    sink: str
    rows: int
    refused: int
    duration: float


class Sink(Protocol):
    """Writes entries."""

    @property
    def name(self) -> str:
        """Name in the file."""
        ...

    def write(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        """Write all rows durably; ``None`` or an error for each entry, of whose rows then none was written.

        An exception says that nothing was written.
        """
        ...


class Outlet(Protocol):
    """What a task writes to."""

    @property
    def sink(self) -> Sink: ...

    def enter(self, messages: int = 1) -> None:
        """Messages begin that may write here."""
        ...

    def leave(self, messages: int = 1) -> None:
        """They have ended."""
        ...

    def submit(self, entry: Entry) -> Future[None]:
        """Write the entry; the future is done when its rows are durable."""
        ...

    def close(self) -> None:
        """Write what waits, and end the threads."""
        ...


class GroupCommit:
    """Collects the rows of messages that run at once into one write.

    Nobody waits for company that cannot come: when every message in the works has handed in its rows, and as
    many as came together the last time, they are written at once; otherwise after ``linger``. While one write
    runs, the next collects.

    :param max_rows: rows of one write, unless a single message brings more.
    :param linger: seconds that a row waits for others.
    :param report: told of each write.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        max_rows: int = 500,
        linger: float = 0.002,
        report: Callable[[WriteReport], object] = lambda report: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.sink = sink
        self._max_rows = max_rows
        self._linger = linger
        self._report = report
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[tuple[Entry, Future[None]]] = []
        self._rows = 0
        self._members = 0
        self._company = 1
        self._since = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None

    def enter(self, messages: int = 1) -> None:
        with self._changed:
            self._members += messages

    def leave(self, messages: int = 1) -> None:
        with self._changed:
            self._members -= messages
            if self._waiting and self._is_complete():
                self._changed.notify()

    def submit(self, entry: Entry) -> Future[None]:
        future: Future[None] = Future()
        with self._changed:
            if self._closed:
                future.set_exception(RuntimeError(f"the sink {self.sink.name} is closed"))
                return future
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"sqs-sink-{self.sink.name}", daemon=True
                )
                self._thread.start()
            if not self._waiting:
                self._since = self._clock.monotonic()
            self._waiting.append((entry, future))
            self._rows += len(entry.rows)
            if len(self._waiting) == 1 or self._is_due():
                self._changed.notify()
        return future

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(30.0)

    def _is_due(self) -> bool:
        return (
            self._closed
            or self._rows >= self._max_rows
            or self._is_complete()
            or self._clock.monotonic() - self._since >= self._linger
        )

    def _is_complete(self) -> bool:
        # The messages of a receive start one after another: at the first one's rows the others are not yet in
        # the works, and a write of its own would have them wait for it.
        return len(self._waiting) >= max(self._members, self._company)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._clock.wait(self._changed, None)
                while not self._is_due():
                    self._clock.wait(self._changed, self._since + self._linger - self._clock.monotonic())
                taken = self._take()
            if taken:
                self._write(taken)
            # A local would keep the rows of the last write alive while nothing comes.
            del taken

    def _take(self) -> list[tuple[Entry, Future[None]]]:
        """The oldest entries that fit into one write and are still wanted. Under the lock."""
        count, rows = 0, 0
        for entry, _ in self._waiting:
            if count and rows + len(entry.rows) > self._max_rows:
                break
            count += 1
            rows += len(entry.rows)
        self._company = max(count, self._company // 2)
        taken = self._waiting[:count]
        del self._waiting[:count]
        self._rows -= rows
        if self._waiting:
            self._since = self._clock.monotonic()
        return [(entry, future) for entry, future in taken if future.set_running_or_notify_cancel()]

    def _write(self, taken: Sequence[tuple[Entry, Future[None]]]) -> None:
        began = self._clock.monotonic()
        entries = [entry for entry, _ in taken]
        errors: Sequence[BaseException | None]
        try:
            errors = self.sink.write(entries)
        except Exception as error:  # noqa: BLE001 - handed to each message
            errors = [error] * len(entries)
        self._report(
            WriteReport(
                self.sink.name,
                sum(len(entry.rows) for entry in entries),
                sum(error is not None for error in errors),
                self._clock.monotonic() - began,
            )
        )
        for (_, future), refusal in zip(taken, errors, strict=True):
            if refusal is None:
                future.set_result(None)
            else:
                future.set_exception(refusal)


class OneByOne:
    """For a sink whose entries gain nothing from each other's company: each has a thread of its own.

    :param threads: writes at once.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        threads: int,
        report: Callable[[WriteReport], object] = lambda report: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.sink = sink
        self._report = report
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"sqs-sink-{sink.name}")

    def enter(self, messages: int = 1) -> None:
        """Nobody is waited for."""

    def leave(self, messages: int = 1) -> None:
        """Nobody is waited for."""

    def submit(self, entry: Entry) -> Future[None]:
        return self._pool.submit(self._write, entry)

    def close(self) -> None:
        self._pool.shutdown()

    def _write(self, entry: Entry) -> None:
        began = self._clock.monotonic()
        (error,) = self.sink.write([entry])
        took = self._clock.monotonic() - began
        self._report(WriteReport(self.sink.name, len(entry.rows), int(error is not None), took))
        if error is not None:
            raise error
