"""What SQS carries: a message received, and a message to be sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

__all__ = [
    "OUTGOING_SINK",
    "Lease",
    "Message",
    "MessageControl",
    "OutgoingMessage",
    "OutgoingSink",
    "string_attribute",
]


class MessageControl(Protocol):
    """Acts on the receipt of a message: the worker that holds it, or a transport."""

    def delete(self, message: Message) -> None:
        """Acknowledge the message."""
        ...

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Make the message visible ``seconds`` from now (0 to 43,200)."""
        ...


class Lease(Protocol):
    """A worker's hold on a message in flight."""

    @property
    def lost(self) -> bool:
        """Whether SQS refused to extend the visibility: another worker may have the message."""
        ...

    @property
    def remaining(self) -> float:
        """Seconds until the message becomes visible again if nobody extends it."""
        ...


class Message:
    """A message received from SQS.

    Attribute names are those of boto3's ``SQS.Message``. ``attributes`` are the
    system attributes that were asked for, ``message_attributes`` the sender's.
    """

    __slots__ = (
        "__weakref__",
        "after_delete",
        "attributes",
        "body",
        "content",
        "control",
        "lease",
        "md5_of_body",
        "message_attributes",
        "message_id",
        "opened",
        "queue_url",
        "receipt_handle",
        "received_at",
        "stored_size",
    )

    def __init__(
        self,
        message_id: str,
        receipt_handle: str,
        body: str,
        attributes: dict[str, str] | None = None,
        message_attributes: dict[str, dict[str, Any]] | None = None,
        *,
        md5_of_body: str = "",
        queue_url: str = "",
        received_at: float = 0.0,
        control: MessageControl | None = None,
    ) -> None:
        self.message_id = message_id
        self.receipt_handle = receipt_handle
        self.body = body
        self.attributes: dict[str, str] = {} if attributes is None else attributes
        self.message_attributes: dict[str, dict[str, Any]] = (
            {} if message_attributes is None else message_attributes
        )
        self.md5_of_body = md5_of_body
        self.queue_url = queue_url
        self.received_at = received_at
        """Monotonic time, in seconds, at which the receive that brought the message was answered."""
        self.control = control
        self.lease: Lease | None = None
        self.opened: Any = None
        """What a queue with an envelope found inside: kept, because several steps ask."""
        self.content: Message | None = None
        """The message that this one stood for, once its body was fetched."""
        self.stored_size = 0
        """Characters of a body that was fetched; 0 if it came in the message."""
        self.after_delete: Callable[[], object] | None = None
        """Called by the worker once SQS has taken the acknowledgement: what the message stood for may go."""

    def __repr__(self) -> str:
        # The body stays out of logs.
        return f"<Message {self.message_id}>"

    @property
    def receive_count(self) -> int:
        """How often SQS has handed this message out, this time included (1 if SQS did not say)."""
        return int(self.attributes.get("ApproximateReceiveCount", 1))

    @property
    def group_id(self) -> str | None:
        """Message group, on FIFO queues and on fair queues."""
        return self.attributes.get("MessageGroupId")

    @property
    def lost(self) -> bool:
        """Whether the worker's hold on the message is lost, so that another may run it too."""
        return self.lease is not None and self.lease.lost

    def string_attribute(self, name: str) -> str | None:
        """Value of the String message attribute ``name``, or ``None``."""
        attribute = self.message_attributes.get(name)
        return None if attribute is None else attribute.get("StringValue")

    def delete(self) -> None:
        """Acknowledge the message now.

        :raises RuntimeError: the message was not received through a queue.
        """
        self._require_control().delete(self)

    def change_visibility(self, VisibilityTimeout: int) -> None:  # noqa: N803
        """Make the message visible ``VisibilityTimeout`` seconds from now (0 to 43,200).

        :raises RuntimeError: the message was not received through a queue.
        """
        self._require_control().change_visibility(self, VisibilityTimeout)

    def _require_control(self) -> MessageControl:
        if self.control is None:
            raise RuntimeError(f"message {self.message_id} was not received through a queue")
        return self.control


def string_attribute(value: str) -> dict[str, str]:
    """A message attribute of type String in boto3's shape."""
    return {"StringValue": value, "DataType": "String"}


@dataclass(frozen=True)
class OutgoingMessage:
    """A message ready to be sent: body encoded, options checked.

    :param body: text of the message.
    :param attributes: message attributes in boto3's shape.
    :param delay_seconds: 0 to 900; ``None`` leaves it to the queue.
    :param job_name: for errors and logs; SQS sees the attribute ``JobName``.
    """

    body: str = field(repr=False)
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    delay_seconds: int | None = None
    deduplication_id: str | None = None
    group_id: str | None = None
    job_name: str = ""

    @cached_property
    def size(self) -> int:
        """Bytes that SQS counts: the body and the names, types and values of attributes, in UTF-8."""
        # Joined, because asking ten texts for their length costs most of sending a message.
        texts = [self.body]
        binary = 0
        for name, attribute in self.attributes.items():
            value = attribute.get("StringValue")
            if value is None:
                binary += len(attribute["BinaryValue"])
                value = ""
            texts += (name, attribute["DataType"], value)
        return _utf8_length("".join(texts)) + binary

    def to_request(self) -> dict[str, Any]:
        """Parameters of ``SendMessage``, or an entry of ``SendMessageBatch`` but for its ``Id``."""
        request: dict[str, Any] = {"MessageBody": self.body}
        if self.attributes:
            request["MessageAttributes"] = self.attributes
        if self.delay_seconds is not None:
            request["DelaySeconds"] = self.delay_seconds
        if self.deduplication_id is not None:
            request["MessageDeduplicationId"] = self.deduplication_id
        if self.group_id is not None:
            request["MessageGroupId"] = self.group_id
        return request


OutgoingSink: TypeAlias = Callable[[str, OutgoingMessage], str | None]
"""Takes the name of a queue and a message; answers with an id, if it has one."""

OUTGOING_SINK: ContextVar[OutgoingSink | None] = ContextVar("sqs_workers_outgoing_sink", default=None)
"""Who takes the jobs of this thread or task instead of SQS, for instance an outbox; ``None`` sends them."""


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
