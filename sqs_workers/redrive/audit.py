"""What was done to dead letters, and why: one line of JSON each, and a record of the log."""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from sqs_workers.redrive.letters import Letter

__all__ = ["AuditLog"]

logger = logging.getLogger("sqs_workers.redrive")


@dataclass
class AuditLog:
    """A file to which lines are appended, each on the disk before what it tells of is done.

    A line has ``time``, ``action``, ``reason``, ``user``, ``queue``, the message ids, job, error and receive
    count of the letter, and the SHA-256 of its body; the body itself only if it is asked for.

    :param path: of the file; ``None`` for the log alone.
    :param bodies: whether lines hold bodies.
    """

    path: Path | None = None
    bodies: bool = False
    clock: Clock = SYSTEM_CLOCK

    def write(self, action: str, queue_url: str, letter: Letter, reason: str, **more: Any) -> None:
        """Note what is about to be done to a letter, or that it could not be done."""
        queue = queue_url.rpartition("/")[2]
        entry = {
            "time": datetime.fromtimestamp(self.clock.time(), timezone.utc).isoformat(),
            "action": action,
            "reason": reason,
            "user": _user(),
            "queue": queue,
            "message_id": letter.id,
            "original_id": letter.original_id,
            "job": letter.job,
            "error": letter.error,
            "dead_because": letter.reason,
            "receives": letter.receives,
            "body_sha256": hashlib.sha256(letter.message.body.encode("utf-8", "surrogatepass")).hexdigest(),
            **more,
        }
        if self.bodies:
            entry["body"] = letter.message.body
        if self.path is not None:
            self._append(json.dumps(entry, ensure_ascii=False) + "\n")
        logger.warning(
            "%s message %s of %s: %s",
            action,
            letter.id,
            queue,
            reason,
            extra={"queue_name": queue, "job_name": letter.job, "message_id": letter.id},
        )

    def _append(self, line: str) -> None:
        assert self.path is not None
        # With bodies it holds data of others.
        with open(self.path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(line.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that has no name.
        return str(os.getuid()) if hasattr(os, "getuid") else ""
