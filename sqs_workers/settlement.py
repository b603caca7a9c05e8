"""From how a job ended to what is done with its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from sqs_workers.backoff_policies import backoff_seconds
from sqs_workers.failure_policies import ATTEMPTS_USED_UP, PERMANENT_ERROR, Failure, FailurePolicy
from sqs_workers.outcome import (
    ChangeVisibility,
    Delete,
    Failed,
    Leave,
    Outcome,
    Postponed,
    Rejected,
    RetryRequested,
    Settlement,
    Succeeded,
    Unrun,
    Unsettled,
)

if TYPE_CHECKING:
    from sqs_workers.messages import Message

__all__ = ["decide"]

_DELETE = Delete()


def decide(
    message: Message,
    outcome: Outcome,
    *,
    backoff: Any,
    failure_policy: FailurePolicy,
    max_attempts: int | None = None,
) -> Settlement:
    """What to do with ``message`` after ``outcome``.

    A job that raised ``RetryJob`` has not failed: ``max_attempts`` does not end it.

    :param backoff: policy for failures and retries that name no delay of their own.
    :param failure_policy: decides when no further attempt will be made.
    :param max_attempts: attempts, counted by SQS's receive count; ``None`` leaves the count to the queue's
        redrive policy.
    """
    match outcome:
        case Succeeded() | Postponed():
            return _DELETE
        case RetryRequested(delay):
            return ChangeVisibility(backoff_seconds(backoff, message) if delay is None else delay)
        case Failed(error, delay):
            if max_attempts is not None and message.receive_count >= max_attempts:
                return failure_policy.settle(Failure(message, error, ATTEMPTS_USED_UP))
            return ChangeVisibility(backoff_seconds(backoff, message) if delay is None else delay)
        case Rejected(error):
            return failure_policy.settle(Failure(message, error, PERMANENT_ERROR))
        case Unrun():
            return ChangeVisibility(0)
        case Unsettled():
            return Leave()
        case _:
            assert_never(outcome)
