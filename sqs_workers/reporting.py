"""From what a job raised to its outcome, said in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sqs_workers.backoff_policies import backoff_seconds
from sqs_workers.exceptions import PermanentError, UndecodableMessageError
from sqs_workers.outcome import Failed, Outcome, Rejected, RetryRequested
from sqs_workers.retry import RetryJob

__all__ = ["outcome_of_error"]

# The name under which applications have always configured these records.
logger = logging.getLogger("sqs_workers.processors")


def outcome_of_error(
    error: Exception,
    messages: Sequence[Any],
    *,
    queue_name: str,
    job_name: str,
    permanent: tuple[type[BaseException], ...] = (),
) -> Outcome:
    """The outcome of a job, or of one batch, that raised ``error``.

    :param messages: the message, or those of the batch; the first counts for a backoff.
    :param permanent: exception classes that no retry can help.
    """
    what = f"{queue_name}.{job_name}" if job_name else queue_name
    if len(messages) > 1:
        what = f"{what} (batch of {len(messages)})"
    extra: dict[str, Any] = {"queue_name": queue_name, "job_name": job_name}
    if messages:
        extra["message_id"] = messages[0].message_id
        extra["receive_count"] = getattr(messages[0], "receive_count", None)
    if len(messages) > 1:
        extra["message_ids"] = [message.message_id for message in messages]
    message_id = extra.get("message_id", "")
    if isinstance(error, RetryJob):
        return _retry(error, messages, what, extra)
    if isinstance(error, PermanentError) or (permanent and isinstance(error, permanent)):
        # What cannot be read never reached the user's code: its traceback would be the library's own.
        traceback = None if isinstance(error, UndecodableMessageError) else error
        logger.error(
            "%s failed for good on message %s: %s", what, message_id, error, exc_info=traceback, extra=extra
        )
        return Rejected(error)
    logger.error("Error while processing %s, message %s", what, message_id, exc_info=error, extra=extra)
    return Failed(error)


def _retry(error: RetryJob, messages: Sequence[Any], what: str, extra: dict[str, Any]) -> Outcome:
    policy = error.backoff_policy
    try:
        delay = None if policy is None or not messages else backoff_seconds(policy, messages[0])
    except Exception as broken:
        logger.error("The backoff policy %r of %s failed", policy, what, exc_info=broken, extra=extra)
        return Failed(broken)
    if policy is not None:
        extra["backoff_policy"] = policy
    logger.info("Retrying %s", what, extra=extra)
    return RetryRequested(delay)
