"""Conditions on the source, subject and attributes of an event, spelled as SNS spells filter policies.

====================================  ==============================================
condition                             holds for
====================================  ==============================================
``"shop"``                            this text
``{"prefix": "order/"}``              text that begins so; ``suffix`` likewise
``{"anything-but": ["a", "b"]}``      a value that is there and is none of these
``{"numeric": [">=", 10, "<", 20]}``  a number, or text that is one, within all bounds
``{"exists": False}``                 no value
a list of these                       what one of them holds for
====================================  ==============================================

https://docs.aws.amazon.com/sns/latest/dg/sns-subscription-filter-policies.html
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from sqs_workers.exceptions import ConfigurationError

__all__ = ["Condition", "Matches", "make_filter", "matches_filter"]

Condition: TypeAlias = "str | bool | int | float | Mapping[str, Any] | list[Any] | tuple[Any, ...]"
Matches: TypeAlias = Callable[[Any], bool]

_COMPARE: Mapping[str, Callable[[Decimal, Decimal], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches_filter(condition: Condition, value: Any) -> bool:
    """Whether the condition holds for a value; ``None`` is no value.

    :raises ConfigurationError: it is no condition.
    """
    return make_filter(condition)(value)


def make_filter(condition: Any) -> Matches:
    """The condition as a function, checked once.

    :raises ConfigurationError: it is no condition; says which are.
    """
    if isinstance(condition, (list, tuple)):
        if not condition:
            raise ConfigurationError("an empty list is no condition: no event could meet it")
        alternatives = [make_filter(one) for one in condition]
        return lambda value: any(matches(value) for matches in alternatives)
    if isinstance(condition, (str, bool, int, float)):
        return _equal(condition)
    if isinstance(condition, Mapping) and len(condition) == 1:
        ((name, operand),) = condition.items()
        make = _OPERATORS.get(name)
        if make is not None:
            return make(operand)
    raise ConfigurationError(
        f"{condition!r:.200} is no condition: take a text, a number, a list of conditions, or one of "
        f"{', '.join(sorted(_OPERATORS))} as in {{'prefix': 'order/'}}"
    )


def _equal(expected: Any) -> Matches:
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return _numeric(["=", expected])
    text = str(expected).lower() if isinstance(expected, bool) else expected
    return lambda value: value == expected or (isinstance(value, str) and value == text)


def _affix(method: Callable[[str, str], bool], name: str) -> Callable[[Any], Matches]:
    def make(operand: Any) -> Matches:
        if not isinstance(operand, str) or not operand:
            raise ConfigurationError(f"{name!r} takes a text, not {operand!r:.80}")
        return lambda value: isinstance(value, str) and method(value, operand)

    return make


def _anything_but(operand: Any) -> Matches:
    excluded = make_filter(list(operand) if isinstance(operand, (list, tuple)) else operand)
    return lambda value: value is not None and not excluded(value)


def _exists(operand: Any) -> Matches:
    if not isinstance(operand, bool):
        raise ConfigurationError(f"'exists' takes True or False, not {operand!r:.80}")
    return lambda value: (value is not None) is operand


def _numeric(operand: Any) -> Matches:
    if not isinstance(operand, (list, tuple)) or len(operand) not in (2, 4):
        raise ConfigurationError(f"'numeric' takes a list such as ['>=', 10, '<', 20], not {operand!r:.80}")
    bounds = []
    for name, bound in zip(operand[::2], operand[1::2], strict=True):
        number = _number(bound)
        if name not in _COMPARE or number is None or isinstance(bound, str):
            raise ConfigurationError(
                f"'numeric' takes =, <, <=, > or >= and a number, not {name!r:.20}, {bound!r:.20}"
            )
        bounds.append((_COMPARE[name], number))

    def matches(value: Any) -> bool:
        number = _number(value)
        return number is not None and all(compare(number, bound) for compare, bound in bounds)

    return matches


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)) > 50:
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


_OPERATORS: Mapping[str, Callable[[Any], Matches]] = {
    "prefix": _affix(str.startswith, "prefix"),
    "suffix": _affix(str.endswith, "suffix"),
    "anything-but": _anything_but,
    "exists": _exists,
    "numeric": _numeric,
}
