"""An environment for the relay of an outbox that sends to topics and buses, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqs_workers.aws.service_clients import ServiceClient, region_of
from sqs_workers.aws.wire import EVENTBRIDGE_BYTES, SNS_BYTES, publish_batch, put_event_entries
from sqs_workers.envelopes.readers import is_arn
from sqs_workers.messages import OutgoingMessage
from sqs_workers.transport.errors import classify, error_code
from sqs_workers.transport.protocol import EntryError, SendResult

__all__ = ["EventsEnv", "with_events"]

BUS_PREFIX = "event-bus:"


def with_events(env: Any, *, session: Any = None, sns: Any = None, events: Any = None) -> EventsEnv:
    """``Relay(outbox, with_events(env))`` sends jobs to queues, and events to topics and buses.

    :param env: an ``SQSEnv``.
    :param session: makes the clients; the boto3 module by default.
    :param sns: a boto3 client of SNS for all topics.
    :param events: a boto3 client of EventBridge for all buses.
    """
    return EventsEnv(env, session=session, sns=sns, events=events)


class EventsEnv:
    """What a relay asks of an environment: transport, names and hooks."""

    def __init__(self, env: Any, *, session: Any = None, sns: Any = None, events: Any = None) -> None:
        self._env = env
        self.hooks = env.hooks
        self.transport = _Transport(env.transport, session, sns, events)

    def resolve_queue_url(self, name: str) -> str:
        """URL of a queue; topics and buses are named by what they are.

        :raises QueueNotFoundError: there is no such queue.
        """
        if name.startswith(BUS_PREFIX) or is_arn(name, "sns") or is_arn(name, "events"):
            return name
        url: str = self._env.resolve_queue_url(name)
        return url


class _Transport:
    """Sends each batch by the service that its target belongs to; all else is SQS's."""

    def __init__(self, inner: Any, session: Any, sns: Any, events: Any) -> None:
        self._inner = inner
        self._session = session
        self._given = {"sns": sns, "events": events}
        self._clients: dict[tuple[str, str | None], ServiceClient] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        """Send 1 to 10 messages; one result each, in their order."""
        if is_arn(queue_url, "sns"):
            client = self._client("sns", region_of(queue_url))
            return _in_calls(lambda chunk: publish_batch(client, queue_url, chunk), messages, SNS_BYTES)
        bus = queue_url.removeprefix(BUS_PREFIX)
        if bus != queue_url or is_arn(queue_url, "events"):
            client = self._client("events", region_of(bus))
            return _in_calls(lambda chunk: put_event_entries(client, bus, chunk), messages, EVENTBRIDGE_BYTES)
        results: list[SendResult] = self._inner.send_batch(queue_url, messages)
        return results

    def _client(self, service: str, region: str | None) -> Any:
        key = service, region
        if key not in self._clients:
            self._clients[key] = ServiceClient(
                service, client=self._given[service], session=self._session, region=region
            )
        return self._clients[key].get()


def _in_calls(
    call: Callable[[list[OutgoingMessage]], list[SendResult]],
    messages: Sequence[OutgoingMessage],
    max_bytes: int,
) -> list[SendResult]:
    """Ten messages of SQS's size may be more than one call of these services takes."""
    results: list[SendResult] = []
    for chunk in _chunks(messages, max_bytes):
        try:
            results += call(chunk)
        except Exception as error:
            if not results:
                raise
            # What was taken by the calls before must not be sent again.
            failure = EntryError(error_code(error), str(error), not classify(error).temporary)
            return results + [SendResult(None, failure)] * (len(messages) - len(results))
    return results


def _chunks(messages: Sequence[OutgoingMessage], max_bytes: int) -> list[list[OutgoingMessage]]:
    chunks: list[list[OutgoingMessage]] = []
    size = 0
    for message in messages:
        if not chunks or size + message.size > max_bytes:
            chunks.append([])
            size = 0
        chunks[-1].append(message)
        size += message.size
    return chunks
