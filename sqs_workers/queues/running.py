"""How a queue is worked: the options of ``process_queue`` and what the engine makes of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from typing_extensions import NotRequired, Unpack

from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT, MAX_WAIT_SECONDS
from sqs_workers.shutdown_policies import NEVER_SHUTDOWN, ShutdownPolicy
from sqs_workers.signatures import is_async_callable
from sqs_workers.worker.contract import BatchSettings, Source

if TYPE_CHECKING:
    from sqs_workers.core import BatchProcessingResult
    from sqs_workers.worker import Worker, WorkerResult

__all__ = ["ProcessOptions", "RunOptions", "WorksQueue"]

logger = logging.getLogger("sqs_workers.queue")

MISSING_QUEUE_WAIT = 5.0
"""Seconds between two looks for a queue that does not exist yet (``missing="wait"``)."""

_FACTS_SECONDS = 60.0
"""How long ``process_batch`` believes what it has read of the queue's attributes."""

# What the library itself reads; whoever needs more gets all of them.
SYSTEM_ATTRIBUTES = ("ApproximateReceiveCount", "MessageGroupId", "SentTimestamp")


class ProcessOptions(TypedDict):
    """Options of ``process_queue`` and ``aprocess_queue``."""

    concurrency: NotRequired[int]
    """Jobs at once; 1 by default."""
    processes: NotRequired[int | None]
    """Run so many processes, each with this concurrency. They are started anew and import the environment."""
    env_path: NotRequired[str | None]
    """Where child processes find the environment: ``package.module:name``. Found by itself if the environment
    is a global variable of an imported module."""
    executor: NotRequired[Literal["auto", "inline", "threads"]]
    """``inline`` runs jobs one at a time in the calling thread, ``threads`` in a pool, ``auto`` takes inline
    for a concurrency of 1. ``async def`` jobs run on an event loop."""
    shutdown_timeout: NotRequired[float]
    """Seconds from the request to stop until the worker returns, at most; 30 by default."""
    heartbeat: NotRequired[float | None]
    """Seconds between extensions of the visibility of messages in hand; by default a third of the visibility
    timeout, 0 for none."""
    visibility_timeout: NotRequired[int | None]
    """Seconds that a receive hides messages; the queue's own by default."""
    circuit: NotRequired[Any]
    """When to pause because of what jobs raise: a ``PauseOn``."""
    missing: NotRequired[Literal["fail", "wait", "create"]]
    """If the queue does not exist: ``fail``, ``wait`` for it, or ``create`` it with SQS's defaults."""
    handle_signals: NotRequired[bool]
    """Stop on SIGTERM and SIGINT while the worker runs in the main thread; the default."""
    receivers: NotRequired[int | None]
    """Receives of the queue under way at once while it is busy."""
    prefetch: NotRequired[int | None]
    """Messages held above the free slots at most; half a second of work by default."""


def split_options(
    queue_name: str, wait_second: int, options: ProcessOptions
) -> tuple[RunOptions, dict[str, Any], str]:
    """Options of the queue, those of the worker, and what to do if the queue is missing.

    :raises ConfigurationError: an option is not known.
    """
    known = ProcessOptions.__annotations__.keys()
    unknown = options.keys() - known
    if unknown:
        raise ConfigurationError(
            f"process_queue() of queue {queue_name!r} has no option {', '.join(sorted(unknown))}; known "
            f"are {', '.join(sorted(known))}"
        )
    given: dict[str, Any] = dict(options)
    run = RunOptions(
        wait_second,
        given.pop("heartbeat", None),
        given.pop("visibility_timeout", None),
        given.pop("circuit", None),
    )
    missing = given.pop("missing", "fail")
    given.pop("processes", None)
    given.pop("env_path", None)
    return run, given, missing


@dataclass(frozen=True)
class RunOptions:
    """How one queue is received from and held; see :meth:`WorksQueue.process_queue`."""

    wait_seconds: int = 10
    heartbeat: float | None = None
    visibility_timeout: int | None = None
    circuit: Any = None
    weight: int = 1

    def check(self, queue_name: str) -> None:
        """Refuse options that cannot work.

        :raises ConfigurationError: says what to do.
        """
        wait: Any = self.wait_seconds
        if isinstance(wait, bool) or not 0 <= wait <= MAX_WAIT_SECONDS:
            raise ConfigurationError(
                f"wait_second of queue {queue_name!r} must be 0 to {MAX_WAIT_SECONDS}, not "
                f"{self.wait_seconds!r}"
            )
        if self.heartbeat is not None and not self.heartbeat >= 0:
            raise ConfigurationError(
                f"heartbeat of queue {queue_name!r} must be 0 (none) or more seconds, not {self.heartbeat!r}"
            )
        if self.visibility_timeout is not None and not 0 <= self.visibility_timeout <= MAX_VISIBILITY_TIMEOUT:
            raise ConfigurationError(
                f"visibility_timeout of queue {queue_name!r} must be 0 to {MAX_VISIBILITY_TIMEOUT} "
                f"seconds, not {self.visibility_timeout!r}"
            )
        weight: Any = self.weight
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise ConfigurationError(
                f"the weight of queue {queue_name!r} must be 1 or more, not {self.weight!r}"
            )


class WorksQueue:
    """The part of a queue that runs workers."""

    if TYPE_CHECKING:
        env: Any
        name: str
        batching_policy: Any
        settings: Any
        backoff_policy: Any

        @property
        def url(self) -> str: ...
        @property
        def is_fifo(self) -> bool: ...
        @property
        def takes_batches(self) -> bool: ...
        @property
        def handler(self) -> Any: ...
        @property
        def overrides_process_message(self) -> bool: ...
        @property
        def middleware_in_use(self) -> tuple[Any, ...]: ...
        @property
        def event_routes(self) -> Sequence[Any]: ...
        def process_batch(self, wait_seconds: int = 0) -> BatchProcessingResult: ...
        def forget_url(self) -> None: ...

    @property
    def has_async_processors(self) -> bool:
        """Whether a processor is ``async def``."""
        return False

    def process_queue(
        self,
        shutdown_policy: ShutdownPolicy = NEVER_SHUTDOWN,
        wait_second: int = 10,
        **options: Unpack[ProcessOptions],
    ) -> WorkerResult | None:
        """Run the jobs of the queue until told to stop (SIGTERM, SIGINT) or until the policy says so.

        :param shutdown_policy: when to stop by itself.
        :param wait_second: 0 to 20, seconds of long polling.
        :param options: see :class:`ProcessOptions`.
        :returns: how the worker ended.
        :raises ConfigurationError: an unknown option, one out of range, or options that exclude each other.
        :raises QueueNotFoundError: the queue does not exist.
        """
        run, worker_options, missing = split_options(self.name, wait_second, options)
        processes = options.get("processes")
        if processes is not None:
            from sqs_workers.queues.children import run_children

            return run_children(
                self,
                processes,
                shutdown_policy,
                run,
                {**worker_options, "missing": missing},
                options.get("env_path"),
            )
        if getattr(self.process_batch, "__func__", None) is not _library_process_batch():
            self._process_by_own_batches(shutdown_policy, wait_second)
            return None
        worker = self.worker(run, shutdown_policy=shutdown_policy, **worker_options)
        self.ensure_exists(missing)
        return worker.run()

    async def aprocess_queue(
        self,
        shutdown_policy: ShutdownPolicy = NEVER_SHUTDOWN,
        wait_second: int = 10,
        **options: Unpack[ProcessOptions],
    ) -> WorkerResult:
        """As :meth:`process_queue`, beside the caller's event loop and in this process alone.

        The worker has threads of its own. It stops when this is cancelled, and on SIGTERM if the event loop
        is that of the main thread; cancellation is passed on when everything in hand is settled.
        """
        from sqs_workers.queues.aio import run_beside_loop

        if options.get("processes") is not None:
            raise ConfigurationError(
                "aprocess_queue() runs in this process: use process_queue(processes=...)"
            )
        run, worker_options, missing = split_options(self.name, wait_second, options)
        worker_options["handle_signals"] = False
        worker = self.worker(run, shutdown_policy=shutdown_policy, **worker_options)
        return await run_beside_loop(worker, lambda: self.ensure_exists(missing))

    def worker(
        self, options: RunOptions | None = None, *, executor: Any = "auto", **worker_options: Any
    ) -> Worker:
        """A worker for this queue alone, to be run and stopped by hand.

        :param worker_options: as for :class:`sqs_workers.worker.Worker`.
        """
        from sqs_workers.worker import Worker

        options = options or RunOptions()
        self.check_runnable(options, executor)
        return Worker(
            [self.source(options)],
            self.env.transport,
            executor=executor,
            clock=self.env.clock,
            hooks=self.env.hooks,
            **worker_options,
        )

    def check_runnable(self, options: RunOptions, executor: str) -> None:
        """Refuse what cannot work, before anything is received; say what should be known.

        :raises ConfigurationError: says what to do.
        """
        options.check(self.name)
        if executor == "inline" and self.has_async_processors:
            raise ConfigurationError(
                f"queue {self.name!r} has async jobs, which the inline executor does not run: take "
                "executor='auto' or 'threads'"
            )
        if options.heartbeat:
            timeout = options.visibility_timeout
            if timeout is None:
                timeout = self._visibility_timeout()
            if timeout is not None and options.heartbeat >= timeout:
                raise ConfigurationError(
                    f"heartbeat {options.heartbeat} s of queue {self.name!r} is not below its visibility "
                    f"timeout of {timeout} s: messages would be lost before they are extended. Take a "
                    "third of it, or leave the option out"
                )
        self._check_middleware()
        self.env.warn_about_pickle()

    def _check_middleware(self) -> None:
        """Middleware that does not fit a processor is an error now, and not at the first job."""
        from sqs_workers.middleware import async_forms, sync_forms

        if not self.middleware_in_use:
            return
        processors = getattr(self, "processors", None)
        if processors is None:
            forms = async_forms if self.has_async_processors else sync_forms
            forms(self.middleware_in_use, f"the processor of {self.name}")
            return
        for job_name, processor in [*processors.items(), *((r.name, r) for r in self.event_routes)]:
            forms = async_forms if getattr(processor, "is_async", False) else sync_forms
            forms(self.middleware_in_use, f"{self.name}.{job_name}")

    def _visibility_timeout(self) -> int | None:
        try:
            attributes = self.env.transport.get_queue_attributes(self.url, ["VisibilityTimeout"])
            return int(attributes["VisibilityTimeout"])
        except Exception:  # noqa: BLE001 - the worker says when it starts what it may not use
            return None

    def source(self, options: RunOptions | None = None) -> Source:
        """The queue as the engine sees it."""
        options = options or RunOptions()
        batching = self.batching_policy
        batch = (
            BatchSettings(batching.batch_size, getattr(batching, "wait_seconds", 1.0))
            if self.takes_batches
            else None
        )
        return Source(
            name=self.name,
            resolve_url=lambda: self.url,
            handler=self.handler,
            resolve_target=self.env.resolve_queue_url,
            fifo=self.is_fifo,
            weight=options.weight,
            wait_seconds=int(options.wait_seconds),
            visibility_timeout=options.visibility_timeout,
            heartbeat=options.heartbeat,
            batch=batch,
            circuit=options.circuit,
            system_attributes=SYSTEM_ATTRIBUTES if self._needs_few_attributes else ("All",),
        )

    @property
    def _needs_few_attributes(self) -> bool:
        # Code of the user's may read any attribute.
        return (
            getattr(self, "processors", None) is not None
            and not self.event_routes
            and not self.overrides_process_message
            and not self.middleware_in_use
            and type(self.backoff_policy).__module__ == "sqs_workers.backoff_policies"
        )

    def _process_once(self, wait_seconds: int) -> BatchProcessingResult:
        from sqs_workers.worker import process_once

        options = RunOptions(wait_seconds)
        options.check(self.name)
        self._check_middleware()
        self.env.warn_about_pickle()
        clock = self.env.clock
        source = self.source(options)
        read_at, *known = self.__dict__.get("_queue_facts", (float("-inf"), None, None))
        if clock.monotonic() - read_at < _FACTS_SECONDS:
            source.known_visibility, source.known_max_receives = known
        else:
            read_at = clock.monotonic()
        result = process_once(
            source, self.env.transport, wait_seconds=int(wait_seconds), clock=clock, hooks=self.env.hooks
        )
        self.__dict__["_queue_facts"] = read_at, source.known_visibility, source.known_max_receives
        return result

    def _process_by_own_batches(self, shutdown_policy: ShutdownPolicy, wait_second: int) -> None:
        """For subclasses that override ``process_batch``: call it until the policy says stop."""
        while True:
            shutdown_policy.update_state(self.process_batch(wait_seconds=wait_second))
            if shutdown_policy.need_shutdown():
                return

    def ensure_exists(self, missing: str) -> None:
        """Look for the queue on SQS, by its URL or name alone; no listing.

        :param missing: ``fail``, ``wait`` or ``create`` if there is none.
        :raises QueueNotFoundError: with ``fail``.
        """
        if missing not in ("fail", "wait", "create"):
            raise ConfigurationError(f"missing must be 'fail', 'wait' or 'create', not {missing!r}")
        said = False
        while True:
            try:
                _ = self.url
                return
            except QueueNotFoundError:
                if missing == "fail":
                    raise
            if missing == "create":
                from sqs_workers.sqs_manage import create_fifo_queue, create_standard_queue

                create: Callable[..., str] = create_fifo_queue if self.is_fifo else create_standard_queue
                create(self.env, self.name)
                self.forget_url()
                logger.warning("Queue %s did not exist and was created", self.name)
                return
            if not said:
                logger.warning("Queue %s does not exist yet; waiting for it", self.name)
                said = True
            condition = threading.Condition()
            with condition:
                self.env.clock.wait(condition, MISSING_QUEUE_WAIT)

    def refuse_async_batches(self, processor: Any, where: str) -> None:
        """A batch handler runs in a thread of its own and cannot be ``async``.

        :raises ConfigurationError: it is.
        """
        if self.takes_batches and is_async_callable(processor):
            raise ConfigurationError(
                f"{where} of queue {self.name!r} is async, and the queue hands out batches: make it a "
                "plain function, or take one message at a time"
            )


def _library_process_batch() -> Any:
    from sqs_workers.queues.generic import GenericQueue

    return GenericQueue.process_batch
