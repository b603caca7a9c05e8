"""Events of the workers as log records with stable keys."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from sqs_workers.app.logs import error_fields
from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.hooks import (
    HookRegistry,
    JobDeadLettered,
    JobDiscarded,
    JobFailed,
    JobRetried,
    JobSucceeded,
    LeaseLost,
    MessageEvent,
)

if TYPE_CHECKING:
    from sqs_workers.app.outlets import WriteReport

__all__ = ["Watcher"]

logger = logging.getLogger("sqs_workers.app")

SUMMARY_SECONDS = 30.0


class Watcher:
    """Logs failures, retries, dead letters and sink writes, and successes where the level is DEBUG by now.

    :param error_messages: log the messages of exceptions, too.
    """

    def __init__(
        self, hooks: HookRegistry, *, error_messages: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._messages = error_messages
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[str, list[int]] = {}
        self._since = clock.monotonic()
        if logger.isEnabledFor(logging.DEBUG):
            # Events that nobody wants are not made, and these come for every message.
            hooks.add(JobSucceeded, self._succeeded)
        hooks.add(JobFailed, self._failed)
        hooks.add(JobRetried, self._retried)
        hooks.add(JobDeadLettered, self._dead_lettered)
        hooks.add(JobDiscarded, self._discarded)
        hooks.add(LeaseLost, self._lost)

    def _succeeded(self, event: JobSucceeded) -> None:
        _log(logging.DEBUG, "succeeded", event, "Message done", duration=event.duration)

    def _failed(self, event: JobFailed) -> None:
        how = "Message failed for good" if event.permanent else "Message failed"
        _log(
            logging.ERROR if event.permanent else logging.WARNING,
            "failed",
            event,
            how,
            duration=event.duration,
            permanent=event.permanent,
            **error_fields(event.error, messages=self._messages),
        )

    def _retried(self, event: JobRetried) -> None:
        _log(logging.INFO, "retried", event, "Message will be tried again", delay=event.delay)

    def _dead_lettered(self, event: JobDeadLettered) -> None:
        _log(
            logging.ERROR,
            "dead_lettered",
            event,
            "Message moved to the dead-letter queue",
            target=event.target,
            reason=event.reason,
            error_type=event.error_type,
        )

    def _discarded(self, event: JobDiscarded) -> None:
        _log(
            logging.ERROR,
            "discarded",
            event,
            "Message deleted without having succeeded",
            reason=event.reason,
            error_type=event.error_type,
        )

    def _lost(self, event: LeaseLost) -> None:
        _log(logging.WARNING, "lease_lost", event, "Another worker may get the message too", kind=event.code)

    def wrote(self, report: WriteReport) -> None:
        """A sink has written."""
        logger.debug(
            "Rows written",
            extra={
                "event": "sink_write",
                "sink": report.sink,
                "rows": report.rows,
                "refused": report.refused,
                "duration": report.duration,
            },
        )
        with self._lock:
            counts = self._written.setdefault(report.sink, [0, 0, 0])
            counts[0] += 1
            counts[1] += report.rows
            counts[2] += report.refused
            due = self._clock.monotonic() - self._since >= SUMMARY_SECONDS
        if due:
            self.summarize()

    def summarize(self) -> None:
        """Log what the sinks have written since the last time."""
        with self._lock:
            written, self._written = self._written, {}
            since, self._since = self._since, self._clock.monotonic()
            took = self._since - since
        for sink, (writes, rows, refused) in written.items():
            logger.info(
                "Sink wrote",
                extra={
                    "event": "sink_summary",
                    "sink": sink,
                    "writes": writes,
                    "rows": rows,
                    "refused": refused,
                    "duration": took,
                },
            )


def _log(level: int, name: str, event: MessageEvent, message: str, **fields: Any) -> None:
    logger.log(
        level,
        message,
        extra={
            "event": name,
            "queue_name": event.queue_name,
            "job_name": event.job_name,
            "message_id": event.message_id,
            "receive_count": event.receive_count,
            **fields,
        },
    )
