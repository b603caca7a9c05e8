"""The environment: which SQS, which queues, and what holds for all of them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from typing_extensions import ParamSpec

from sqs_workers.async_task import AsyncTask
from sqs_workers.backoff_policies import DEFAULT_BACKOFF
from sqs_workers.batching import BatchingConfiguration, BatchMessages, NoBatching
from sqs_workers.clients import MadeField, pool_of
from sqs_workers.clock import Clock
from sqs_workers.codecs import DEFAULT_CONTENT_TYPE, PICKLE_CONTENT_TYPES, PickleWarning, get_codec
from sqs_workers.context import SQSContext
from sqs_workers.core import BatchProcessingResult, RedrivePolicy
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.hooks import Event, HookRegistry
from sqs_workers.outgoing import check_queue_name
from sqs_workers.processors import DEFAULT_CONTEXT_VAR, Processor
from sqs_workers.queues.batch_typing import BatchJobQueue
from sqs_workers.queues.checks import check_environment, check_middleware, check_policies
from sqs_workers.queues.fields import (
    ACCEPT,
    CLIENT,
    CLOCK,
    RESOURCE,
    SESSION,
    TRANSPORT,
    accepts_by_codec,
    open_own_transport,
)
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.job_queue import JobQueue
from sqs_workers.queues.raw_queue import RawQueue
from sqs_workers.queues.registry import QueueRegistry
from sqs_workers.queues.settings import QueueSettings, check_common, exception_classes
from sqs_workers.shutdown_policies import NeverShutdown, ShutdownPolicy
from sqs_workers.transport import ErrorKind, Mode, Transport, classify
from sqs_workers.transport.errors import as_both

if TYPE_CHECKING:
    from sqs_workers.failure_policies import FailurePolicy
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.queues.departures import JobScheduler
    from sqs_workers.worker import Worker, WorkerResult

__all__ = ["POLICY_NO_BATCHING", "AnyQueue", "AnyQueueT", "SQSEnv"]

logger = logging.getLogger(__name__)

POLICY_NO_BATCHING = NoBatching()

AnyQueue: TypeAlias = GenericQueue | JobQueue | RawQueue
AnyQueueT = TypeVar("AnyQueueT", GenericQueue, JobQueue, RawQueue)

P = ParamSpec("P")
R = TypeVar("R")
QueueT = TypeVar("QueueT", bound=GenericQueue)
EventT = TypeVar("EventT", bound=Event)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(eq=False, repr=False)
class SQSEnv:
    """Where queues and jobs are declared.

    ::

        sqs = SQSEnv(codec="json")
        queue = sqs.queue("emails")

    :param session: a boto3 session, or the boto3 module, or a ``MemorySession``. Nothing is asked of it
        before a client is needed.
    :param queue_prefix: put before every queue name: ``staging-``, for instance.
    :param codec: name of the codec of jobs; ``json`` is recommended.
    :param retry_max_attempts: attempts of boto3 for one call.
    :param retry_mode: boto3's retry mode.
    :param backoff_policy: when failed jobs are tried again.
    :param processor_maker: makes the processor of a job: a subclass of ``Processor``.
    :param context_maker: makes :attr:`context`.
    :param context: use this context.
    :param sqs_client: use this client. The one built here does not check parameters as boto3 does: the
        library checks what it sends itself.
    :param sqs_resource: use this service resource, and its client for everything unless ``sqs_client`` is
        given. Calls of queues go through a mock or another class of your own.
    :param queues: use this dictionary of queues.
    :param accept: names of the codecs that a worker decodes. By default ``codec`` and ``json``; with a pickle
        both pickles, too, which a worker says at WARNING when it starts.
    :param failure_policy: what happens to jobs that have failed for good; ``Leave()`` by default.
    :param max_attempts: attempts, counted by SQS's receive count, until the failure policy applies; by
        default the queue's redrive policy alone ends them.
    :param timeout: seconds that a job may run.
    :param permanent_errors: exception classes that no retry can help.
    :param middleware: wraps every job: see :mod:`sqs_workers.middleware`.
    :param hooks: watch workers; :meth:`on` adds to them.
    :param transport: how requests get to SQS: ``boto3``, ``lean`` (past the client, for a fraction of the CPU),
        ``auto`` (lean where that can honour everything about the client, else boto3), or an object of one's own.
        What ``lean`` refuses is a ``ConfigurationError`` when a worker starts or at the first request.
    :param clock: for waits and durations; that of a ``MemorySession``, else the system's.
    :param scheduler: sends jobs that are due later than in 15 minutes, and delays on FIFO queues: an
        :class:`~sqs_workers.schedules.EventBridgeScheduler`.
    :raises ConfigurationError: a value that cannot work.
    """

    session: Any = SESSION
    queue_prefix: str = ""
    codec: str = DEFAULT_CONTENT_TYPE
    retry_max_attempts: int = 3
    retry_mode: str = "standard"
    backoff_policy: Any = DEFAULT_BACKOFF
    processor_maker: Any = Processor
    context_maker: Any = SQSContext
    context: Any = None
    sqs_client: Any = CLIENT
    sqs_resource: Any = RESOURCE
    queues: dict[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    accept: MadeField[Iterable[str] | None, frozenset[str]] = ACCEPT
    failure_policy: FailurePolicy | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    permanent_errors: Any = ()
    middleware: Sequence[Any] = ()
    hooks: HookRegistry = field(default_factory=HookRegistry)
    transport: MadeField[Mode | Transport, Transport] = TRANSPORT
    clock: MadeField[Clock | None, Clock] = CLOCK
    scheduler: JobScheduler | None = None

    def __post_init__(self) -> None:
        get_codec(self.codec)
        check_common(self.max_attempts, self.timeout, "the environment")
        check_environment(self)
        if self.context is None:
            self.context = self.context_maker()
        self.settings = QueueSettings(
            failure_policy=self.failure_policy,
            max_attempts=self.max_attempts,
            timeout=self.timeout,
            permanent_errors=exception_classes(self.permanent_errors, "the environment"),
        )
        self.middleware = check_middleware(self.middleware, "the environment")
        self.route: Callable[[Any, OutgoingMessage], str | None] | None = None
        """Takes every message instead of SQS, if set: ``(queue, message) -> message id``."""
        self._clients = pool_of(self)
        self._clients.retries = {"max_attempts": self.retry_max_attempts, "mode": self.retry_mode}
        open_own_transport(self)
        self._registry = QueueRegistry(self)
        self._pickle_warning = PickleWarning(accepts_by_codec(self) and self.codec in PICKLE_CONTENT_TYPES)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queue_prefix={self.queue_prefix!r}, codec={self.codec!r})"

    @property
    def stand_in_resource(self) -> Any:
        """The service resource, if it is a mock or a class of the user's; ``None`` if it is boto3's."""
        return self._clients.stand_in()

    # Queues

    @overload
    def queue(
        self,
        queue_name: str,
        queue_maker: type[JobQueue] | None = None,
        *,
        batching_policy: BatchMessages,
        backoff_policy: Any = None,
        queue_url: str | None = None,
        **settings: Any,
    ) -> BatchJobQueue: ...

    @overload
    def queue(
        self,
        queue_name: str,
        queue_maker: None = None,
        batching_policy: BatchingConfiguration | None = None,
        backoff_policy: Any = None,
        *,
        queue_url: str | None = None,
        **settings: Any,
    ) -> JobQueue: ...

    @overload
    def queue(
        self,
        queue_name: str,
        queue_maker: type[QueueT] | Callable[..., QueueT],
        batching_policy: BatchingConfiguration | None = None,
        backoff_policy: Any = None,
        *,
        queue_url: str | None = None,
        **settings: Any,
    ) -> QueueT: ...

    def queue(
        self,
        queue_name: str,
        queue_maker: Any = None,
        batching_policy: BatchingConfiguration | None = None,
        backoff_policy: Any = None,
        *,
        queue_url: str | None = None,
        **settings: Any,
    ) -> Any:
        """The queue of this name; made when it is first asked for.

        :param queue_name: name without the prefix.
        :param queue_maker: class of the queue, or what makes one; ``JobQueue`` by default.
        :param batching_policy: whether handlers get lists.
        :param backoff_policy: when failed jobs are tried again.
        :param queue_url: use the queue at this URL instead of looking for the name.
        :param settings: ``failure_policy``, ``max_attempts``, ``timeout``, ``permanent_errors``,
            ``middleware`` and ``accept``, as for the environment, for this queue alone; ``envelope``: see
            :mod:`sqs_workers.envelopes`; ``payload`` keeps large bodies elsewhere.
        :raises QueueConflictError: it was made with other settings before.
        :raises InvalidQueueNameError: SQS does not allow the name.
        """
        return self._registry.get(
            queue_name, queue_maker, batching_policy, backoff_policy, queue_url, settings
        )

    def processor(
        self,
        queue_name: str,
        job_name: str,
        pass_context: bool = False,
        context_var: str = DEFAULT_CONTEXT_VAR,
        **settings: Any,
    ) -> Callable[[Callable[P, R]], AsyncTask[P, R]]:
        """Decorator: the function runs the jobs of this name of a queue; see ``JobQueue.processor``."""
        queue: JobQueue = self.queue(queue_name, JobQueue)
        return queue.processor(job_name, pass_context, context_var, **settings)

    def raw_processor(self, queue_name: str) -> Callable[[FunctionT], FunctionT]:
        """Decorator: the function gets the messages of a raw queue."""
        queue: RawQueue = self.queue(queue_name, RawQueue)
        return queue.raw_processor()

    def add_job(
        self,
        queue_name: str,
        job_name: str,
        _content_type: str | None = None,
        _delay_seconds: float | None = None,
        _deduplication_id: str | None = None,
        _group_id: str | None = None,
        **job_kwargs: Any,
    ) -> str | None:
        """Deprecated: use ``sqs.queue(...).add_job(...)``."""
        warnings.warn(
            "sqs.add_job() is deprecated. Use sqs.queue(...).add_job() instead",
            DeprecationWarning,
            stacklevel=2,
        )
        queue: JobQueue = self.queue(queue_name, JobQueue)
        return queue.add_job(
            job_name,
            _content_type=_content_type,
            _delay_seconds=_delay_seconds,
            _deduplication_id=_deduplication_id,
            _group_id=_group_id,
            **job_kwargs,
        )

    def get_sqs_queue_name(self, queue_name: str) -> str:
        """Name of a queue on SQS: the prefix and the name."""
        return f"{self.queue_prefix}{queue_name}"

    def resolve_queue_url(self, queue_name: str) -> str:
        """URL of a queue by its name here, whether or not it was declared.

        :raises QueueNotFoundError: there is no such queue, or not for these credentials.
        """
        queue = self.queues.get(queue_name)
        return self.find_queue_url(queue_name) if queue is None else queue.url

    def find_queue_url(self, queue_name: str) -> str:
        """Ask SQS for the URL of a queue by name; needs no permission to list queues.

        :raises QueueNotFoundError: there is no such queue, or not for these credentials.
        """
        sqs_name = self.get_sqs_queue_name(queue_name)
        check_queue_name(sqs_name)
        try:
            return self.transport.get_queue_url(sqs_name)
        except Exception as error:
            if classify(error) not in (ErrorKind.MISSING, ErrorKind.DENIED):
                raise
            missing = QueueNotFoundError(
                f"queue {sqs_name!r} does not exist in this region and account, or these credentials may "
                f"not use it ({error}). Create it with create_standard_queue() or create_fifo_queue(), or "
                "give queue_url=",
                queue_name=queue_name,
            )
            raise as_both(missing, error) from error

    def get_all_known_queues(self) -> list[str]:
        """Names, without the prefix, of all queues on SQS that have the prefix."""
        return self._registry.list_on_sqs()

    def redrive_policy(self, dead_letter_queue_name: str, max_receive_count: int) -> RedrivePolicy:
        """A redrive policy for ``create_standard_queue`` and ``create_fifo_queue``."""
        return RedrivePolicy(self, dead_letter_queue_name, max_receive_count)

    # Working

    def process_batch(self, queue_name: str, wait_seconds: int = 0) -> BatchProcessingResult:
        """Receive once from a queue, run what came, settle it, and return."""
        result: BatchProcessingResult = self.queue(queue_name).process_batch(wait_seconds)
        return result

    def process_queues(
        self,
        queue_names: Iterable[str] | None = None,
        shutdown_policy_maker: Callable[[], ShutdownPolicy] = NeverShutdown,
        **options: Any,
    ) -> WorkerResult:
        """Work several queues in this process until told to stop.

        :param queue_names: by default all queues on SQS with the prefix that have a processor here.
            Dead-letter queues are left alone unless they are named.
        :param shutdown_policy_maker: makes the policy that says when to stop; it sees the jobs of all queues.
        :param options: as for :meth:`worker`; ``concurrency`` is the number of queues by default.
        :raises ConfigurationError: there is no queue to work.
        """
        names = list(queue_names) if queue_names else self._registry.names_to_work()
        if not names:
            raise ConfigurationError("no queue on SQS has a processor in this environment: nothing to work")
        options.setdefault("concurrency", len(names))
        return self.worker(names, shutdown_policy=shutdown_policy_maker(), **options).run()

    def worker(
        self,
        queues: Sequence[Any],
        *,
        wait_second: int = 10,
        heartbeat: float | None = None,
        visibility_timeout: int | None = None,
        circuit: Any = None,
        executor: Any = "auto",
        **options: Any,
    ) -> Worker:
        """One worker for several queues: ``sqs.worker(["mail:3", "reports:1"], concurrency=32).run()``.

        :param queues: names, or queues; a number after a colon is the queue's share when they compete.
        :param options: as for :class:`sqs_workers.worker.Worker`.
        :raises ConfigurationError: an option out of range, or options that exclude each other.
        """
        from sqs_workers.queues.several import check_worker_options, sources_of
        from sqs_workers.worker import Worker

        check_worker_options(options)
        check_policies({**options, "circuit": circuit}, "the worker")
        if isinstance(queues, str):
            queues = [queues]
        sources, transport = sources_of(
            self,
            queues,
            executor,
            wait_seconds=wait_second,
            heartbeat=heartbeat,
            visibility_timeout=visibility_timeout,
            circuit=circuit,
        )
        return Worker(sources, transport, executor=executor, clock=self.clock, hooks=self.hooks, **options)

    def on(self, event_type: type[EventT]) -> Callable[[Callable[[EventT], Any]], Callable[[EventT], Any]]:
        """Decorator: the function is called with each event of this type; see :mod:`sqs_workers.hooks`."""

        def add(hook: Callable[[EventT], Any]) -> Callable[[EventT], Any]:
            return self.hooks.add(event_type, hook)

        return add

    def warn_about_pickle(self) -> None:
        """Say once that workers of this environment unpickle what they receive, if nobody asked for it."""
        self._pickle_warning.say_once()
