"""Values of a row as the driver of each database takes them.

===============  ==========================  ==========================  ===================================
value            PostgreSQL                  MySQL, MariaDB              SQLite
===============  ==========================  ==========================  ===================================
``None``         NULL                        NULL                        NULL
dict, list       JSON text                   JSON text                   JSON text
list, ARRAY      as it is                    -                           -
column
datetime with    ``timestamptz`` as it is,   UTC, without zone           UTC, ``YYYY-MM-DD HH:MM:SS.ffffff``
zone             ``timestamp`` in UTC
datetime         as it is                    as it is                    the same text
without zone
``Decimal``      exact                       exact                       text; a NUMERIC column makes a float
``UUID``         as it is                    text with dashes            text with dashes
bytes            as they are                 as they are                 as they are
NaN              as it is                    refused                     refused
===============  ==========================  ==========================  ===================================

Within JSON text ``Decimal``, ``UUID`` and dates become strings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

__all__ = ["PLAIN", "SHORT", "Unsuitable", "can_be_written", "convert"]

PLAIN = frozenset({str, int, bool, type(None)})
SHORT = (PLAIN - {str}) | {float, Decimal, date, datetime, time, UUID}
"""Types of values of a few dozen characters at most."""


class Unsuitable(Exception):
    """A value that no column of this database takes; the text names its type, never the value."""


def convert(value: Any, *, family: str, column_kind: str, serialize_json: bool) -> Any:
    """``value`` as the driver takes it.

    :param family: ``postgresql``, ``mysql`` or ``sqlite``.
    :param column_kind: ``array``, ``aware`` (timestamp with time zone) or anything else.
    :raises Unsuitable: no column takes it.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, Enum):
        return convert(value.value, family=family, column_kind=column_kind, serialize_json=serialize_json)
    if isinstance(value, (dict, list, tuple, set, frozenset, Mapping)):
        return _collection(value, family, column_kind, serialize_json)
    if isinstance(value, datetime):
        return _moment(value, family, column_kind)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if family == "sqlite":
        return _for_sqlite(value)
    return _for_mysql(value) if family == "mysql" else value


def can_be_written(values: Sequence[Any]) -> bool:
    """Whether psycopg can write all of ``values`` for sure.

    If it fails at one of them within a pipeline, it logs what the server says of those before, which quotes them.
    """
    if not set(map(type, values)) <= SHORT | {str, bytes}:
        return False
    text = "".join([value for value in values if type(value) is str])
    try:
        return "\0" not in text and (text.isascii() or bool(text.encode()))
    except UnicodeEncodeError:
        return False


def _collection(value: Any, family: str, column_kind: str, serialize_json: bool) -> Any:
    if isinstance(value, (set, frozenset)):
        # PyMySQL would write its members into the statement.
        raise Unsuitable("no column takes a set")
    if column_kind == "array" and not isinstance(value, Mapping):
        return list(value)
    if serialize_json:
        return _to_json(value)
    if family != "postgresql":
        raise Unsuitable("lists and dicts have to be JSON text here")
    return value


def _for_mysql(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Unsuitable("MySQL has no NaN and no infinity")
    return value


def _moment(value: datetime, family: str, column_kind: str) -> Any:
    if value.tzinfo is not None and not (family == "postgresql" and column_kind == "aware"):
        try:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        except OverflowError:
            raise Unsuitable("in UTC a moment in it lies before the year 1 or after 9999") from None
    return value.isoformat(" ", "microseconds") if family == "sqlite" else value


def _for_sqlite(value: Any) -> Any:
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, float) and math.isnan(value):
        raise Unsuitable("SQLite would store NaN as NULL")
    return value


def _to_json(value: Any) -> str:
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError):
        raise Unsuitable("a list or dict in it cannot be written as JSON") from None


def _in_json(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_in_json)
