"""Looking at jobs that wait in a queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqs_workers.codecs import get_codec
from sqs_workers.testing.memory import memory_account

if TYPE_CHECKING:
    from sqs_workers.memory_sqs.peeking import PeekedMessage
    from sqs_workers.queues.generic import GenericQueue

__all__ = ["SentJob", "sent_jobs"]


@dataclass(frozen=True)
class SentJob:
    """A job that waits in a queue.

    :ivar name: name of the job; empty for a raw message.
    :ivar kwargs: its arguments, decoded; empty for a raw message.
    :ivar context: the sender's context.
    :ivar content_type: name of the codec.
    :ivar delay: seconds until it becomes visible.
    :ivar body: text of the message.
    """

    name: str
    kwargs: dict[str, Any]
    context: dict[str, Any]
    content_type: str | None
    delay: float
    group_id: str | None
    deduplication_id: str | None
    message_id: str
    receive_count: int
    body: str = field(repr=False)


def sent_jobs(queue: GenericQueue, job_name: str | None = None) -> list[SentJob]:
    """The jobs that wait in a queue, in the order of sending; they stay there. Those in flight are left out.

    :param job_name: only jobs of this name.
    :raises ConfigurationError: the environment is not on a ``MemorySession``.
    """
    from sqs_workers.memory_sqs.peeking import peek

    account = memory_account(queue.env, "sent_jobs()")
    jobs = [_job(message) for message in peek(account, queue.url) if message.state != "in flight"]
    return [job for job in jobs if job_name is None or job.name == job_name]


def _job(message: PeekedMessage) -> SentJob:
    def attribute(name: str) -> Any:
        return message.message_attributes.get(name, {}).get("StringValue")

    content_type = attribute("ContentType")
    codec = None if content_type is None else get_codec(content_type)
    context = attribute("JobContext")
    return SentJob(
        name=attribute("JobName") or "",
        kwargs={} if codec is None else codec.deserialize(message.body),
        context={} if codec is None or not context else codec.deserialize(context),
        content_type=content_type,
        delay=message.due_in,
        group_id=message.group_id,
        deduplication_id=message.deduplication_id,
        message_id=message.message_id,
        receive_count=message.receive_count,
        body=message.body,
    )
