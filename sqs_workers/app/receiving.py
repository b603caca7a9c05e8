"""Bounds on what a worker receives: messages of one receive, and messages in all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.core import BatchProcessingResult
    from sqs_workers.messages import Message, OutgoingMessage
    from sqs_workers.transport import EntryError, ReceiveOptions, SendResult, Transport

__all__ = ["BoundedTransport", "Quota"]


class Quota:
    """How many messages a run may take; as a shutdown policy it ends the worker when they are done.

    :param messages: in all; ``None`` for no end.
    :param once: one receive alone.
    """

    def __init__(self, messages: int | None = None, *, once: bool = False) -> None:
        self._left = messages
        self._once = once
        self._receives = 0
        self._taken = 0
        self._under_way = 0
        self._ended = 0
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return "one receive" if self._once else "the messages that were asked for"

    def ask(self, wanted: int) -> int:
        """Reserve messages of one receive; 0 if there is nothing to be had any more."""
        with self._changed:
            if self._once and self._receives:
                return 0
            self._receives += 1
            allowed = wanted if self._left is None else min(wanted, self._left)
            if self._left is not None:
                self._left -= allowed
            self._under_way += allowed
            return allowed

    def brought(self, asked: int, count: int) -> None:
        """A receive that had reserved ``asked`` has brought ``count``."""
        with self._changed:
            self._under_way -= asked
            self._taken += count
            if self._left is not None:
                self._left += asked - count
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Stands in for a long poll that brings nothing."""
        with self._changed:
            self._changed.wait(min(seconds, 0.2))

    def update_state(self, batch_processing_result: BatchProcessingResult) -> None:
        """Of the shutdown policies: jobs have ended."""
        with self._changed:
            self._ended += batch_processing_result.total_count()

    def need_shutdown(self) -> bool:
        """Of the shutdown policies: everything that may be taken was, and is done."""
        with self._changed:
            if self._under_way or self._ended < self._taken:
                return False
            return (self._once and self._receives > 0) or self._left == 0


class BoundedTransport:
    """A transport that receives no more than it may.

    :param batch_size: messages of one receive.
    """

    def __init__(self, transport: Transport, *, batch_size: int, quota: Quota | None = None) -> None:
        self._transport = transport
        self._batch_size = batch_size
        self._quota = quota

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        wanted = min(options.max_messages, self._batch_size)
        quota = self._quota
        if quota is None:
            return self._transport.receive(queue_url, replace(options, max_messages=wanted))
        allowed = quota.ask(wanted)
        if not allowed:
            quota.pause(options.wait_seconds)
            return []
        messages: list[Message] = []
        try:
            messages = self._transport.receive(queue_url, replace(options, max_messages=allowed))
        finally:
            quota.brought(allowed, len(messages))
        return messages

    def get_queue_url(self, sqs_queue_name: str) -> str:
        return self._transport.get_queue_url(sqs_queue_name)

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        return self._transport.get_queue_attributes(queue_url, names)

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        return self._transport.send(queue_url, message)

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        return self._transport.send_batch(queue_url, messages)

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        self._transport.delete(queue_url, receipt_handle)

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        return self._transport.delete_batch(queue_url, receipt_handles)

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        self._transport.change_visibility(queue_url, receipt_handle, seconds)

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        return self._transport.change_visibility_batch(queue_url, entries)

    def __getattr__(self, name: str) -> Any:
        # What a transport offers besides the protocol.
        return getattr(self._transport, name)
