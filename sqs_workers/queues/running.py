"""How a queue is worked: the options of ``process_queue`` and what the engine makes of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.queues.checks import check_policy
from sqs_workers.queues.options import ProcessOptions, RunOptions, split_options
from sqs_workers.shutdown_policies import NEVER_SHUTDOWN, ShutdownPolicy
from sqs_workers.signatures import is_async_callable
from sqs_workers.transport import DeferredTransport
from sqs_workers.worker.contract import BatchSettings, Source

if TYPE_CHECKING:
    from sqs_workers.core import BatchProcessingResult
    from sqs_workers.transport import Transport
    from sqs_workers.worker import Worker, WorkerResult

__all__ = ["WorksQueue"]

logger = logging.getLogger("sqs_workers.queue")

MISSING_QUEUE_WAIT = 5.0
"""Seconds between two looks for a queue that does not exist yet (``missing="wait"``)."""

_FACTS_SECONDS = 60.0
"""How long ``process_batch`` believes what it has read of the queue's attributes."""

# What the library itself reads; whoever needs more gets all of them.
SYSTEM_ATTRIBUTES = ("ApproximateReceiveCount", "MessageGroupId", "SentTimestamp")


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
        def transport(self) -> Transport: ...
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
        check_policy("shutdown_policy", shutdown_policy, f"queue {self.name!r}")
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
        check_policy("shutdown_policy", shutdown_policy, f"queue {self.name!r}")
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
            self.transport,
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
        if isinstance(self.env.transport, DeferredTransport):
            # What the lean transport refuses belongs here, and not among the failures of receives.
            self.env.transport.open()
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
            attributes = self.transport.get_queue_attributes(self.url, ["VisibilityTimeout"])
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
            source, self.transport, wait_seconds=int(wait_seconds), clock=clock, hooks=self.env.hooks
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
