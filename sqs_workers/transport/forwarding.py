"""A transport that hands its calls on to another: the base of those that do something else for a few of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqs_workers.transport.protocol import (
    EntryError,
    ReceiveOptions,
    SendResult,
    Transport,
    connections_of,
    wake_receives,
)

if TYPE_CHECKING:
    from sqs_workers.messages import Message, OutgoingMessage

__all__ = ["Forwarding"]


class Forwarding(ABC):
    """Hands every call on to the transport beneath."""

    @property
    @abstractmethod
    def beneath(self) -> Transport:
        """The transport that carries the calls."""

    @property
    def connections(self) -> int | None:
        """Those of the transport beneath."""
        return connections_of(self.beneath)

    def get_queue_url(self, sqs_queue_name: str) -> str:
        return self.beneath.get_queue_url(sqs_queue_name)

    def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]:
        return self.beneath.get_queue_attributes(queue_url, names)

    def send(self, queue_url: str, message: OutgoingMessage) -> str:
        return self.beneath.send(queue_url, message)

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        return self.beneath.send_batch(queue_url, messages)

    def receive(self, queue_url: str, options: ReceiveOptions) -> list[Message]:
        return self.beneath.receive(queue_url, options)

    def wake_receives(self, queue_url: str) -> None:
        """As far as the transport beneath can."""
        wake_receives(self.beneath, queue_url)

    def delete(self, queue_url: str, receipt_handle: str) -> None:
        self.beneath.delete(queue_url, receipt_handle)

    def delete_batch(self, queue_url: str, receipt_handles: Sequence[str]) -> list[EntryError | None]:
        return self.beneath.delete_batch(queue_url, receipt_handles)

    def change_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> None:
        self.beneath.change_visibility(queue_url, receipt_handle, seconds)

    def change_visibility_batch(
        self, queue_url: str, entries: Sequence[tuple[str, int]]
    ) -> list[EntryError | None]:
        return self.beneath.change_visibility_batch(queue_url, entries)
