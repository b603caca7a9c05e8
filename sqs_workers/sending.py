"""Sending the messages of a queue: at once, or in a batch that belongs to the thread or task that opened
it."""

from __future__ import annotations

import contextvars
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqs_workers.delivery import (
    EARLIER_FAILED,
    Packer,
    Positioned,
    RetryPolicy,
    Unsent,
    as_error_entries,
    deliver,
)
from sqs_workers.exceptions import SQSBatchError, UncertainSendError
from sqs_workers.transport.errors import explain_send_error
from sqs_workers.width import Places, Width

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor
    from types import TracebackType

    from sqs_workers.clock import Clock
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.transport.protocol import SendResult, Transport

__all__ = ["Batch", "BatchBlock", "Sender"]

logger = logging.getLogger(__name__)

OVERLAPPING_CALLS = 8
"""Calls with messages of batches that may be under way at once on a standard queue, at most."""


class Sender:
    """Sends the messages of one queue.

    :param queue_name: for errors and logs.
    :param get_transport: answers with the transport to use now.
    :param resolve_url: answers with the URL of the queue.
    :param fifo: calls go one after another, and a group's order is kept.
    :param clock: for the waits between retries.
    :param retry: how often failed entries of a batch are tried again.
    """

    def __init__(
        self,
        queue_name: str,
        get_transport: Callable[[], Transport],
        resolve_url: Callable[[], str],
        *,
        fifo: bool,
        clock: Clock,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.queue_name = queue_name
        self.fifo = fifo
        self.retry = retry or RetryPolicy()
        self._get_transport = get_transport
        self._resolve_url = resolve_url
        self._clock = clock
        # The owner is part of the key by construction: a thread's batch dies with it, a task's likewise.
        self._of_thread = threading.local()
        self._of_task: WeakKeyDictionary[Any, Batch] = WeakKeyDictionary()
        self._places: tuple[int, Places] | None = None

    def send(self, message: OutgoingMessage) -> str | None:
        """Send a message, or add it to the batch that this thread or task has open.

        :returns: the id that SQS gave the message; ``None`` in a batch.
        """
        batch = self.current_batch()
        if batch is not None:
            batch.add(message)
            return None
        return self.send_now(message)

    def send_now(self, message: OutgoingMessage) -> str:
        """Send a message, even while a batch is open.

        :raises QueueNotFoundError: the queue is gone.
        :raises InvalidMessageError: SQS refused the message.
        :raises SendError: these credentials may not send it.
        :raises UncertainSendError: the answer cannot be read.
        """
        transport, url = self._get_transport(), self._resolve_url()
        try:
            message_id = transport.send(url, message)
        except Exception as error:
            explained = explain_send_error(error, self.queue_name, message.job_name)
            if explained is error:
                raise
            raise explained from error
        if not message_id:
            # boto3 makes an empty answer of a body that it cannot read.
            raise UncertainSendError(
                f"SQS's answer to sending {message.job_name or 'a message'} to queue {self.queue_name!r} cannot "
                "be read: it may have been sent, or not"
            )
        return message_id

    def send_all(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send messages in as few calls as possible, or add them to the open batch.

        :raises SQSBatchError: with those that SQS did not take.
        """
        with self.batch():
            batch = self.current_batch()
            assert batch is not None
            for message in messages:
                batch.add(message)

    def current_batch(self) -> Batch | None:
        """The batch that this thread or task has open."""
        task = _current_task()
        batch = getattr(self._of_thread, "batch", None) if task is None else self._of_task.get(task)
        # A process forked inside of a batch leaves it to its parent.
        return batch if batch is not None and batch.pid == os.getpid() else None

    def _set_current(self, batch: Batch | None) -> None:
        task = _current_task()
        if task is None:
            self._of_thread.batch = batch
        elif batch is None:
            self._of_task.pop(task, None)
        else:
            self._of_task[task] = batch

    def open_batch(self, *, pack_groups: bool = False) -> None:
        """Open a batch, or one more level of the open one.

        :param pack_groups: let a call to a FIFO queue carry several messages of a group; the outermost level
            decides.
        """
        batch = self.current_batch()
        if batch is None:
            batch = Batch(self, pack_groups=pack_groups)
            self._set_current(batch)
        batch.marks.append(batch.added)

    def close_batch(self, *, discard: bool = False) -> None:
        """Close the innermost level; the last one sends what still waits. Without an open batch: nothing.

        :param discard: forget what this level added and has not sent yet.
        :raises SQSBatchError: with every message that SQS did not take.
        """
        batch = self.leave_batch(discard=discard)
        if batch is not None:
            batch.finish()

    def leave_batch(self, *, discard: bool = False) -> Batch | None:
        """Close the innermost level; the batch that is to be finished, if that was the last one."""
        batch = self.current_batch()
        if batch is None:
            return None
        mark = batch.marks.pop()
        if discard:
            batch.discard_from(mark)
        if batch.marks:
            return None
        self._set_current(None)
        return batch

    def batch(self, *, flush_on_error: bool = False, pack_groups: bool = False) -> BatchBlock:
        """Collect the messages of a block and send them in as few calls as possible; see :class:`BatchBlock`."""
        return BatchBlock(self, flush_on_error=flush_on_error, pack_groups=pack_groups)

    @property
    def places(self) -> Places:
        """How many calls of batches may overlap. A forked process begins anew: no thread of its parent's is in it."""
        found, pid = self._places, os.getpid()
        if found is None or found[0] != pid:
            # A batch of a few calls is over before anything is measured: they may all overlap.
            width = Width(start=OVERLAPPING_CALLS, least=1, limit=OVERLAPPING_CALLS, spare=1.0)
            found = self._places = (pid, Places(width))
        return found[1]

    def deliver(self, chunk: list[Positioned]) -> list[Unsent]:
        """Send one call's worth; returns what was not sent."""
        return deliver(self._call, chunk, clock=self._clock, retry=self.retry, queue_name=self.queue_name)

    def _call(self, messages: list[OutgoingMessage]) -> list[SendResult]:
        url = self._resolve_url()
        began = time.perf_counter()
        sent = self._get_transport().send_batch(url, messages)
        self.places.answered(time.perf_counter() - began)
        return sent


class BatchBlock(ContextDecorator):
    """A batch for the time of a ``with`` block, or of an ``async with`` block, which does not hold up the loop.

    :param flush_on_error: also send what still waits when the block raised; by default it is forgotten.
    :param pack_groups: let a call to a FIFO queue carry several messages of a group.
    :raises SQSBatchError: at the end, with every message that SQS did not take. If the block itself raised,
        that error goes on, and this one is attached to it.
    """

    def __init__(self, sender: Sender, *, flush_on_error: bool = False, pack_groups: bool = False) -> None:
        self._sender = sender
        self._flush_on_error = flush_on_error
        self._pack_groups = pack_groups

    def __enter__(self) -> None:
        self._sender.open_batch(pack_groups=self._pack_groups)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._sender.close_batch(discard=error is not None and not self._flush_on_error)
        except SQSBatchError as unsent:
            if error is None:
                raise
            _attach(error, unsent)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        batch = self._sender.leave_batch(discard=error is not None and not self._flush_on_error)
        if batch is None:
            return
        try:
            await asyncio.to_thread(batch.finish)
        except SQSBatchError as unsent:
            if error is None:
                raise
            _attach(error, unsent)


class Batch:
    """Messages added by one thread or task, and the calls that carry them.

    :ivar marks: for each open level, how many messages had been added when it was opened.
    :ivar added: how many messages were added.
    """

    def __init__(self, sender: Sender, *, pack_groups: bool = False) -> None:
        self.pid = os.getpid()
        self.marks: list[int] = []
        self.added = 0
        self._sender = sender
        self._packer = Packer(sender.fifo and not pack_groups)
        self._unsent: list[Unsent] = []
        self._blocked_groups: set[str | None] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._calls: list[Future[list[Unsent]]] = []

    def add(self, message: OutgoingMessage) -> None:
        """Add a message, and send what makes a full call."""
        self.put(message)
        self.flush_full()

    def put(self, message: OutgoingMessage) -> None:
        """Add a message and send nothing."""
        self._packer.add(self.added, message)
        self.added += 1

    def flush_full(self) -> None:
        """Send full calls, beside the thread that adds on standard queues."""
        while self._packer.has_full_call():
            chunk = self._packer.next_call()
            if self._sender.fifo:
                self._deliver_in_order(chunk)
            else:
                self._deliver_beside(chunk)

    def discard_from(self, mark: int) -> None:
        """Forget messages that a failed block added and that were not sent yet."""
        dropped = self._packer.drop_from(mark)
        if dropped:
            logger.warning(
                "%d message(s) of a batch for queue %s were not sent, because the block that added them "
                "raised",
                dropped,
                self._sender.queue_name,
                extra={"queue_name": self._sender.queue_name},
            )

    def finish(self) -> None:
        """Send what waits and collect what failed.

        :raises SQSBatchError: with every message that SQS did not take.
        """
        try:
            while chunk := self._packer.next_call():
                if self._sender.fifo:
                    self._deliver_in_order(chunk)
                elif self._executor is None and not self._packer.waiting:
                    self._unsent.extend(self._sender.deliver(chunk))
                else:
                    self._deliver_beside(chunk)
        finally:
            if self._executor is not None:
                self._executor.shutdown(wait=True)
            self._collect(list(self._calls))
        if self._unsent:
            unsent = sorted(self._unsent, key=lambda failure: failure.position)
            error = SQSBatchError(
                as_error_entries(unsent),
                [failure.message for failure in unsent],
                queue_name=self._sender.queue_name,
            )
            raise error from next((failure.cause for failure in unsent if failure.cause), None)

    def _deliver_in_order(self, chunk: list[Positioned]) -> None:
        ready: list[Positioned] = []
        for position, message in chunk:
            if message.group_id in self._blocked_groups:
                self._unsent.append(Unsent(position, message, EARLIER_FAILED))
            else:
                ready.append((position, message))
        if ready:
            failures = self._sender.deliver(ready)
            self._unsent.extend(failures)
            self._blocked_groups.update(failure.message.group_id for failure in failures)

    def _deliver_beside(self, chunk: list[Positioned]) -> None:
        places = self._sender.places
        if not places.overlap:
            # The processor is what there is too little of: another thread would only take from this one.
            self._unsent.extend(self._sender.deliver(chunk))
            return
        # Whoever adds faster than SQS takes waits here instead of filling the memory.
        places.take()
        try:
            call = self._submit(chunk)
        except RuntimeError:
            # No thread to be had, or the interpreter is about to end: here, then.
            places.give_back()
            self._unsent.extend(self._sender.deliver(chunk))
            return
        call.add_done_callback(lambda _: places.give_back())
        self._calls.append(call)
        if len(self._calls) > 8 * OVERLAPPING_CALLS:
            self._collect([earlier for earlier in self._calls if earlier.done()])

    def _submit(self, chunk: list[Positioned]) -> Future[list[Unsent]]:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(OVERLAPPING_CALLS, thread_name_prefix="sqs-workers-send")
        # The calls run in the caller's context, for the sake of tracing.
        return self._executor.submit(contextvars.copy_context().run, self._sender.deliver, chunk)

    def _collect(self, calls: list[Future[list[Unsent]]]) -> None:
        for call in calls:
            self._unsent.extend(call.result())
            self._calls.remove(call)


def _attach(error: BaseException, unsent: SQSBatchError) -> None:
    """Let an exception of the user's carry what was not sent, and stay the one that is raised."""
    logger.error("%s", unsent, extra={"queue_name": unsent.queue_name})
    add_note = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(f"Besides: {unsent}")
    # It was raised while the user's exception was handled; here it is the other way round.
    unsent.__context__ = None
    if error.__context__ is None:
        error.__context__ = unsent


def _current_task() -> Any:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
