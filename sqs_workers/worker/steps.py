"""The steps of one job, each a small function over one held message. They call no AWS and hold no lock."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from sqs_workers import settlement
from sqs_workers.backoff_policies import whole_seconds
from sqs_workers.exceptions import JobTimeoutError
from sqs_workers.failure_policies import ATTEMPTS_USED_UP, PERMANENT_ERROR
from sqs_workers.hooks import (
    JobDeadLettered,
    JobDiscarded,
    JobFailed,
    JobPostponed,
    JobRetried,
    JobStarted,
    JobSucceeded,
    MessageReceived,
    MessageReleased,
    MessageSettled,
)
from sqs_workers.outcome import (
    ChangeVisibility,
    Delete,
    Failed,
    Leave,
    MoveTo,
    Outcome,
    Postponed,
    Rejected,
    RetryRequested,
    Settlement,
    Succeeded,
    Unrun,
    Unsettled,
)
from sqs_workers.worker.contract import JobPolicies
from sqs_workers.worker.held import Held, event_fields, log_fields

if TYPE_CHECKING:
    from sqs_workers.hooks import HookRegistry
    from sqs_workers.worker.source import SourceState

__all__ = [
    "DELETE",
    "LEAVE",
    "RELEASE",
    "clean_up",
    "error_of",
    "look_up",
    "received",
    "report",
    "run",
    "run_async",
    "run_batch",
    "settle",
    "settled",
    "started",
    "succeeded",
    "timeout_error",
]

logger = logging.getLogger(__name__)

DELETE = Delete()
_OUTCOMES = (Succeeded, RetryRequested, Failed, Rejected, Unrun, Unsettled, Postponed)
LEAVE = Leave()
RELEASE = ChangeVisibility(0)


def received(hooks: HookRegistry, messages: Sequence[Held]) -> None:
    """Tell the hooks what a receive brought."""
    if hooks.wants(MessageReceived):
        for held in messages:
            look_up(held)
            hooks.emit(MessageReceived(**_fields(held)))


def look_up(held: Held) -> JobPolicies | None:
    """Name and policies of the job; ``None`` if the handler cannot say.

    Asked of the handler once, and again when the body was fetched, which may tell of another job.
    """
    if held.policies is None or held.content is not held.message.content:
        held.content = held.message.content
        handler = held.source.handler
        try:
            held.job_name = handler.job_name(held.message)
            held.policies = handler.policies(held.message)
            held.timeout = held.policies.timeout
        except Exception:
            logger.exception(
                "The policies of message %s of queue %s cannot be found",
                held.message.message_id,
                held.source.name,
                extra=log_fields(held),
            )
    return held.policies


def started(hooks: HookRegistry, held: Held, now: float) -> None:
    """The handler is about to be called."""
    held.started_at = now
    if hooks.wants(JobStarted):
        hooks.emit(JobStarted(**_fields(held), waited=now - held.received_at))


def run(held: Held) -> Outcome:
    """Call the handler in this thread."""
    try:
        return _checked(held, held.source.handler.run(held.message))
    except Exception as error:  # noqa: BLE001 - logged there
        return _unexpected(held, error)


async def run_async(held: Held) -> Outcome:
    """Call the handler on this event loop."""
    try:
        return _checked(held, await held.source.handler.arun(held.message))
    except Exception as error:  # noqa: BLE001 - logged there
        return _unexpected(held, error)


def run_batch(batch: Sequence[Held]) -> Sequence[Outcome]:
    """Call the batch handler; one outcome for each message."""
    try:
        outcomes = batch[0].source.handler.run_batch([held.message for held in batch])
    except Exception as error:  # noqa: BLE001 - logged there
        return [_unexpected(held, error) for held in batch]
    if len(outcomes) != len(batch):
        problem = ValueError(f"the batch handler answered {len(outcomes)} outcomes for {len(batch)} messages")
        return [_unexpected(held, problem) for held in batch]
    return [_checked(held, outcome) for held, outcome in zip(batch, outcomes, strict=True)]


def timeout_error(held: Held) -> JobTimeoutError:
    """What is said of a job that outlived its timeout."""
    return JobTimeoutError(f"job {held.label} did not end within {held.timeout:g} s")


def error_of(outcome: Outcome) -> BaseException | None:
    """The error of a job that failed; a requested retry is none."""
    match outcome:
        case Failed(error) | Rejected(error) | Unsettled(_, error):
            return error
        case Succeeded() | RetryRequested() | Unrun() | Postponed():
            return None
        case _:
            assert_never(outcome)


def settle(held: Held, outcome: Outcome) -> Settlement:
    """What is done with the message.

    A policy that raises or answers with what cannot be carried out is logged, and the message left to SQS.
    """
    if isinstance(outcome, (Succeeded, Postponed)):
        return DELETE
    if isinstance(outcome, Unrun):
        return RELEASE
    policies = look_up(held)
    if policies is None:
        return Leave()
    try:
        return _possible(
            settlement.decide(
                held.message,
                outcome,
                backoff=policies.backoff,
                failure_policy=policies.failure_policy,
                max_attempts=policies.max_attempts,
            )
        )
    except Exception:
        logger.exception(
            "A policy of job %s failed: the message is left to its visibility timeout",
            held.label,
            extra=log_fields(held),
        )
        return Leave()


def _possible(action: Any) -> Settlement:
    # Policies are written elsewhere. In a batch, one entry that SQS cannot read fails the nine others.
    if isinstance(action, ChangeVisibility):
        return ChangeVisibility(whole_seconds(action.seconds))
    if isinstance(action, (Delete, Leave, MoveTo)):
        return action
    raise TypeError(f"{action!r:.80} is no settlement")


def succeeded(hooks: HookRegistry, ended: Sequence[tuple[Held, float]]) -> None:
    """Count jobs that have succeeded, and tell the hooks."""
    by_source: dict[SourceState, list[tuple[Held, float]]] = {}
    for held, duration in ended:
        by_source.setdefault(held.source, []).append((held, duration))
    for source, done in by_source.items():
        source.counts.succeeded += len(done)
        source.jobs.succeeded(done)
    if hooks.wants(JobSucceeded):
        for held, duration in ended:
            hooks.emit(JobSucceeded(**_fields(held), duration=duration))


def report(hooks: HookRegistry, held: Held, outcome: Outcome, action: Settlement, duration: float) -> None:
    """Count how the job ended, tell the hooks, and log what an operator must see."""
    counts = held.source.counts
    match outcome:
        case Succeeded():
            succeeded(hooks, [(held, duration)])
        case RetryRequested():
            _retried(hooks, held, action, requested=True)
        case Failed(error) | Rejected(error):
            counts.failed += 1
            held.source.jobs.failed(held.job_name, duration, error)
            permanent = isinstance(outcome, Rejected)
            if hooks.wants(JobFailed):
                hooks.emit(JobFailed(**_fields(held), duration=duration, error=error, permanent=permanent))
            if permanent or _attempts_used_up(held):
                _given_up(hooks, held, action, error, PERMANENT_ERROR if permanent else ATTEMPTS_USED_UP)
            else:
                _retried(hooks, held, action, requested=False)
        case Unrun(reason):
            counts.released += 1
            if hooks.wants(MessageReleased):
                hooks.emit(MessageReleased(**_fields(held), reason=reason))
        case Postponed(until):
            _postponed(hooks, held, until)
        case Unsettled(reason, error):
            counts.failed += 1
            held.source.jobs.failed(held.job_name, duration, error)
            logger.error("Job %s was left behind: %s", held.label, reason, extra=log_fields(held, duration))
            if hooks.wants(JobFailed) and error is not None:
                hooks.emit(JobFailed(**_fields(held), duration=duration, error=error, permanent=False))
        case _:
            assert_never(outcome)


def settled(hooks: HookRegistry, held: Held, ok: bool) -> None:
    """SQS took the settlement of the message, or refused it to the end."""
    # Results and shutdown policies may keep the message; a body that was fetched is large.
    held.message.content = None
    counts = held.source.counts
    action = held.action
    if held.released_because and hooks.wants(MessageReleased):
        hooks.emit(MessageReleased(**_fields(held), reason=held.released_because))
    if ok:
        counts.settled += 1
    elif isinstance(action, (Delete, MoveTo)):
        counts.delete_failures += 1
    if isinstance(action, MoveTo) and held.copied:
        counts.dead_lettered += 1
        extra = action.extra_attributes
        reason = extra.get("DeadLetterReason", "")
        logger.warning(
            "Job %s was moved to queue %s: %s", held.label, action.queue_name, reason, extra=log_fields(held)
        )
        if hooks.wants(JobDeadLettered):
            error_type = extra.get("DeadLetterErrorType", "")
            hooks.emit(
                JobDeadLettered(
                    **_fields(held), target=action.queue_name, reason=reason, error_type=error_type
                )
            )
    if hooks.wants(MessageSettled):
        hooks.emit(MessageSettled(**_fields(held), action=_name(action), ok=ok))


def clean_up(held: Held) -> None:
    """SQS has taken the acknowledgement: remove what belonged to the message elsewhere."""
    after_delete = held.message.after_delete
    if after_delete is None or not (isinstance(held.action, Delete) or held.deleted_by_handler):
        return
    try:
        after_delete()
    except Exception:
        logger.exception("What belonged to message %s was not removed", held.label, extra=log_fields(held))


def _retried(hooks: HookRegistry, held: Held, action: Settlement, *, requested: bool) -> None:
    held.source.counts.retried += 1
    if isinstance(action, ChangeVisibility) and hooks.wants(JobRetried):
        hooks.emit(JobRetried(**_fields(held), delay=action.seconds, requested=requested))


def _postponed(hooks: HookRegistry, held: Held, until: int) -> None:
    held.source.counts.postponed += 1
    if hooks.wants(JobPostponed):
        hooks.emit(JobPostponed(**_fields(held), until=until))


def _given_up(hooks: HookRegistry, held: Held, action: Settlement, error: BaseException, reason: str) -> None:
    if not isinstance(action, Delete):
        return
    held.source.counts.discarded += 1
    logger.warning(
        "Job %s is discarded: %s (%s)", held.label, reason, type(error).__name__, extra=log_fields(held)
    )
    if hooks.wants(JobDiscarded):
        hooks.emit(JobDiscarded(**_fields(held), reason=reason, error_type=type(error).__name__))


def _attempts_used_up(held: Held) -> bool:
    policies = held.policies
    if policies is None or policies.max_attempts is None:
        return False
    return held.message.receive_count >= policies.max_attempts


def _unexpected(held: Held, error: Exception) -> Failed:
    logger.error(
        "The handler of queue %s raised %s instead of answering with an outcome",
        held.source.name,
        type(error).__name__,
        exc_info=error,
        extra=log_fields(held),
    )
    return Failed(error)


def _checked(held: Held, outcome: Any) -> Outcome:
    # A handler written elsewhere may answer anything; truthiness is no outcome.
    if isinstance(outcome, _OUTCOMES):
        return outcome
    return _unexpected(held, TypeError(f"{outcome!r:.80} is no outcome"))


def _name(action: Settlement | None) -> str:
    match action:
        case Delete():
            return "delete"
        case ChangeVisibility():
            return "change_visibility"
        case MoveTo():
            return "move"
        case Leave() | None:
            return "leave"
        case _:
            assert_never(action)


def _fields(held: Held) -> Any:
    return event_fields(held)
