"""What a run says of itself: a banner at its start, a status line while a person looks on."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqs_workers.cli.output import errors

if TYPE_CHECKING:
    from sqs_workers.app.building import Built, RunOptions
    from sqs_workers.app.spec import App
    from sqs_workers.worker import Worker

__all__ = ["StatusLine", "banner_of_app", "sqs_name"]

logger = logging.getLogger("sqs_workers.app")


def banner_of_app(app: App, built: Built, options: RunOptions) -> None:
    """What runs where. A table on a terminal, a record of the log elsewhere."""
    console = errors()
    if not console.is_terminal:
        for task in app.tasks:
            logger.info(
                "Task starts: %s",
                task.description or task.name,
                extra={
                    "event": "task_started",
                    "app": app.app.name,
                    "task": task.name,
                    "queue_name": task.source,
                },
            )
        return
    console.print(f"{app.app.name}", style="bold", markup=False)
    for task in app.tasks:
        to = ", ".join(f"{name} ({_where(app, name)})" for name in task.emit) or "nowhere"
        concurrency = options.concurrency or task.concurrency
        console.print(f"  {task.name}: {task.source} ({sqs_name(app, task.source)})", markup=False)
        console.print(f"    -> {task.handler} x {concurrency} -> {to}", markup=False)
    console.print("  Ctrl-C stops in order; twice, at once.", style="dim", markup=False)


def sqs_name(app: App, name: str) -> str:
    """The name on SQS of a queue or ``sqs_sink`` of a file."""
    queue: Any = app.resources[name]
    return queue.name or (queue.url or "").rstrip("/").rpartition("/")[2]


def _where(app: App, name: str) -> str:
    sink: Any = app.resources[name]
    table = getattr(sink, "table", None)
    if table is not None:
        return f"{sink.mode} into {table}"
    return "HTTP" if hasattr(sink, "headers") else f"queue {sqs_name(app, name)}"


class StatusLine:
    """One line at the bottom of a terminal; nothing in a pipe.

    :param handler: of the log, whose lines come above the status line.
    """

    def __init__(self, workers: Mapping[str, Worker], handler: logging.Handler) -> None:
        self._workers = workers
        self._console = errors()
        self._live: Any = None
        self._handler = handler
        self._last = (time.monotonic(), 0)
        self._rate = 0.0

    def __enter__(self) -> StatusLine:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live("", console=self._console, auto_refresh=False, transient=True)
            self._live.start()
            if isinstance(self._handler, logging.StreamHandler):
                # rich moves what is written there above the line that it keeps.
                self._handler.setStream(_Above(self._console))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tick(self) -> None:
        """Show how it stands now."""
        if self._live is None:
            return
        from rich.text import Text

        done, failed, flying, buffered, states = self._counts()
        now = time.monotonic()
        since, before = self._last
        if now - since >= 1.0:
            self._rate = (done - before) / (now - since)
            self._last = (now, done)
        text = (
            f"{states}  done {done:,}  failed {failed:,}  in flight {flying}  waiting {buffered}  "
            f"{self._rate:,.0f}/s"
        )
        self._live.update(Text(text, style="cyan", no_wrap=True, overflow="ellipsis"), refresh=True)

    def _counts(self) -> tuple[int, int, int, int, str]:
        done = failed = flying = buffered = 0
        states: set[str] = set()
        for worker in self._workers.values():
            stats = worker.stats()
            states.add(stats.state)
            flying += stats.in_flight
            buffered += stats.buffered
            for source in stats.sources.values():
                done += source.succeeded
                failed += source.failed
        return done, failed, flying, buffered, "/".join(sorted(states))


class _Above:
    """A stream that prints above the status line."""

    def __init__(self, console: Any) -> None:
        self._console = console

    def write(self, text: str) -> int:
        from rich.text import Text

        if text.strip("\n"):
            self._console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        """The console flushes by itself."""

    def isatty(self) -> bool:
        return True
