"""What a running app writes to its log: one line an event, with stable keys and without anybody's data.

A message may carry anything, and an exception may quote it. Records therefore never hold bodies, and of
exceptions the type and the place alone, unless the file asks for their messages.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import IO, TYPE_CHECKING, Any, ClassVar

from sqs_workers.exceptions import SQSError

if TYPE_CHECKING:
    from types import TracebackType

    from sqs_workers.app.spec import Logging

__all__ = ["KEYS", "JsonFormatter", "TextFormatter", "configure", "error_fields"]

KEYS = (
    "event",
    "app",
    "task",
    "queue_name",
    "job_name",
    "message_id",
    "receive_count",
    "duration",
    "delay",
    "permanent",
    "error_type",
    "error_place",
    "error",
    "target",
    "reason",
    "sink",
    "rows",
    "refused",
    "writes",
    "kind",
    "schedule",
)
"""Keys that records may have besides time, level, logger and message."""

_OWN = ("sqs_workers",)
# They log bodies, parameters and signatures, at DEBUG, and botocore at INFO says where it found keys.
_TALKATIVE = ("boto3", "botocore", "urllib3", "s3transfer", "sqlalchemy", "pymysql", "psycopg", "asyncio")


class _Safe(logging.Formatter):
    """Formats without the text of exceptions that are not this package's own.

    :param error_messages: with it all the same.
    """

    def __init__(self, *, error_messages: bool) -> None:
        super().__init__()
        self._error_messages = error_messages
        self.converter = time.gmtime

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = {key: getattr(record, key) for key in KEYS if hasattr(record, key)}
        if record.exc_info and record.exc_info[1] is not None:
            fields |= error_fields(record.exc_info[1], messages=self._error_messages)
        return {key: value for key, value in fields.items() if value is not None and value != ""}

    def _message(self, record: logging.LogRecord) -> str:
        try:
            return record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong format string is no reason to lose the record
            return str(record.msg)

    def _time(self, record: logging.LogRecord) -> str:
        return f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z"


class JsonFormatter(_Safe):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self._time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self._message(record),
            **self._fields(record),
        }
        return json.dumps(line, ensure_ascii=False, default=repr)


class TextFormatter(_Safe):
    """One line for people.

    :param color: paint levels.
    """

    _COLORS: ClassVar[dict[str, str]] = {"WARNING": "33", "ERROR": "31", "CRITICAL": "31;1", "DEBUG": "2"}

    def __init__(self, *, error_messages: bool, color: bool = False) -> None:
        super().__init__(error_messages=error_messages)
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        fields.pop("app", None)
        shown = " ".join(f"{key}={_shown(value)}" for key, value in fields.items())
        level = f"{record.levelname:<7}"
        code = self._COLORS.get(record.levelname)
        if self._color and code:
            level = f"\033[{code}m{level}\033[0m"
        message = self._message(record).replace("\n", "\\n")
        return f"{self._time(record)[11:-1]} {level} {message}{'  ' + shown if shown else ''}"


def _shown(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or "\n" in text else text


def error_fields(error: BaseException, *, messages: bool = False) -> dict[str, Any]:
    """Type and place of an exception, and its text if it cannot quote a message or is asked for."""
    fields: dict[str, Any] = {"error_type": type(error).__name__}
    place = _place(error.__traceback__)
    if place:
        fields["error_place"] = place
    own = isinstance(error, SQSError) and type(error).__module__.startswith(_OWN) and _raised_here(error)
    if messages or own:
        fields["error"] = str(error)
    return fields


def _raised_here(error: BaseException) -> bool:
    """Whether this package raised it; a user's ``PermanentError(item)`` quotes who knows what."""
    last = error.__traceback__
    if last is None:
        return True
    while last.tb_next is not None:
        last = last.tb_next
    return str(last.tb_frame.f_globals.get("__name__", "")).startswith(_OWN)


def _place(tb: TracebackType | None) -> str:
    """The last line of the user's code, or of any code if there is none of the user's."""
    frames = traceback.extract_tb(tb)
    if not frames:
        return ""
    users = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "sqs_workers" not in frame.filename
    ]
    frame = (users or frames)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"


def configure(
    settings: Logging, *, stream: IO[str] | None = None, color: bool | None = None
) -> logging.Handler:
    """Send the records of this process to ``stream`` (standard error by default) as the file asks for.

    :returns: the handler, which replaces those of the root logger.
    """
    target = sys.stderr if stream is None else stream
    terminal = target.isatty()
    formatter: logging.Formatter
    if settings.format == "text" or (settings.format == "auto" and terminal):
        formatter = TextFormatter(
            error_messages=settings.error_messages, color=terminal if color is None else color
        )
    else:
        formatter = JsonFormatter(error_messages=settings.error_messages)
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.level)))
    logging.captureWarnings(True)
    return handler
