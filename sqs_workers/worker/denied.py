"""Says loudly, but not without end, that credentials lack a permission."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.clock import Clock

__all__ = ["DeniedNotice"]

logger = logging.getLogger(__name__)

# A queue without permission to delete would fill the log: once in so many seconds is loud enough.
_INTERVAL = 60.0


class DeniedNotice:
    """Logs what may not be done to the messages of a queue. Safe for threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said_at: dict[tuple[str, str], float] = {}

    def say(self, queue_name: str, what: str, code: str) -> None:
        """Say that ``what`` was refused with ``code``, if that was not said a moment ago."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._said_at.get((queue_name, what), float("-inf")) < _INTERVAL:
                return
            self._said_at[queue_name, what] = now
        logger.error(
            "These credentials may not %s messages of queue %s (%s): finished jobs will run again. "
            "Allow sqs:DeleteMessage and sqs:ChangeMessageVisibility",
            what,
            queue_name,
            code,
            extra={"queue_name": queue_name},
        )
