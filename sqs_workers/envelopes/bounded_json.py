"""JSON of strangers, read within bounds."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from sqs_workers.exceptions import UndecodableMessageError
from sqs_workers.limits import MAX_MESSAGE_BYTES

__all__ = ["MAX_DEPTH", "read_json"]

MAX_DEPTH = 64
"""Levels of arrays and objects within each other. Events of AWS have less than ten."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def read_json(text: str, what: str, limit: int = MAX_MESSAGE_BYTES) -> Any:
    """The value that ``text`` holds.

    :param what: what it is, for the error: ``the body of message 7f3c...``.
    :param limit: characters at most; by default what SQS allows.
    :raises UndecodableMessageError: no JSON, longer than that, more than :data:`MAX_DEPTH` levels deep,
        or a number that JSON does not have (NaN, infinities) or Python does not read.
    """
    if len(text) > limit:
        raise UndecodableMessageError(f"{what} has more than {limit} characters")
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise UndecodableMessageError(f"{what} is JSON of more than {MAX_DEPTH} levels")
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        # The exception of the parser quotes the text.
        raise UndecodableMessageError(f"{what} is no JSON") from None


def _depth(text: str) -> int:
    deepest = depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        if bracket.group() in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
