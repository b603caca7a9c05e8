"""The environment: which SQS, which queues, and what holds for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import ParamSpec

from sqs_workers.async_task import AsyncTask
from sqs_workers.backoff_policies import DEFAULT_BACKOFF
from sqs_workers.batching import BatchingConfiguration
from sqs_workers.clients import BOTO3, ClientPool, memory_clock
from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.codecs import (
    DEFAULT_CONTENT_TYPE,
    PICKLE_CONTENT_TYPES,
    PickleWarning,
    accepted_content_types,
    accepted_names,
    get_codec,
)
from sqs_workers.context import SQSContext
from sqs_workers.core import BatchProcessingResult, RedrivePolicy
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.hooks import Event, HookRegistry
from sqs_workers.outgoing import check_queue_name
from sqs_workers.processors import DEFAULT_CONTEXT_VAR, Processor
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.job_queue import JobQueue
from sqs_workers.queues.raw_queue import RawQueue
from sqs_workers.queues.registry import QueueRegistry
from sqs_workers.queues.settings import QueueSettings, check_common, exception_classes
from sqs_workers.shutdown_policies import NeverShutdown, ShutdownPolicy
from sqs_workers.transport import Boto3Transport, ErrorKind, Transport, classify

if TYPE_CHECKING:
    from sqs_workers.failure_policies import FailurePolicy
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.queues.departures import JobScheduler
    from sqs_workers.worker import Worker, WorkerResult

__all__ = ["SQSEnv"]

P = ParamSpec("P")
R = TypeVar("R")
QueueT = TypeVar("QueueT", bound=GenericQueue)
EventT = TypeVar("EventT", bound=Event)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


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
    :param sqs_resource: use this service resource.
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
    :param transport: carries the calls to SQS; over boto3 by default.
    :param clock: for waits and durations; that of a ``MemorySession``, else the system's.
    :param scheduler: sends jobs that are due later than in 15 minutes, and delays on FIFO queues: an
        :class:`~sqs_workers.schedules.EventBridgeScheduler`.
    :raises ConfigurationError: a value that cannot work.
    """

    def __init__(
        self,
        session: Any = BOTO3,
        queue_prefix: str = "",
        codec: str = DEFAULT_CONTENT_TYPE,
        retry_max_attempts: int = 3,
        retry_mode: str = "standard",
        backoff_policy: Any = DEFAULT_BACKOFF,
        processor_maker: Any = Processor,
        context_maker: Any = SQSContext,
        context: Any = None,
        sqs_client: Any = None,
        sqs_resource: Any = None,
        queues: dict[str, Any] | None = None,
        *,
        accept: Iterable[str] | None = None,
        failure_policy: FailurePolicy | None = None,
        max_attempts: int | None = None,
        timeout: float | None = None,
        permanent_errors: Any = (),
        middleware: Sequence[Any] = (),
        hooks: HookRegistry | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        scheduler: JobScheduler | None = None,
    ) -> None:
        get_codec(codec)
        check_common(max_attempts, timeout, "the environment")
        self._session = session
        self.queue_prefix = queue_prefix
        self.codec = codec
        self.retry_max_attempts = retry_max_attempts
        self.retry_mode = retry_mode
        self.backoff_policy = backoff_policy
        self.processor_maker = processor_maker
        self.context_maker = context_maker
        self.context: Any = context_maker() if context is None else context
        self.queues: dict[str, Any] = {} if queues is None else queues
        self.accept = accepted_content_types(codec) if accept is None else accepted_names(accept)
        self.settings = QueueSettings(
            failure_policy=failure_policy,
            max_attempts=max_attempts,
            timeout=timeout,
            permanent_errors=exception_classes(permanent_errors, "the environment"),
        )
        self.middleware: tuple[Any, ...] = tuple(middleware)
        self.hooks = HookRegistry() if hooks is None else hooks
        self.route: Callable[[Any, OutgoingMessage], str | None] | None = None
        """Takes every message instead of SQS, if set: ``(queue, message) -> message id``."""
        retries = {"max_attempts": retry_max_attempts, "mode": retry_mode}
        self._clients = ClientPool(lambda: self.session, retries, client=sqs_client, resource=sqs_resource)
        self.clock: Clock = clock or memory_clock(session) or SYSTEM_CLOCK
        self.transport: Transport = transport or Boto3Transport(
            self._clients.client, monotonic=self.clock.monotonic
        )
        self.scheduler = scheduler
        self._registry = QueueRegistry(self)
        self._pickle_warning = PickleWarning(accept is None and codec in PICKLE_CONTENT_TYPES)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queue_prefix={self.queue_prefix!r}, codec={self.codec!r})"

    @property
    def session(self) -> Any:
        """The session; the boto3 module if none was given."""
        if self._session is BOTO3:
            import boto3

            self._session = boto3
        return self._session

    @property
    def sqs_client(self) -> Any:
        """The boto3 client, built at first use: one for all threads, a new one after a fork."""
        return self._clients.client()

    @sqs_client.setter
    def sqs_client(self, client: Any) -> None:
        self._clients.given_client = client

    @property
    def sqs_resource(self) -> Any:
        """The boto3 service resource, built at first use."""
        return self._clients.resource()

    @sqs_resource.setter
    def sqs_resource(self, resource: Any) -> None:
        self._clients.given_resource = resource

    # Queues

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
            ``middleware`` and
            ``accept``, as for the environment, for this queue alone; ``payload``, which keeps large bodies
            elsewhere.
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
            raise QueueNotFoundError(
                f"queue {sqs_name!r} does not exist in this region and account, or these credentials may "
                f"not use it ({error}). Create it with create_standard_queue() or create_fifo_queue(), or "
                "give queue_url=",
                queue_name=queue_name,
            ) from error

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
        if isinstance(queues, str):
            queues = [queues]
        sources = sources_of(
            self,
            queues,
            executor,
            wait_seconds=wait_second,
            heartbeat=heartbeat,
            visibility_timeout=visibility_timeout,
            circuit=circuit,
        )
        return Worker(
            sources, self.transport, executor=executor, clock=self.clock, hooks=self.hooks, **options
        )

    def on(self, event_type: type[EventT]) -> Callable[[Callable[[EventT], Any]], Callable[[EventT], Any]]:
        """Decorator: the function is called with each event of this type; see :mod:`sqs_workers.hooks`."""

        def add(hook: Callable[[EventT], Any]) -> Callable[[EventT], Any]:
            return self.hooks.add(event_type, hook)

        return add

    def warn_about_pickle(self) -> None:
        """Say once that workers of this environment unpickle what they receive, if nobody asked for it."""
        self._pickle_warning.say_once()
