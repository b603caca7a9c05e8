"""What the engine asks of the queue that it works for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sqs_workers.failure_policies import FailurePolicy, Leave

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.outcome import Outcome

__all__ = ["BatchSettings", "Handler", "JobPolicies", "Source"]


@dataclass(frozen=True, slots=True)
class JobPolicies:
    """What decides about a job besides its own code.

    :param backoff: policy for failures and retries that name no delay of their own.
    :param failure_policy: what happens to jobs that have failed for good.
    :param max_attempts: attempts, counted by SQS's receive count, or ``None`` for the redrive policy alone.
    :param timeout: seconds that the job may run, or ``None`` for no limit.
    """

    backoff: Any
    failure_policy: FailurePolicy = field(default_factory=Leave)
    max_attempts: int | None = None
    timeout: float | None = None


class Handler(Protocol):
    """Runs the jobs of a queue. Its methods answer with an outcome and never raise an ``Exception``."""

    def job_name(self, message: Message) -> str:
        """Name of the job that the message carries; empty if it names none. For hooks and logs."""
        ...

    def policies(self, message: Message) -> JobPolicies:
        """The policies of the job that the message carries; those of the queue if it names no known job."""
        ...

    def is_async(self, message: Message) -> bool:
        """Whether the message must go to :meth:`arun` on the event loop."""
        ...

    def run(self, message: Message) -> Outcome:
        """Run one job in the calling thread."""
        ...

    async def arun(self, message: Message) -> Outcome:
        """Run one job on the event loop of the calling task; cancelled when its timeout passes."""
        ...

    def run_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Run a batch; one outcome each, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How many messages a batch handler gets at once.

    :param size: messages, 1 or more; above 10 they come from several receives.
    :param wait_seconds: how long a batch that has its first message waits for more.
    """

    size: int
    wait_seconds: float = 1.0


@dataclass(eq=False)
class Source:
    """A queue as the engine sees it.

    :param name: name of the queue for logs, hooks and errors.
    :param resolve_url: answers with the queue's URL; may call SQS, and raises
        :class:`~sqs_workers.exceptions.QueueNotFoundError` if there is no such queue.
    :param handler: runs the jobs.
    :param resolve_target: answers with the URL of a dead-letter queue by the name that a failure policy gave.
    :param fifo: messages of a group run one at a time and in order.
    :param weight: share of the worker's slots when several queues compete for them.
    :param wait_seconds: seconds of long polling (0 to 20).
    :param visibility_timeout: seconds asked for at each receive, or ``None`` for the queue's own, which the
        engine reads once.
    :param heartbeat: seconds between extensions; ``None`` for a third of the visibility timeout, 0 for none.
    :param heartbeat_visibility: seconds that an extension hides the message for, or ``None`` for the
        visibility timeout.
    :param batch: settings of a batch handler, or ``None`` for one job at a time.
    :param circuit: when to pause the queue because of what its jobs raise (see ``worker.circuit``).
    :param system_attributes: system attributes to ask for, besides those that the engine needs itself.
    :param message_attributes: message attributes to ask for.
    """

    name: str
    resolve_url: Callable[[], str]
    handler: Handler
    resolve_target: Callable[[str], str]
    fifo: bool = False
    weight: int = 1
    wait_seconds: int = 10
    visibility_timeout: int | None = None
    heartbeat: float | None = None
    heartbeat_visibility: int | None = None
    batch: BatchSettings | None = None
    circuit: Any = None
    system_attributes: Sequence[str] = ()
    message_attributes: Sequence[str] = ("All",)
    known_visibility: int | None = field(default=None, init=False, repr=False)
    """The queue's visibility timeout once the engine has read it: keep a source to spare the request."""
    known_max_receives: int | None = field(default=None, init=False, repr=False)
    """``maxReceiveCount`` of the queue's redrive policy, read by the same request; ``None`` without one."""
