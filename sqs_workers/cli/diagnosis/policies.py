"""Whether a policy of a queue or a key lets a service of AWS do something.

Judges what such policies usually hold. What it does not know, it says it does not know.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Request", "Verdict", "judge", "new_sid", "statements_of"]

_STEPS = ("principal", "action", "resource", "condition")
_OPERATOR = re.compile(
    r"(?:ForAnyValue:|ForAllValues:)?(String|Arn|Bool)(Not)?(Equals|Like|EqualsIgnoreCase)?(IfExists)?"
)


@dataclass(frozen=True)
class Request:
    """What a service wants to do.

    :param service: its principal, for instance ``sns.amazonaws.com``.
    :param action: for instance ``sqs:SendMessage``.
    :param resource: ARN.
    :param context: condition keys, in lower case, and their values.
    """

    service: str
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Whether a policy allows a request.

    :ivar allowed: ``None`` if it depends on conditions that are not known here.
    :ivar misses: at which step the allowing statement that came nearest failed: ``principal``, ``action``,
        ``resource`` or ``condition``; empty without such a statement.
    :ivar denied_by: the statement that denies it.
    :ivar nearest: the allowing statement that came nearest.
    """

    allowed: bool | None
    misses: str = ""
    denied_by: Mapping[str, Any] | None = None
    nearest: Mapping[str, Any] | None = None


def statements_of(policy: str | None) -> list[dict[str, Any]]:
    """The statements of a policy's text; none if it is no policy."""
    try:
        document = json.loads(policy or "{}")
    except ValueError:
        return []
    found = document.get("Statement") if isinstance(document, dict) else None
    return [item for item in (found if isinstance(found, list) else [found]) if isinstance(item, dict)]


def new_sid(statements: list[dict[str, Any]], wanted: str) -> str:
    """A statement id made of ``wanted`` that no statement has: within a policy each is unique."""
    taken = {statement.get("Sid") for statement in statements}
    base = "".join(char for char in wanted if char.isascii() and char.isalnum()) or "Topic"
    ids = (base if number == 1 else f"{base}{number}" for number in range(1, len(statements) + 2))
    return next(sid for sid in ids if sid not in taken)


def judge(statements: list[dict[str, Any]], request: Request) -> Verdict:
    """Whether these statements allow the request: one must, and none may deny it."""
    unknown = False
    best, nearest, allowed = -1, None, False
    for statement in statements:
        results = list(_steps(statement, request))
        if statement.get("Effect") == "Deny":
            if all(result is True for result in results):
                return Verdict(False, denied_by=statement)
            unknown |= all(result is not False for result in results)
            continue
        if all(result is True for result in results):
            allowed = True
        elif all(result is not False for result in results):
            unknown = True
        else:
            reached = results.index(False)
            if reached > best:
                best, nearest = reached, statement
    if unknown:
        return Verdict(None)
    return Verdict(allowed) if allowed else Verdict(False, _STEPS[best] if best >= 0 else "", nearest=nearest)


def _steps(statement: Mapping[str, Any], request: Request) -> Iterator[bool | None]:
    """Principal, action, resource, condition: whether each fits; ``None`` if that is not known."""
    yield _principal(statement, request.service)
    yield _fits(statement, "Action", request.action, ignore_case=True)
    yield _fits(statement, "Resource", request.resource, ignore_case=False)
    conditions = statement.get("Condition")
    results = list(_conditions(conditions if isinstance(conditions, dict) else {}, request.context))
    yield False if False in results else (None if None in results else True)


def _principal(statement: Mapping[str, Any], service: str) -> bool | None:
    if "NotPrincipal" in statement:
        return None
    principal = statement.get("Principal")
    if principal == "*":
        return True
    if not isinstance(principal, dict):
        return False
    if "*" in _texts(principal.get("AWS")):
        return True
    # A region that has to be opted into has a principal of its own: sns.<region>.amazonaws.com.
    name, _, domain = service.partition(".")
    return any(
        text == service or (text.startswith(f"{name}.") and text.endswith(f".{domain}"))
        for text in _texts(principal.get("Service"))
    )


def _fits(statement: Mapping[str, Any], key: str, value: str, *, ignore_case: bool) -> bool:
    if f"Not{key}" in statement:
        return not any(_like(pattern, value, ignore_case) for pattern in _texts(statement[f"Not{key}"]))
    return any(_like(pattern, value, ignore_case) for pattern in _texts(statement.get(key)))


def _conditions(conditions: Mapping[str, Any], context: Mapping[str, str]) -> Iterator[bool | None]:
    for operator, pairs in conditions.items():
        match = _OPERATOR.fullmatch(operator)
        for key, wanted in (pairs if isinstance(pairs, dict) else {}).items():
            value = context.get(key.lower())
            if match is None or value is None:
                yield None
                continue
            kind, negated, how, _ = match.groups()
            ignore_case = kind == "Bool" or how == "EqualsIgnoreCase"
            patterns = _texts(wanted)
            if kind == "String" and how != "Like":
                found = any(_same(text, value, ignore_case) for text in patterns)
            else:
                found = any(_like(text, value, ignore_case) for text in patterns)
            yield found is not bool(negated)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    # A policy may hold true where it means "true".
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in values if item is not None]


def _same(one: str, other: str, ignore_case: bool) -> bool:
    return one.lower() == other.lower() if ignore_case else one == other


def _like(pattern: str, value: str, ignore_case: bool) -> bool:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, value, re.IGNORECASE if ignore_case else 0) is not None
