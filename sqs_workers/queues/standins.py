"""Queues whose ``get_queue()`` or ``get_raw_messages()`` is the user's: which transport their calls take.

Usually none is, and a queue's calls take the environment's transport.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqs_workers.transport.protocol import Transport
from sqs_workers.transport.queue_object import QueueObjectTransport, ReceivingTransport

__all__ = ["calls_transport_of", "joint_transport", "own_url", "transport_of"]

_OPERATIONS = frozenset(
    {
        "send_message",
        "send_messages",
        "receive_messages",
        "delete_messages",
        "change_message_visibility_batch",
    }
)


def own_queue_object(queue: Any) -> Callable[[], Any] | None:
    """What answers with the queue object of the user's; ``None`` if the library's own would be asked."""
    attributes = queue.__dict__
    if attributes.get("_queue") is not None or "get_queue" in attributes or _is_own(queue, "get_queue"):
        return _getter(queue)
    if queue.env.stand_in_resource is not None:
        return _getter(queue)
    cached = attributes.get("_cached_queue")
    if cached is not None and not _OPERATIONS.isdisjoint(cached[1].__dict__):
        # Methods of the object that get_queue() answers with were replaced, one by one.
        return _getter(queue)
    return None


def _getter(queue: Any) -> Callable[[], Any] | None:
    asking = queue.__dict__.setdefault("_asking", threading.local())
    if getattr(asking, "now", False):
        # The user's get_queue() itself asks for the URL: it means the library's.
        return None

    def get() -> Any:
        asking.now = True
        try:
            return queue.get_queue()
        finally:
            asking.now = False

    return get


def _is_own(queue: Any, method: str) -> bool:
    function = getattr(type(queue), method)
    return getattr(function, "__module__", None) != "sqs_workers.queues.generic"


def transport_of(queue: Any) -> Transport:
    """The transport for the calls of a queue."""
    return _over(queue, queue.env.transport)


def joint_transport(env: Any, queues: Iterable[Any]) -> Transport:
    """One transport for a worker of several queues."""
    transport = env.transport
    for queue in queues:
        transport = _over(queue, transport)
    return transport  # type: ignore[no-any-return]


def _over(queue: Any, beneath: Transport) -> Transport:
    if "get_raw_messages" in queue.__dict__ or _is_own(queue, "get_raw_messages"):

        def receive(wait_seconds: int, max_messages: int) -> Sequence[Any]:
            received: Sequence[Any] = queue.get_raw_messages(wait_seconds, max_messages)
            return received

        # Within it, super().get_raw_messages() takes calls_transport_of().
        return ReceivingTransport(
            _calls_over(queue, beneath), queue.url, receive, monotonic=queue.env.clock.monotonic
        )
    return _calls_over(queue, beneath)


def calls_transport_of(queue: Any) -> Transport:
    """The same but for a ``get_raw_messages()`` of the user's, for what that calls itself."""
    return _calls_over(queue, queue.env.transport)


def _calls_over(queue: Any, beneath: Transport) -> Transport:
    get_object = own_queue_object(queue)
    if get_object is None:
        return beneath
    return QueueObjectTransport(beneath, queue.url, get_object, monotonic=queue.env.clock.monotonic)


def own_url(queue: Any) -> str | None:
    """URL of the queue object that is the user's; ``None`` if there is none."""
    get_object = own_queue_object(queue)
    if get_object is None:
        return None
    url = getattr(get_object(), "url", None)
    # A mock has none: the name tells the queue from others as well.
    return url if isinstance(url, str) else str(queue.get_sqs_queue_name())
