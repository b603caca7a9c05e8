"""What decides about the jobs of a queue, besides its backoff and batching policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from sqs_workers.envelopes.policies import Envelope
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.failure_policies import FailurePolicy, Leave
from sqs_workers.worker.contract import JobPolicies

__all__ = ["JobSettings", "QueueSettings", "check_common", "exception_classes", "merge_policies"]


@dataclass(frozen=True)
class JobSettings:
    """Policies of one job, or of all jobs of a queue; ``None`` leaves the question to the next wider scope.

    :param failure_policy: what happens to jobs that have failed for good.
    :param max_attempts: attempts, counted by SQS's receive count; ``None`` leaves it to the redrive policy.
    :param timeout: seconds that a job may run.
    :param permanent_errors: exception classes that no retry can help.
    :param backoff_policy: when a failed job is tried again.
    """

    failure_policy: FailurePolicy | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    permanent_errors: tuple[type[BaseException], ...] = ()
    backoff_policy: Any = None


@dataclass(frozen=True)
class QueueSettings(JobSettings):
    """Settings of a queue.

    :param middleware: wraps every job, inside of the environment's.
    :param accept: names of the codecs that a worker decodes; ``None`` for the environment's.
    :param envelope: opens what AWS has wrapped around messages; ``None`` for jobs alone.
    :param payload: keeps large bodies elsewhere: an :class:`~sqs_workers.s3_payload.S3Payload`.
    """

    middleware: tuple[Any, ...] = field(default=())
    accept: frozenset[str] | None = None
    envelope: Envelope | None = None
    payload: Any = None

    def differences(self, other: QueueSettings) -> list[str]:
        """Names of the settings that ``other`` has otherwise."""
        return [f.name for f in fields(self) if not same(getattr(self, f.name), getattr(other, f.name))]


def same(one: Any, other: Any) -> bool:
    """Whether two policies say the same: equal, or of one class with the same attributes."""
    if one is other or one == other:
        return True
    return type(one) is type(other) and hasattr(one, "__dict__") and vars(one) == vars(other)


def check_common(max_attempts: Any, timeout: Any, where: str) -> None:
    """Refuse settings that cannot work.

    :raises ConfigurationError: names ``where``.
    """
    if max_attempts is not None and (
        isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1
    ):
        raise ConfigurationError(
            f"max_attempts of {where} must be an integer of 1 or more, not {max_attempts!r}"
        )
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        raise ConfigurationError(f"timeout of {where} must be more than 0 seconds, not {timeout!r}")


def exception_classes(classes: Any, where: str) -> tuple[type[BaseException], ...]:
    """Exception classes as a tuple.

    :raises ConfigurationError: one is something else.
    """
    if isinstance(classes, type):
        classes = (classes,)
    if not isinstance(classes, Iterable):
        raise ConfigurationError(f"permanent_errors of {where} must be exception classes, not {classes!r}")
    found = tuple(classes)
    for cls in found:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise ConfigurationError(f"permanent_errors of {where} must be exception classes, not {cls!r}")
    return found


def merge_policies(backoff: Any, scopes: Iterable[JobSettings]) -> JobPolicies:
    """The policies of a job from the settings of job, queue and environment, in this order.

    :param backoff: the queue's backoff policy.
    """
    scopes = list(scopes)

    def first(name: str, default: Any) -> Any:
        return next((value for scope in scopes if (value := getattr(scope, name)) is not None), default)

    return JobPolicies(
        backoff=first("backoff_policy", backoff),
        failure_policy=first("failure_policy", Leave()),
        max_attempts=first("max_attempts", None),
        timeout=first("timeout", None),
    )
