"""Acts on messages that were received outside of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.transport.protocol import Transport

__all__ = ["TransportControl"]


class TransportControl:
    """Deletes a message, or changes its visibility, by a call of its own.

    :param transport: carries the calls.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def delete(self, message: Message) -> None:
        """Acknowledge the message."""
        self._transport.delete(message.queue_url, message.receipt_handle)

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Make the message visible ``seconds`` from now (0 to 43,200)."""
        self._transport.change_visibility(message.queue_url, message.receipt_handle, seconds)
