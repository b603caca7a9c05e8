"""A hash of a payload that does not depend on how the payload is written down."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from sqs_workers.exceptions import ConfigurationError

__all__ = ["NO_PAYLOAD", "payload_hash", "same_payload", "stored_id"]

_VERSION = "1"
MAX_ID_LENGTH = 255
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class _NoPayload:
    """Stands for "not to be compared"; ``None`` is a payload like any other."""

    def __repr__(self) -> str:
        return "NO_PAYLOAD"


NO_PAYLOAD = _NoPayload()


def stored_id(event_id: Any) -> str:
    """The id as the table holds it: itself, or a hash if databases would not keep it apart from others.

    That is: more than 255 characters, a blank at the end (which MySQL ignores), a control character (NUL is
    refused by PostgreSQL) or a lone surrogate. Which characters these are does not depend on the version of
    Python, so that workers of several versions agree.

    :raises ConfigurationError: it is empty or not a string.
    """
    if not isinstance(event_id, str) or not event_id:
        raise ConfigurationError(
            f"an event id, or the key of a call, is a string that is not empty, not {type(event_id).__name__}"
        )
    plain = len(event_id) <= MAX_ID_LENGTH and not event_id.endswith(" ") and not _UNSAFE.search(event_id)
    if plain and not event_id.startswith("sha256:"):
        return event_id
    return "sha256:" + hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()


def payload_hash(payload: object) -> str:
    """``VERSION:HASH`` of a payload; mappings hash alike in any order, tuples like lists.

    Takes what codecs carry: JSON's types, bytes, dates, ``Decimal``, ``UUID``, enums and sets.

    :raises ConfigurationError: the payload holds a value of another type; the error names its place.
    """
    if isinstance(payload, _NoPayload):
        return f"{_VERSION}:"
    digest = hashlib.sha256()
    _feed(digest.update, payload, "payload")
    return f"{_VERSION}:{digest.hexdigest()}"


def same_payload(stored: str, computed: str) -> bool:
    """Whether two hashes agree, or cannot be compared because one has no payload or another version."""
    stored_version, _, stored_digest = stored.partition(":")
    version, _, digest = computed.partition(":")
    return stored_version != version or not stored_digest or not digest or stored_digest == digest


def _feed(update: Callable[[bytes], object], value: Any, path: str) -> None:
    """Write ``value`` so that no two different values give the same bytes: type, length, content."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Mapping):
        items = sorted((_digest(key, path), key) for key in value)
        update(b"{%d:" % len(items))
        for key_digest, key in items:
            update(key_digest)
            _feed(update, value[key], f"{path}.{key}" if isinstance(key, str) else f"{path}[...]")
    elif isinstance(value, (list, tuple)):
        update(b"[%d:" % len(value))
        for index, item in enumerate(value):
            _feed(update, item, f"{path}[{index}]")
    elif isinstance(value, (set, frozenset)):
        members = sorted(_digest(item, path) for item in value)
        update(b"<%d:" % len(members))
        for member in members:
            update(member)
    else:
        tag, content = _scalar(value, path)
        update(b"%s%d:" % (tag, len(content)))
        update(content)


def _digest(value: Any, path: str) -> bytes:
    digest = hashlib.sha256()
    _feed(digest.update, value, path)
    return digest.digest()


def _scalar(value: Any, path: str) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return b"b", b"1" if value else b"0"
    if isinstance(value, int):
        return b"i", b"%d" % value
    if isinstance(value, float):
        return b"f", repr(value).encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"y", bytes(value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(timezone.utc)
        return b"t", moment.isoformat().encode()
    if isinstance(value, (date, time)):
        return b"d", value.isoformat().encode()
    if isinstance(value, timedelta):
        return b"l", str(value).encode()
    if isinstance(value, (Decimal, UUID)):
        return b"D" if isinstance(value, Decimal) else b"u", str(value).encode()
    raise ConfigurationError(
        f"{path} holds a {type(value).__name__}, which cannot be hashed: give the inbox a payload of plain "
        "values, for instance the decoded arguments of the job"
    )
