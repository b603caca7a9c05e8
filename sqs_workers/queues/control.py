"""What ``message.delete()`` and ``message.change_visibility()`` do outside of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.messages import Message
    from sqs_workers.transport.protocol import Transport

__all__ = ["ReceiptControl"]


class ReceiptControl:
    """Acts on messages that were received outside of a worker."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def delete(self, message: Message) -> None:
        self._transport.delete(message.queue_url, message.receipt_handle)

    def change_visibility(self, message: Message, seconds: int) -> None:
        self._transport.change_visibility(message.queue_url, message.receipt_handle, seconds)
