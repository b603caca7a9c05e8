"""Which queues are dead-letter queues, and of whom: by the attributes of queues, never by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqs_workers.exceptions import QueueNotFoundError
from sqs_workers.transport import ErrorKind, classify

__all__ = [
    "DeadLetterQueueState",
    "SourceQueue",
    "arn_name",
    "depth",
    "find_dead_letter_queues",
    "queue_attributes",
    "source_queues",
    "url_of_arn",
]

COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

_NOT_OFFERED = (ErrorKind.DENIED, ErrorKind.INVALID, ErrorKind.SERVER)


@dataclass(frozen=True, slots=True)
class SourceQueue:
    """A queue whose redrive policy names a dead-letter queue.

    :ivar max_receives: receives after which SQS moves a message.
    :ivar retention: seconds that the queue keeps messages.
    :ivar visibility: its visibility timeout in seconds.
    """

    name: str
    url: str
    arn: str
    max_receives: int
    retention: int
    visibility: int


@dataclass(frozen=True, slots=True)
class DeadLetterQueueState:
    """A dead-letter queue at one moment.

    :ivar messages: messages that it holds, those in flight included, approximately.
    :ivar in_flight: messages that somebody has received.
    :ivar retention: seconds that it keeps messages.
    :ivar sources: the queues that SQS moves messages from.
    """

    name: str
    url: str
    arn: str
    messages: int
    in_flight: int
    retention: int
    sources: tuple[SourceQueue, ...]


def arn_name(arn: str) -> str:
    """Name of the queue or topic of an ARN."""
    return arn.rpartition(":")[2]


def url_of_arn(client: Any, arn: str) -> str:
    """URL of the queue of an ARN.

    :raises QueueNotFoundError: there is no such queue, or these credentials may not see it.
    """
    parts = arn.split(":")
    request = {"QueueName": arn_name(arn)}
    if len(parts) > 4 and parts[4]:
        request["QueueOwnerAWSAccountId"] = parts[4]
    try:
        url: str = client.get_queue_url(**request)["QueueUrl"]
    except Exception as error:
        if classify(error) in (ErrorKind.MISSING, ErrorKind.DENIED):
            raise QueueNotFoundError(
                f"there is no queue {arn}, or these credentials may not see it", queue_name=arn
            ) from None
        raise
    return url


def queue_attributes(client: Any, url: str) -> dict[str, str]:
    """All attributes of a queue."""
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    found: dict[str, str] = answer.get("Attributes") or {}
    return found


def depth(attributes: dict[str, str]) -> int:
    """Messages of a queue: visible, in flight and delayed."""
    return sum(int(attributes.get(name, 0)) for name in COUNTS)


def find_dead_letter_queues(client: Any, prefix: str = "") -> list[DeadLetterQueueState]:
    """The dead-letter queues of the queues whose names begin with ``prefix``, and those that have the prefix.

    Asks for the attributes of every queue with the prefix: one request each, and as many again for the
    sources.
    """
    urls = list(_list(client, prefix))
    with ThreadPoolExecutor(8) as pool:
        attributes = dict(zip(urls, pool.map(lambda url: queue_attributes(client, url), urls), strict=True))
        by_arn = {found.get("QueueArn", ""): url for url, found in attributes.items()}
        targets = {target for found in attributes.values() if (target := _target(found)) is not None}
        for arn in targets - by_arn.keys():
            try:
                url = url_of_arn(client, arn)
            except QueueNotFoundError:
                continue
            attributes[url] = queue_attributes(client, url)
        known = dict(attributes)
        sources = dict(
            zip(known, pool.map(lambda url: source_queues(client, url, known), known), strict=True)
        )
    return [
        _state(url, attributes[url], sources[url])
        for url in attributes
        if sources[url] or attributes[url].get("QueueArn") in targets
    ]


def source_queues(
    client: Any, url: str, known: dict[str, dict[str, str]] | None = None
) -> tuple[SourceQueue, ...]:
    """The queues whose redrive policy names the queue at ``url``.

    Where SQS does not say, because the call is not permitted or the endpoint does not have it, the redrive
    policies of queues are looked through.

    :param known: attributes of queues by URL, to look through; by default those of all queues are asked for.
    """
    found = {} if known is None else dict(known)
    if url not in found:
        found[url] = queue_attributes(client, url)
    try:
        pages = client.get_paginator("list_dead_letter_source_queues").paginate(QueueUrl=url)
        told = [source for page in pages for source in page.get("queueUrls") or ()]
    except Exception as error:
        if classify(error) not in _NOT_OFFERED:
            raise
        told = []
        if known is None:
            found |= _all_attributes(client)
    arn = found[url].get("QueueArn")
    urls = {other for other, attributes in found.items() if _target(attributes) == arn} | set(told)
    return tuple(
        _source(source, found.get(source) or queue_attributes(client, source)) for source in sorted(urls)
    )


def _all_attributes(client: Any) -> dict[str, dict[str, str]]:
    try:
        urls = list(_list(client, ""))
    except Exception as error:
        if classify(error) not in _NOT_OFFERED:
            raise
        return {}
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(urls, pool.map(lambda url: queue_attributes(client, url), urls), strict=True))


def _list(client: Any, prefix: str) -> Iterator[str]:
    for page in client.get_paginator("list_queues").paginate(QueueNamePrefix=prefix):
        yield from page.get("QueueUrls") or ()


def _policy(attributes: dict[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(attributes.get("RedrivePolicy") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _target(attributes: dict[str, str]) -> str | None:
    return _policy(attributes).get("deadLetterTargetArn")


def _source(url: str, attributes: dict[str, str]) -> SourceQueue:
    arn = attributes.get("QueueArn", "")
    return SourceQueue(
        arn_name(arn) or url.rpartition("/")[2],
        url,
        arn,
        int(_policy(attributes).get("maxReceiveCount", 0)),
        int(attributes.get("MessageRetentionPeriod", 345_600)),
        int(attributes.get("VisibilityTimeout", 30)),
    )


def _state(url: str, attributes: dict[str, str], sources: tuple[SourceQueue, ...]) -> DeadLetterQueueState:
    arn = attributes.get("QueueArn", "")
    return DeadLetterQueueState(
        arn_name(arn),
        url,
        arn,
        depth(attributes),
        int(attributes.get(COUNTS[1], 0)),
        int(attributes.get("MessageRetentionPeriod", 345_600)),
        sources,
    )
