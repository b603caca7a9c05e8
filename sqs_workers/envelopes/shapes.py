"""Checked access to the members of foreign JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from sqs_workers.exceptions import UndecodableMessageError

__all__ = ["as_time", "has_texts", "is_object", "optional_text", "text_of"]


def is_object(value: Any) -> bool:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def has_texts(value: Mapping[str, Any], *names: str) -> bool:
    """Whether all members of these names are there and are text."""
    return all(isinstance(value.get(name), str) for name in names)


def text_of(value: Mapping[str, Any], name: str, what: str) -> str:
    """The text of a member.

    :raises UndecodableMessageError: it is absent or something else.
    """
    found = value.get(name)
    if not isinstance(found, str):
        raise UndecodableMessageError(f"{what} has no text {name!r}")
    return found


def optional_text(value: Any, default: str = "") -> str:
    """The value if it is text."""
    return value if isinstance(value, str) else default


def as_time(text: str | None, what: str) -> datetime | None:
    """An ISO 8601 time as AWS writes it, with its zone; UTC if it names none.

    :raises UndecodableMessageError: it is no time.
    """
    if text is None:
        return None
    try:
        # Python 3.10 knows neither the Z nor fractions of other lengths than 3 and 6.
        moment = datetime.fromisoformat(_three_or_six_digits(text.strip().replace("Z", "+00:00")))
    except ValueError:
        raise UndecodableMessageError(f"{what} is no time of ISO 8601") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def _three_or_six_digits(text: str) -> str:
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    return f"{head}.{digits[:6]:0<6}{tail[len(digits) :]}"
