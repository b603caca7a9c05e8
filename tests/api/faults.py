"""A transport that fails on request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from sqs_workers.messages import OutgoingMessage
from sqs_workers.transport.protocol import EntryError, SendResult


class FaultyTransport:
    """Passes calls on, records them, and fails entries and calls as told.

    :param fail_entry: answers with the error of an entry, or ``None``.
    :param fail_call: raises instead of calling, or returns.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self.sent: list[list[OutgoingMessage]] = []
        self.calls = 0
        self.fail_entry: Callable[[OutgoingMessage], EntryError | None] = lambda message: None
        self.fail_call: Callable[[int], None] = lambda number: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        self.fail_call(1)
        return self._transport.send(queue_url, message)

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        with self._lock:
            self.calls += 1
            number = self.calls
            errors = [self.fail_entry(message) for message in messages]
        self.fail_call(number)
        taken = [m for m, error in zip(messages, errors, strict=True) if error is None]
        with self._lock:
            self.sent.append(taken)
        results = iter(self._transport.send_batch(queue_url, taken) if taken else [])
        return [SendResult(None, error) if error else next(results) for error in errors]


def once_each(*bodies_with: str, error: EntryError) -> Callable[[OutgoingMessage], EntryError | None]:
    """Fails each message whose body has one of the texts, the first time."""
    left = set(bodies_with)

    def fail(message: OutgoingMessage) -> EntryError | None:
        for text in list(left):
            if text in message.body:
                left.discard(text)
                return error
        return None

    return fail
