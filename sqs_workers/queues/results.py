"""What handlers answer with, as outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqs_workers.backoff_policies import backoff_seconds
from sqs_workers.batching import BatchOutcome, FailedItem, PartialBatchError
from sqs_workers.exceptions import ConfigurationError, HandlerRefusedError
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT
from sqs_workers.outcome import (
    Failed,
    Outcome,
    Postponed,
    Rejected,
    RetryRequested,
    Succeeded,
    Unrun,
    Unsettled,
)
from sqs_workers.processors import ProcessingResult

if TYPE_CHECKING:
    from sqs_workers.job import BatchJob

__all__ = ["batch_outcomes", "outcome_of_result"]

logger = logging.getLogger("sqs_workers.processors")

_OUTCOMES = (Succeeded, RetryRequested, Failed, Rejected, Unrun, Unsettled, Postponed)
_SUCCEEDED = Succeeded()


def outcome_of_result(result: Any, messages: Sequence[Any], what: str) -> Outcome:
    """The outcome of a ``process_message`` that answers with ``True``, ``False`` or a ``ProcessingResult``.

    Anything but a clear yes leaves the message on the queue.
    """
    if result is True:
        return _SUCCEEDED
    if isinstance(result, _OUTCOMES):
        return result
    if isinstance(result, ProcessingResult):
        if result.outcome is not None:
            return result.outcome
        if result.success:
            return _SUCCEEDED
        policy = result.backoff_policy
        delay = None if policy is None or not messages else backoff_seconds(policy, messages[0])
        return Failed(HandlerRefusedError(f"{what} was answered with {result!r}"), delay)
    if result is None:
        logger.error(
            "process_message of %s returned None, which counts as a failure: return True when the job is "
            "done",
            what,
        )
    return Failed(HandlerRefusedError(f"{what} was answered with {result!r}"))


def batch_outcomes(result: Any, job: BatchJob, failure: Callable[[Exception], Outcome]) -> list[Outcome]:
    """The outcomes of a batch whose handler returned or raised ``result``.

    :param failure: the outcome of an exception, said in the log.
    """
    count = len(job.messages)
    if isinstance(result, PartialBatchError):
        result = result.outcome
    if isinstance(result, Exception):
        return [failure(result)] * count
    if not isinstance(result, BatchOutcome):
        return [_SUCCEEDED] * count
    outcomes: list[Outcome] = [_SUCCEEDED] * count
    try:
        for item in result.failed:
            outcomes[_index(item, job)] = _failed_item(item)
    except ConfigurationError as error:
        # Not knowing which items failed, none may be acknowledged.
        return [failure(error)] * count
    logger.error(
        "%d of %d item(s) of a batch of %s.%s failed",
        len(result.failed),
        count,
        job.queue_name,
        job.name,
        extra={"queue_name": job.queue_name, "job_name": job.name},
    )
    return outcomes


def _failed_item(item: FailedItem) -> Outcome:
    error = item.error or HandlerRefusedError("the batch handler named this item as failed")
    if item.permanent:
        return Rejected(error)
    if item.delay is None:
        return Failed(error)
    return Failed(error, min(max(round(item.delay), 0), MAX_VISIBILITY_TIMEOUT))


def _index(item: FailedItem, job: BatchJob) -> int:
    named = item.item
    if isinstance(named, int) and not isinstance(named, bool):
        if 0 <= named < len(job.messages):
            return named
        raise ConfigurationError(f"the batch has {len(job.messages)} items, and none with the index {named}")
    for candidates in (job.items, job.messages):
        for index, candidate in enumerate(candidates):
            if candidate is named:
                return index
    raise ConfigurationError("a batch handler named an item as failed that is not of its batch")
