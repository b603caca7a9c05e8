"""How long a message stays hidden after its job failed.

A policy is a small class with one method::

    class OfficeHours(BackoffPolicy):
        def get_visibility_timeout(self, message):
            return 60 if message.receive_count < 3 else 3600

The worker makes an integer of the answer and keeps it within 0 to 43,200 seconds, the range of SQS.
"""

from __future__ import annotations

import math
import random
from typing import Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT

__all__ = [
    "DEFAULT_BACKOFF",
    "IMMEDIATE_RETURN",
    "BackoffPolicy",
    "ConstantBackoff",
    "EqualJitterBackoff",
    "ExponentialBackoff",
    "FullJitterBackoff",
    "backoff_seconds",
    "whole_seconds",
]


class BackoffPolicy:
    """Base of backoff policies; any object with this method will do."""

    def get_visibility_timeout(self, message: Any) -> float:
        """Seconds for which ``message`` stays hidden after this failure.

        ``message.attributes["ApproximateReceiveCount"]`` is the number of the attempt that failed, from 1.
        The base class answers 0: visible at once.
        """
        return 0


class ConstantBackoff(BackoffPolicy):
    """The same time after each failure.

    :param backoff_value: seconds, 0 by default: visible again at once.
    """

    def __init__(self, backoff_value: float = 0) -> None:
        self.backoff_value = _non_negative("backoff_value", backoff_value)

    def get_visibility_timeout(self, message: Any) -> int:
        return whole_seconds(self.backoff_value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.backoff_value!r})"


class ExponentialBackoff(BackoffPolicy):
    """A time that grows with each failure, spread by a tenth around its mean.

    The mean is ``min_visibility_timeout + multiplier * base ** (attempt - 1)``.

    :param base: factor from one attempt to the next, 2 by default.
    :param min_visibility_timeout: seconds, 0 by default.
    :param max_visbility_timeout: seconds, 1,800 by default; ``max_visibility_timeout`` is the same.
    :param multiplier: seconds added at the first failure, 1 by default.
    :raises ConfigurationError: a value is negative or not a number, or the minimum is above the maximum.
    """

    def __init__(
        self,
        base: float = 2,
        min_visibility_timeout: float = 0,
        max_visbility_timeout: float = 30 * 60,
        multiplier: float = 1,
        *,
        max_visibility_timeout: float | None = None,
    ) -> None:
        if max_visibility_timeout is None:
            max_visibility_timeout = max_visbility_timeout
        self.base = _non_negative("base", base)
        self.min_visibility_timeout = _non_negative("min_visibility_timeout", min_visibility_timeout)
        self.max_visibility_timeout = _non_negative("max_visibility_timeout", max_visibility_timeout)
        self.multiplier = _non_negative("multiplier", multiplier)
        if self.min_visibility_timeout > self.max_visibility_timeout:
            raise ConfigurationError(
                f"min_visibility_timeout {min_visibility_timeout!r} is above "
                f"max_visibility_timeout {max_visibility_timeout!r}"
            )

    def _mean(self, message: Any) -> float:
        failures_before = int(message.attributes.get("ApproximateReceiveCount", 1)) - 1
        try:
            growth = self.multiplier * float(self.base) ** failures_before
        except OverflowError:
            growth = math.inf if self.multiplier else 0
        return min(self.min_visibility_timeout + growth, self.max_visibility_timeout)

    def get_visibility_timeout(self, message: Any) -> int:
        mean = self._mean(message)
        return self._within_bounds(random.normalvariate(mean, mean / 10))

    def _within_bounds(self, seconds: float) -> int:
        bounded = min(max(seconds, self.min_visibility_timeout), self.max_visibility_timeout)
        return whole_seconds(bounded)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(base={self.base!r}, "
            f"min_visibility_timeout={self.min_visibility_timeout!r}, "
            f"max_visibility_timeout={self.max_visibility_timeout!r}, multiplier={self.multiplier!r})"
        )


class FullJitterBackoff(ExponentialBackoff):
    """Anywhere between the minimum and the exponential time: spreads a crowd of failures best."""

    def get_visibility_timeout(self, message: Any) -> int:
        return self._within_bounds(random.uniform(self.min_visibility_timeout, self._mean(message)))  # noqa: S311


class EqualJitterBackoff(ExponentialBackoff):
    """Anywhere in the upper half of the exponential time."""

    def get_visibility_timeout(self, message: Any) -> int:
        mean = self._mean(message)
        return self._within_bounds(random.uniform(mean / 2, mean))  # noqa: S311


def backoff_seconds(policy: Any, message: Any) -> int:
    """The answer of ``policy`` as SQS takes it: an integer from 0 to 43,200."""
    return whole_seconds(policy.get_visibility_timeout(message))


def whole_seconds(value: float) -> int:
    """``value`` as SQS takes it: an integer from 0 to 43,200.

    :raises ConfigurationError: it is not a number.
    :raises TypeError: it is something else.
    """
    if math.isnan(value):
        raise ConfigurationError("a policy answered nan instead of seconds")
    return round(min(max(value, 0), MAX_VISIBILITY_TIMEOUT))


def _non_negative(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ConfigurationError(f"{name} must be a number of 0 or more, not {value!r}")
    return value


DEFAULT_BACKOFF = ExponentialBackoff()
IMMEDIATE_RETURN = ConstantBackoff()
