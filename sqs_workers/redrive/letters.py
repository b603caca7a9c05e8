"""A message of a dead-letter queue, and which of them are meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["BY_REDRIVE_POLICY", "Letter", "Where", "masked", "parse_where"]

BY_REDRIVE_POLICY = "redrive policy"
"""Reason of a letter that SQS moved: it says no more."""

_FIELDS = ("job", "error", "reason", "group", "id", "source")
_ATTRIBUTE = "attribute."


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of a dead-letter queue."""

    message: Message

    @property
    def id(self) -> str:
        """Its message id in the dead-letter queue."""
        return self.message.message_id

    @property
    def job(self) -> str:
        """Name of its job; empty if it names none."""
        return self.message.string_attribute("JobName") or ""

    @property
    def reason(self) -> str:
        """Why it is there: ``permanent error``, ``attempts used up``, or ``redrive policy``."""
        return self.message.string_attribute("DeadLetterReason") or BY_REDRIVE_POLICY

    @property
    def error(self) -> str:
        """Class name of the last exception; empty if SQS moved the message, which does not know it."""
        return self.message.string_attribute("DeadLetterErrorType") or ""

    @property
    def original_id(self) -> str:
        """Its message id in the queue that it failed in."""
        return self.message.string_attribute("DeadLetterMessageId") or self.message.message_id

    @property
    def receives(self) -> int:
        """How often it was received, as SQS counts."""
        return self.message.receive_count

    @property
    def receives_before(self) -> int | None:
        """How often it was received before a failure policy copied it here; ``None`` if SQS moved it."""
        text = self.message.string_attribute("DeadLetterReceiveCount")
        return int(text) if text and text.isdigit() else None

    @property
    def group(self) -> str | None:
        """Its message group."""
        return self.message.group_id

    @property
    def source_arn(self) -> str | None:
        """ARN of the queue that it failed in, if SQS or an edited letter says it."""
        return self.message.attributes.get("DeadLetterQueueSourceArn") or self.message.string_attribute(
            "DeadLetterSourceArn"
        )

    @property
    def sent_at(self) -> float:
        """When it was sent, in Unix seconds."""
        return int(self.message.attributes.get("SentTimestamp", 0)) / 1000


@dataclass(frozen=True)
class Where:
    """Which letters are meant: those that match every pattern given. Patterns may hold ``*`` and ``?``.

    :param job: pattern of the job's name.
    :param error: pattern of the exception's class name.
    :param reason: pattern of the reason.
    :param group: pattern of the message group.
    :param id: pattern of the message id, in the dead-letter queue or in the queue that it failed in.
    :param source: pattern of the name of the queue that it failed in.
    :param attributes: patterns of message attributes by name.
    :param test: called with a letter, for what no pattern says.
    """

    job: str | None = None
    error: str | None = None
    reason: str | None = None
    group: str | None = None
    id: str | None = None
    source: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    test: Callable[[Letter], bool] | None = None

    @property
    def everything(self) -> bool:
        """Whether it excludes nothing."""
        return self == Where()

    def matches(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        source = (letter.source_arn or "").rpartition(":")[2]
        pairs = [
            (self.job, (letter.job,)),
            (self.error, (letter.error,)),
            (self.reason, (letter.reason,)),
            (self.group, (letter.group or "",)),
            (self.id, (letter.id, letter.original_id)),
            (self.source, (source,)),
        ]
        pairs += [
            (pattern, (letter.message.string_attribute(name) or "",))
            for name, pattern in self.attributes.items()
        ]
        for pattern, values in pairs:
            if pattern is not None and not any(fnmatchcase(value, pattern) for value in values):
                return False
        return self.test is None or self.test(letter)


def parse_where(conditions: Iterable[str]) -> Where:
    """``Where`` from texts like ``job=send_*`` or ``attribute.tenant=7``.

    :raises ConfigurationError: a text is no condition.
    """
    values: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    for condition in conditions:
        name, sign, pattern = condition.partition("=")
        if sign and name.startswith(_ATTRIBUTE) and name != _ATTRIBUTE:
            attributes[name.removeprefix(_ATTRIBUTE)] = pattern
        elif sign and name in _FIELDS and name not in values:
            values[name] = pattern
        else:
            raise ConfigurationError(
                f"{condition!r} is no condition: write NAME=PATTERN, each name once, with one of "
                f"{', '.join(_FIELDS)} or attribute.NAME"
            )
    return Where(**values, attributes=attributes)


def masked(body: str) -> str:
    """What a body looks like, without what it says: the names of a JSON object, and types and lengths."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return f"<text of {len(body.encode('utf-8', 'surrogatepass'))} bytes>"
    if not isinstance(value, dict):
        return _kind(value)
    return "{" + ", ".join(f"{name}: {_kind(item)}" for name, item in value.items()) + "}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "<null>"
        case bool():
            return "<bool>"
        case int() | float():
            return "<number>"
        case str():
            return f"<text of {len(value)}>"
        case list():
            return f"<list of {len(value)}>"
        case _:
            return f"<object of {len(value)}>"
