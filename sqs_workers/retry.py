"""The exception with which a job asks to be run again."""

from __future__ import annotations

from typing import Any

from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.exceptions import ConfigurationError

__all__ = ["RetryJob"]


class RetryJob(Exception):
    """Raise it in a job to have it run again later: logged at INFO, and counted as no error.

    :param backoff_policy: when; a number stands for so many seconds, ``None`` for the queue's policy.
    """

    def __init__(self, backoff_policy: Any = None) -> None:
        if isinstance(backoff_policy, (int, float)) and not isinstance(backoff_policy, bool):
            backoff_policy = ConstantBackoff(backoff_policy)
        elif backoff_policy is not None and not hasattr(backoff_policy, "get_visibility_timeout"):
            raise ConfigurationError(
                f"RetryJob takes a backoff policy or a number of seconds, not {backoff_policy!r}"
            )
        self.backoff_policy = backoff_policy
        super().__init__()

    def __str__(self) -> str:
        return "run again later" if self.backoff_policy is None else f"run again: {self.backoff_policy!r}"
