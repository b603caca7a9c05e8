"""What all queues share: where they are, how they receive, and how they are worked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import Self

from sqs_workers.backoff_policies import DEFAULT_BACKOFF
from sqs_workers.batching import BatchingConfiguration, NoBatching
from sqs_workers.codecs import CONTENT_TYPES_CODECS
from sqs_workers.core import BatchProcessingResult
from sqs_workers.exceptions import CodecNotAcceptedError, ConfigurationError, NoProcessorError
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_WAIT_SECONDS
from sqs_workers.messages import OUTGOING_SINK
from sqs_workers.outcome import Failed
from sqs_workers.outgoing import check_attributes, check_id
from sqs_workers.processors import as_legacy_result
from sqs_workers.queues.arrivals import Arrivals
from sqs_workers.queues.checks import is_number
from sqs_workers.queues.control import ReceiptControl
from sqs_workers.queues.departures import make_message, send_all, send_one
from sqs_workers.queues.running import WorksQueue
from sqs_workers.queues.settings import JobSettings, QueueSettings, merge_policies
from sqs_workers.queues.standins import calls_transport_of, own_url, transport_of
from sqs_workers.sending import BatchBlock, Sender
from sqs_workers.transport.protocol import ReceiveOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqs_workers.messages import Message, OutgoingMessage
    from sqs_workers.outcome import Outcome
    from sqs_workers.processors import ProcessingResult
    from sqs_workers.sqs_env import SQSEnv
    from sqs_workers.transport.protocol import Transport
    from sqs_workers.worker.contract import JobPolicies

__all__ = ["GenericQueue"]

logger = logging.getLogger("sqs_workers.queue")

ALL_ATTRIBUTES = ("All",)


@dataclass(eq=False)
class GenericQueue(WorksQueue):
    """A queue of an environment; made by ``env.queue(...)``.

    Subclasses may override :meth:`process_message` and :meth:`process_messages`, which answer with ``True``, or
    with ``False`` (or a :class:`~sqs_workers.processors.ProcessingResult`) to have the message tried again.

    :param env: the environment.
    :param name: name without the environment's prefix.
    :param backoff_policy: when failed jobs are tried again.
    :param batching_policy: whether handlers get lists.
    """

    env: SQSEnv = field(repr=False)
    name: str
    backoff_policy: Any = DEFAULT_BACKOFF
    batching_policy: BatchingConfiguration = field(default_factory=NoBatching)
    _queue: Any = field(repr=False, default=None)
    queue_url: str | None = field(repr=False, default=None, init=False)
    settings: QueueSettings = field(repr=False, default=QueueSettings(), init=False)

    @classmethod
    def maker(cls, **kwargs: Any) -> Callable[..., Self]:
        """A ``queue_maker`` for ``env.queue(...)`` that fills in some of the parameters."""
        return partial(cls, **kwargs)

    # Where the queue is

    def get_sqs_queue_name(self) -> str:
        """Name of the queue on SQS, prefix included."""
        return self.env.get_sqs_queue_name(self.name)

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue: its name, or the URL it was declared with, ends with ``.fifo``."""
        return (self.queue_url or self.name).endswith(".fifo")

    @property
    def url(self) -> str:
        """URL of the queue; asked of SQS once.

        :raises QueueNotFoundError: there is no such queue, or not for these credentials.
        """
        url = own_url(self)
        return self._library_url() if url is None else url

    def _library_url(self) -> str:
        if self.queue_url is not None:
            return self.queue_url
        url = self.__dict__.get("_url")
        if url is None:
            url = self.__dict__["_url"] = self.env.find_queue_url(self.name)
        return cast("str", url)

    def forget_url(self) -> None:
        """Ask SQS again for the URL at the next use: the queue was deleted or created."""
        self.__dict__.pop("_url", None)
        self.__dict__.pop("_cached_queue", None)

    def get_queue(self) -> Any:
        """The boto3 resource ``SQS.Queue``, cached; a new one after a fork."""
        if self._queue is not None:
            return self._queue
        resource = self.env.sqs_resource
        cached = self.__dict__.get("_cached_queue")
        if cached is None or cached[0] is not resource:
            if self.env.stand_in_resource is None or self.queue_url is not None:
                found = resource.Queue(self._library_url())
            else:
                found = resource.get_queue_by_name(QueueName=self.get_sqs_queue_name())
            cached = self.__dict__["_cached_queue"] = resource, found
        return cached[1]

    @property
    def transport(self) -> Transport:
        """Carries the calls to the queue: the environment's, unless ``get_queue`` is the user's own."""
        return transport_of(self)

    @property
    def _transport(self) -> Transport:
        return calls_transport_of(self)

    # Sending

    @property
    def sender(self) -> Sender:
        """Sends the messages of the queue."""
        sender: Sender | None = self.__dict__.get("_sender")
        if sender is None:
            # setdefault is atomic: two threads must not end up with two senders.
            sender = self.__dict__.setdefault(
                "_sender",
                Sender(
                    self.name,
                    lambda: self._transport,
                    lambda: self.url,
                    fifo=self.is_fifo,
                    clock=self.env.clock,
                ),
            )
        return sender

    def send_message(self, message: OutgoingMessage) -> str | None:
        """Send a message, or add it to the batch that this thread or task has open.

        Within the block of an outbox it goes there.

        :returns: the id that SQS gave it, or that of its schedule; ``None`` in a batch.
        """
        sink = OUTGOING_SINK.get()
        if sink is not None:
            return sink(self.name, message)
        route = self.env.route
        if route is not None:
            return route(self, message)
        return send_one(self, message, self.sender.send)

    def send_now(self, message: OutgoingMessage) -> str | None:
        """Send a message, even while a batch is open."""
        route = self.env.route
        return send_one(self, message, self.sender.send_now) if route is None else route(self, message)

    def send_messages(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send messages in as few calls as possible; for those of ``SQSBatchError.unsent``, for instance.

        Within the block of an outbox they go there.

        :raises SQSBatchError: with those that SQS did not take.
        """
        if OUTGOING_SINK.get() is None and self.env.route is None:
            send_all(self, messages)
        else:
            for message in messages:
                self.send_message(message)

    def open_add_batch(self) -> None:
        """Collect what this thread or task sends until :meth:`close_add_batch`; may be nested."""
        self.sender.open_batch()

    def close_add_batch(self) -> None:
        """Send what was collected since the outermost :meth:`open_add_batch`.

        :raises SQSBatchError: with every job that SQS did not take.
        """
        self.sender.close_batch()

    def add_batch(self, *, flush_on_error: bool = False, pack_groups: bool = False) -> BatchBlock:
        """Collect what a ``with`` or ``async with`` block sends, and send it in as few calls as possible.

        May be nested.

        The batch belongs to the thread or asyncio task that opens it: others are not held up by it. Calls
        with ten entries, or as many as fit into 1,048,576 bytes, go out while the block runs.

        :param flush_on_error: also send what still waits when the block raised; by default it is forgotten.
        :param pack_groups: on a FIFO queue, let a call carry several messages of a group. SQS may take some
            entries of a call and refuse others; by default a call therefore has one message of each group, so
            that none overtakes an earlier one. ``True`` makes up to ten times fewer calls for a single group
            and gives up its order in that rare case.
        :raises SQSBatchError: with every job that SQS did not take, ready to be sent again by
            :meth:`send_messages`.
        """
        return self.sender.batch(flush_on_error=flush_on_error, pack_groups=pack_groups)

    def _outgoing(
        self, body: Any, attributes: Mapping[str, Mapping[str, Any]], what: str, **options: Any
    ) -> OutgoingMessage:
        where = f"{what} for queue {self.name!r}"
        check_attributes(attributes, where)
        if not self.is_fifo and options.get("group_id") is not None:
            check_id("message group id", options["group_id"], where)
        return make_message(self, body, attributes, where, **options)

    # Receiving

    def get_raw_messages(self, wait_seconds: int = 0, max_messages: int = 10) -> list[Message]:
        """Receive messages without running them; they stay in flight until they are deleted or released.

        :param wait_seconds: 0 to 20, seconds of long polling.
        :param max_messages: 1 or more; above 10 they come from several receives, as long as each is full.
        """
        if not is_number(wait_seconds) or not 0 <= wait_seconds <= MAX_WAIT_SECONDS:
            raise ConfigurationError(f"wait_seconds must be 0 to {MAX_WAIT_SECONDS}, not {wait_seconds!r}")
        received: dict[str, Message] = {}
        asked = got = MAX_BATCH_ENTRIES
        while got >= asked and len(received) < max_messages:
            asked = min(max_messages - len(received), MAX_BATCH_ENTRIES)
            messages = self._transport.receive(
                self.url,
                ReceiveOptions(
                    asked,
                    # What is there is handed over; only an empty queue is waited for.
                    0 if received else int(wait_seconds),
                    system_attributes=ALL_ATTRIBUTES,
                ),
            )
            got = len(messages)
            for message in messages:
                message.control = ReceiptControl(self._transport)
                received[message.message_id] = message
        return list(received.values())

    def drain_queue(self, wait_seconds: int = 0) -> int:
        """Delete all messages that can be received, one receive after another, without SQS's purge.

        :returns: how many were deleted.
        """
        deleted = 0
        while messages := self.get_raw_messages(wait_seconds):
            errors = self._transport.delete_batch(self.url, [message.receipt_handle for message in messages])
            failed = [error.code for error in errors if error is not None]
            if failed:
                logger.warning(
                    "%d message(s) could not be deleted from queue %s: %s",
                    len(failed),
                    self.name,
                    ", ".join(sorted(set(failed))),
                    extra={"queue_name": self.name},
                )
            deleted += len(messages) - len(failed)
            if len(failed) == len(messages):
                break
        return deleted

    # Policies

    @property
    def takes_batches(self) -> bool:
        """Whether handlers get lists of jobs."""
        return bool(self.batching_policy.batching_enabled)

    @property
    def middleware_in_use(self) -> tuple[Any, ...]:
        """The environment's middleware and the queue's own."""
        everywhere, own = self.env.middleware, self.settings.middleware
        return (*everywhere, *own) if everywhere or own else ()

    def policies_of(self, job_name: str) -> JobPolicies:
        """Policies of a job: its own, else the queue's, else the environment's."""
        cache = self.__dict__.setdefault("_policies", {})
        key = (job_name, id(self.backoff_policy))
        policies: JobPolicies | None = cache.get(key)
        if policies is None:
            # Names come from messages: only those of processors are kept.
            own = self._job_settings(job_name)
            policies = merge_policies(
                self.backoff_policy, [own or JobSettings(), self.settings, self.env.settings]
            )
            if own is not None:
                cache[key] = policies
        return policies

    def _job_settings(self, job_name: str) -> JobSettings | None:
        return None

    def permanent_errors_of(self, job_name: str) -> tuple[type[BaseException], ...]:
        """Exception classes that no retry of the job can help."""
        own = self._job_settings(job_name)
        wider = (*self.settings.permanent_errors, *self.env.settings.permanent_errors)
        return (*own.permanent_errors, *wider) if own is not None else wider

    def check_accepted(self, content_type: str | None) -> None:
        """Refuse a message whose codec is known, but not accepted by this worker.

        :raises CodecNotAcceptedError: names the codec and what is accepted.
        """
        accept = self.settings.accept or self.env.accept
        if content_type is None or content_type in accept or content_type not in CONTENT_TYPES_CODECS:
            return
        raise CodecNotAcceptedError(
            f"a message of queue {self.name!r} has the content type {content_type!r}, and this worker "
            f"accepts {', '.join(sorted(accept))} only (accept= of SQSEnv)"
        )

    # Processing

    def process_message(self, message: Any) -> bool | ProcessingResult:
        """Run one message; exceptions are logged.

        :returns: ``True``, or a :class:`~sqs_workers.processors.ProcessingResult` that is false.
        """
        return as_legacy_result(self.handler.run_job(message))

    def process_messages(self, messages: Sequence[Any]) -> bool | ProcessingResult:
        """Run messages as one batch; exceptions are logged.

        :returns: ``True`` if all succeeded, or else a false
            :class:`~sqs_workers.processors.ProcessingResult`: that of the first that did not.
        """
        for outcome in self.handler.run_job_batch(messages):
            result = as_legacy_result(outcome)
            if result is not True:
                return result
        return True

    def no_processor(self, messages: Sequence[Any]) -> Outcome:
        """The outcome of messages for which nothing is registered; temporary, said in the log."""
        logger.error(
            "No processor is set for queue %s; its message %s is tried again later",
            self.name,
            messages[0].message_id,
            extra={"queue_name": self.name, "message_id": messages[0].message_id},
        )
        return Failed(NoProcessorError(f"no processor is set for queue {self.name!r}"))

    @property
    def handler(self) -> Any:
        """Runs the messages of the queue for a worker."""
        handler = self.__dict__.get("_handler")
        if handler is None:
            handler = self.__dict__.setdefault("_handler", Arrivals(self, self._make_handler()))
        return handler

    def _make_handler(self) -> Any:
        from sqs_workers.queues.handlers import OwnHandler

        return OwnHandler(self)

    @property
    def overrides_process_message(self) -> bool:
        """Whether a subclass runs messages by rules of its own."""
        method = type(self).process_message
        known = method is GenericQueue.process_message or _of_library(method)
        return not known or "process_message" in self.__dict__

    @property
    def overrides_process_messages(self) -> bool:
        """Whether a subclass runs batches by rules of its own."""
        return not _of_library(type(self).process_messages) or "process_messages" in self.__dict__

    @property
    def event_routes(self) -> Sequence[Any]:
        """Processors of events, if the queue has any."""
        events = self.__dict__.get("_events")
        return () if events is None else cast("Sequence[Any]", events.all_routes)

    @property
    def has_processors(self) -> bool:
        """Whether anything is registered that could run a message of the queue."""
        return self.overrides_process_message

    def process_batch(self, wait_seconds: int = 0) -> BatchProcessingResult:
        """Receive once (up to ten messages, or one batch), run what came, settle it, and return.

        :param wait_seconds: 0 to 20, seconds of long polling.
        """
        return self._process_once(wait_seconds)


def _of_library(method: Callable[..., Any]) -> bool:
    return method.__module__.startswith("sqs_workers.queues.")
