"""Putting events on a bus of EventBridge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sqs_workers.aws.sending_events import as_events, check_bytes, check_event, send_all
from sqs_workers.aws.service_clients import ServiceClient, region_of
from sqs_workers.aws.wire import EVENTBRIDGE_BYTES, event_message, put_event_entries
from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.delivery import RetryPolicy
from sqs_workers.envelopes.documents import OutgoingEvent
from sqs_workers.envelopes.readers import is_arn
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError
from sqs_workers.limits import MAX_EVENTBRIDGE_DETAIL_TYPE, MAX_EVENTBRIDGE_SOURCE
from sqs_workers.messages import OutgoingMessage

__all__ = ["EventBus", "put_events"]

_NAME = re.compile(r"[A-Za-z0-9._/-]{1,256}")


class EventBus:
    """A bus of EventBridge.

    The event's type becomes the detail type, its document the detail. EventBridge gives an event another id
    each time it is put; the document carries the stable one.

    :param bus: name or ARN of the bus.
    :param client: a boto3 client of ``events``; made when it is needed by default.
    :param session: a boto3 session that makes the client.
    :param retry: how often entries are tried again that EventBridge did not take.
    :raises ConfigurationError: ``bus`` is neither name nor ARN.
    """

    def __init__(
        self,
        bus: str = "default",
        *,
        client: Any = None,
        session: Any = None,
        retry: RetryPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if _NAME.fullmatch(str(bus)) is None and not is_arn(str(bus), "events"):
            raise ConfigurationError(f"a bus is named by its name or ARN, not {bus!r:.200}")
        self.bus = bus
        self._client = ServiceClient("events", client=client, session=session, region=region_of(bus))
        self._retry = retry or RetryPolicy()
        self._clock = clock

    def __repr__(self) -> str:
        return f"EventBus({self.bus!r})"

    def put(self, event: OutgoingEvent) -> str | None:
        """Put one event.

        :returns: the id that EventBridge gave it; ``None`` if an outbox took it.
        :raises InvalidMessageError: EventBridge would refuse it; nothing was sent.
        :raises EventsNotSentError: EventBridge did not take it after all retries.
        """
        return self.put_all([event])[0]

    def put_all(self, events: OutgoingEvent | Iterable[OutgoingEvent]) -> list[str | None]:
        """Put events in as few calls as possible: 10, or 262,144 bytes, a call.

        :returns: the ids that EventBridge gave them; ``None`` for those that an outbox took.
        :raises InvalidMessageError: EventBridge would refuse one; nothing was sent.
        :raises EventsNotSentError: with those that were not taken; the others were put.
        """
        sources = as_events(events)
        return send_all(
            lambda chunk: put_event_entries(self._client.get(), self.bus, chunk),
            self.target,
            [self._message(event) for event in sources],
            sources,
            fifo=False,
            max_bytes=EVENTBRIDGE_BYTES,
            clock=self._clock,
            retry=self._retry,
        )

    def prepare(self, event: OutgoingEvent) -> tuple[str, OutgoingMessage]:
        """For an outbox: ``outbox.delay(tx, bus, event)``."""
        return self.target, self._message(event)

    @property
    def target(self) -> str:
        """How an outbox names it."""
        return self.bus if is_arn(self.bus, "events") else f"event-bus:{self.bus}"

    def _message(self, event: OutgoingEvent) -> OutgoingMessage:
        check_event(event, f"bus {self.bus}")
        where = f"event {event.event_id} ({event.type})"
        if event.source.startswith("aws."):
            raise InvalidMessageError(f"{where} has a source that begins with 'aws.', which is AWS's own")
        if len(event.source) > MAX_EVENTBRIDGE_SOURCE or len(event.type) > MAX_EVENTBRIDGE_DETAIL_TYPE:
            raise InvalidMessageError(
                f"{where}: EventBridge takes a source of {MAX_EVENTBRIDGE_SOURCE} and a type of "
                f"{MAX_EVENTBRIDGE_DETAIL_TYPE} characters"
            )
        message = event_message(event)
        check_bytes(message, EVENTBRIDGE_BYTES, self.bus)
        return message


def put_events(
    events: OutgoingEvent | Iterable[OutgoingEvent], *, bus: str = "default", client: Any = None
) -> list[str | None]:
    """Put one event, or several, on a bus; see :class:`EventBus`, which keeps its client.

    :returns: the ids that EventBridge gave them.
    :raises EventsNotSentError: with those that were not taken.
    """
    return EventBus(bus, client=client).put_all(as_events(events))
