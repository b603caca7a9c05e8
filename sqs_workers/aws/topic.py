"""Publishing to a topic of SNS: events, and jobs that go to several queues at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Generic, Protocol

from typing_extensions import ParamSpec

from sqs_workers.aws.sending_events import as_events, check_bytes, check_event, send_all
from sqs_workers.aws.service_clients import ServiceClient, region_of
from sqs_workers.aws.wire import SNS_BYTES, event_message, publish_batch
from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.delays import NOT_BEFORE
from sqs_workers.delivery import RetryPolicy
from sqs_workers.envelopes.documents import OutgoingEvent
from sqs_workers.envelopes.readers import is_arn
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.outgoing import DEFAULT_MESSAGE_GROUP_ID, check_attributes, check_id

__all__ = ["STABLE_ID_ATTRIBUTE", "Topic", "TopicTask", "publish"]

STABLE_ID_ATTRIBUTE = "OutboxId"
"""Carries the stable id of a job: an inbox takes it as the event id, whichever queue the job comes from."""

OUTBOX_ID_BYTES = 64
MAX_STORED_NAME = 255
"""Characters of a target that the table of the outbox holds."""


P = ParamSpec("P")


class PreparesJobs(Protocol[P]):
    """What a topic asks of a task."""

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> tuple[str, OutgoingMessage]:
        """Name of its queue, and the message that ``delay`` would send."""
        ...


class Topic:
    """A topic of SNS.

    ::

        orders = Topic("arn:aws:sns:eu-west-1:123456789012:orders")
        orders.publish(OutgoingEvent("order.paid", {"orderId": 7}, source="shop"))

    :param arn: of the topic.
    :param client: a boto3 client of SNS; made when it is needed, in the region of the topic, by default.
    :param session: a boto3 session that makes the client.
    :param retry: how often entries are tried again that SNS did not take.
    :raises ConfigurationError: ``arn`` is none of a topic.
    """

    def __init__(
        self,
        arn: str,
        *,
        client: Any = None,
        session: Any = None,
        retry: RetryPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not is_arn(str(arn), "sns") or str(arn).count(":") != 5:
            raise ConfigurationError(f"a topic is named by its ARN (arn:aws:sns:...), not {arn!r:.200}")
        self.arn = arn
        self._client = ServiceClient("sns", client=client, session=session, region=region_of(arn))
        self._retry = retry or RetryPolicy()
        self._clock = clock

    def __repr__(self) -> str:
        return f"Topic({self.arn!r})"

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO topic."""
        return self.arn.endswith(".fifo")

    def publish(
        self, event: OutgoingEvent, *, group_id: str | None = None, deduplication_id: str | None = None
    ) -> str | None:
        """Publish one event.

        :param group_id: FIFO topics: by default the event's subject, else ``default``.
        :param deduplication_id: FIFO topics: by default the event's id.
        :returns: the id that SNS gave it; ``None`` if an outbox took it.
        :raises InvalidMessageError: SNS would refuse it; nothing was sent.
        :raises EventsNotSentError: SNS did not take it after all retries.
        """
        message = self._message(event, group_id, deduplication_id)
        return self._send([message], [event])[0]

    def publish_all(self, events: OutgoingEvent | Iterable[OutgoingEvent]) -> list[str | None]:
        """Publish events in as few calls as possible: 10, or 262,144 bytes, a call.

        :returns: the ids that SNS gave them; ``None`` for those that an outbox took.
        :raises InvalidMessageError: SNS would refuse one; nothing was sent.
        :raises EventsNotSentError: with those that SNS did not take; the others were published.
        """
        sources = as_events(events)
        return self._send([self._message(event, None, None) for event in sources], sources)

    def prepare(
        self, event: OutgoingEvent, *, group_id: str | None = None, deduplication_id: str | None = None
    ) -> tuple[str, OutgoingMessage]:
        """For an outbox: ``outbox.delay(tx, topic, event)``."""
        return self._storable(self._message(event, group_id, deduplication_id))

    def task(self, task: PreparesJobs[P]) -> TopicTask[P]:
        """A job that goes to all queues of the topic: ``topic.task(send_email).delay(to=...)``.

        :raises ConfigurationError: it is no job.
        """
        if not hasattr(task, "prepare"):
            raise ConfigurationError(
                f"topic.task() takes a job, made by @queue.processor(...), not {task!r:.80}"
            )
        return TopicTask(self, task)

    def _message(
        self, event: OutgoingEvent, group_id: str | None, deduplication_id: str | None
    ) -> OutgoingMessage:
        check_event(event, self.arn)
        where = f"event {event.event_id} ({event.type})"
        if self.is_fifo:
            group = group_id or event.subject or DEFAULT_MESSAGE_GROUP_ID
            group_id = check_id("message group id", group, where)
            deduplication_id = check_id("deduplication id", deduplication_id or event.event_id, where)
        elif deduplication_id is not None:
            raise InvalidMessageError(
                f"{where} has a deduplication id, which only a FIFO topic takes (its name ends with '.fifo')"
            )
        message = event_message(event, group_id=group_id, deduplication_id=deduplication_id)
        check_bytes(message, SNS_BYTES, self.arn)
        return message

    def _storable(self, message: OutgoingMessage) -> tuple[str, OutgoingMessage]:
        if len(self.arn) > MAX_STORED_NAME:
            raise ConfigurationError(
                f"an outbox stores targets of {MAX_STORED_NAME} characters at most; {self.arn!r} is longer"
            )
        # The outbox adds its id.
        check_bytes(message, SNS_BYTES - OUTBOX_ID_BYTES, self.arn)
        return self.arn, message

    def _send(self, messages: list[OutgoingMessage], sources: list[Any]) -> list[str | None]:
        return send_all(
            lambda chunk: publish_batch(self._client.get(), self.arn, chunk),
            self.arn,
            messages,
            sources,
            fifo=self.is_fifo,
            max_bytes=SNS_BYTES,
            clock=self._clock,
            retry=self._retry,
        )


class TopicTask(Generic[P]):
    """A task that is published instead of sent to its own queue.

    Each queue that subscribes to the topic gets the job, with raw delivery as it is and without in SNS's
    envelope, which a queue with ``envelope="auto"`` or ``"sns"`` takes off.
    """

    def __init__(self, topic: Topic, task: PreparesJobs[P]) -> None:
        self._topic = topic
        self._task = task

    def __repr__(self) -> str:
        return f"<{self._task!r} through {self._topic!r}>"

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Publish the job that ``task.delay`` would send.

        :returns: the id that SNS gave it; ``None`` if an outbox took it.
        :raises InvalidMessageError: a delay, which a topic does not have, or what SNS would refuse.
        :raises EventsNotSentError: SNS did not take it after all retries.
        """
        message = self._message(*args, **kwargs)
        return self._topic._send([message], [message])[0]

    def prepare(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[str, OutgoingMessage]:
        """For an outbox: ``outbox.delay(tx, topic.task(send_email), to=...)``."""
        return self._topic._storable(self._message(*args, **kwargs))

    def _message(self, /, *args: P.args, **kwargs: P.kwargs) -> OutgoingMessage:
        _, message = self._task.prepare(*args, **kwargs)
        where = f"job {message.job_name!r} for {self._topic.arn}"
        if message.delay_seconds or NOT_BEFORE in message.attributes:
            raise InvalidMessageError(
                f"{where} has a delay, which a topic does not have: set it on the queues"
            )
        stable_id = str(uuid.uuid4())
        attributes = {**message.attributes, STABLE_ID_ATTRIBUTE: string_attribute(stable_id)}
        check_attributes(attributes, where)
        fifo = self._topic.is_fifo
        message = replace(
            message,
            attributes=attributes,
            delay_seconds=None,
            group_id=(message.group_id or DEFAULT_MESSAGE_GROUP_ID) if fifo else message.group_id,
            deduplication_id=(message.deduplication_id or stable_id) if fifo else None,
        )
        check_bytes(message, SNS_BYTES, self._topic.arn)
        return message


def publish(
    topic_arn: str, event: OutgoingEvent | Iterable[OutgoingEvent], *, client: Any = None
) -> list[str | None]:
    """Publish one event, or several, to a topic; see :class:`Topic`, which keeps its client.

    :returns: the ids that SNS gave them.
    :raises EventsNotSentError: with those that SNS did not take.
    """
    return Topic(topic_arn, client=client).publish_all(as_events(event))
