"""A queue by itself: visibility, retention, dead letters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from sqs_workers.cli.diagnosis.signs import Sign, permit, set_queue
from sqs_workers.cli.queues import duration
from sqs_workers.exceptions import QueueNotFoundError
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT, QUEUE_ATTRIBUTE_RANGES
from sqs_workers.redrive.finding import arn_name, queue_attributes, source_queues, url_of_arn
from sqs_workers.transport import classify, error_code

__all__ = ["check_queue"]

_SHORT_VISIBILITY = 10
_LONGEST_RETENTION = QUEUE_ATTRIBUTE_RANGES["MessageRetentionPeriod"][1]


def check_queue(
    client: Any, name: str, url: str, attributes: dict[str, str], job_seconds: float | None
) -> Iterator[Sign]:
    """Look at a queue.

    :param name: as it was asked for.
    :param job_seconds: how long its longest job runs; ``None`` if nobody says.
    """
    hidden = int(attributes.get("VisibilityTimeout", 30))
    messages = attributes.get("ApproximateNumberOfMessages")
    yield Sign("ok", name, f"{messages} visible, visibility timeout {hidden} s")
    if int(attributes.get("ReceiveMessageWaitTimeSeconds", 0)) == 0:
        yield Sign(
            "ok", name, "short polling by default; workers of this package ask for long polls themselves"
        )
    yield from _visibility(name, url, hidden, job_seconds)
    if attributes.get("RedrivePolicy"):
        yield from _dead_letter_queue(client, name, url, attributes)
        return
    try:
        sources = source_queues(client, url)
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield Sign(
            "warning",
            name,
            f"its sources cannot be listed: {error_code(error)}",
            "sources-unseen",
            "Whether it is a dead-letter queue, and keeps messages for long enough, cannot be judged.",
            permit("sqs:ListDeadLetterSourceQueues", resource=attributes.get("QueueArn", "*")),
        )
        return
    if sources:
        yield Sign("ok", name, f"dead-letter queue of {', '.join(source.name for source in sources)}")
        for source in sources:
            retention = int(attributes.get("MessageRetentionPeriod", 345_600))
            yield from _retention(source.name, source.retention, name, url, retention)
    elif "RedriveAllowPolicy" not in attributes:
        yield Sign(
            "warning",
            name,
            "has no redrive policy",
            "no-redrive-policy",
            "A message that always fails comes back until it expires; nobody is told then.",
            _give_redrive_policy(url, attributes.get("QueueArn", "")),
        )


def _visibility(name: str, url: str, hidden: int, job_seconds: float | None) -> Iterator[Sign]:
    if job_seconds is not None and job_seconds > MAX_VISIBILITY_TIMEOUT:
        yield Sign(
            "error",
            name,
            f"jobs run for up to {duration(job_seconds)}, and SQS hides a message for 12 hours at most",
            "job-too-long",
            "However it is extended, the message is handed out again while its job runs.",
            "split the job, or let it note its progress and send the rest as another job",
        )
    elif job_seconds is not None and hidden <= job_seconds:
        wanted = min(MAX_VISIBILITY_TIMEOUT, math.ceil(job_seconds * 1.5))
        yield Sign(
            "warning",
            name,
            f"jobs run for up to {job_seconds:g} s, and a message is hidden for {hidden} s",
            "visibility-too-short",
            "Workers of this package extend that while a job runs. With heartbeat=0, under Lambda, or with "
            "other consumers, a second worker gets the message while the first still works on it.",
            set_queue(url, {"VisibilityTimeout": str(wanted)}),
        )
    elif hidden < _SHORT_VISIBILITY:
        yield Sign(
            "warning",
            name,
            f"a visibility timeout of {hidden} s leaves little time for a slow network",
            "visibility-short",
            "A delete or an extension that takes longer comes too late, and the job runs again.",
            set_queue(url, {"VisibilityTimeout": "30"}),
        )


def _dead_letter_queue(client: Any, name: str, url: str, attributes: dict[str, str]) -> Iterator[Sign]:
    policy = json.loads(attributes["RedrivePolicy"])
    arn, receives = str(policy["deadLetterTargetArn"]), int(policy["maxReceiveCount"])
    dead_name = arn_name(arn)
    if receives == 1:
        yield Sign(
            "warning",
            name,
            "moves a message to its dead-letter queue after one receive",
            "one-receive",
            "A worker that is killed or stopped with the message in hand has used up that receive: the "
            "message is a dead letter without ever having failed.",
            set_queue(url, {"RedrivePolicy": {**policy, "maxReceiveCount": 5}}),
        )
    try:
        dead_url = url_of_arn(client, arn)
        dead = queue_attributes(client, dead_url)
    except QueueNotFoundError:
        yield Sign(
            "error",
            name,
            f"its dead-letter queue {arn} is not there, or not for these credentials",
            "dead-letter-queue-missing",
            "Without it, SQS moves nothing: a message that always fails comes back until it expires.",
            f"sqs-workers create {dead_name}",
        )
        return
    except Exception as error:  # noqa: BLE001 - told as a sign
        seen = f"{classify(error).value} ({error_code(error)})"
        yield Sign(
            "warning",
            dead_name,
            f"cannot be looked at: {seen}",
            "dead-letter-queue-unseen",
            "Whether it takes the queue's messages, and keeps them for long enough, cannot be judged.",
            permit("sqs:GetQueueUrl", "sqs:GetQueueAttributes", resource=arn),
        )
        return
    yield Sign("ok", name, f"dead letters go to {dead_name} after {receives} receives")
    yield from _allowed(attributes.get("QueueArn", ""), name, dead_name, dead_url, dead)
    if not url.endswith(".fifo"):
        yield from _retention(
            name,
            int(attributes.get("MessageRetentionPeriod", 345_600)),
            dead_name,
            dead_url,
            int(dead.get("MessageRetentionPeriod", 345_600)),
        )


def _give_redrive_policy(url: str, arn: str) -> str:
    """The commands that make a dead-letter queue of the same kind, and name it to the queue."""
    base, dot, suffix = arn.partition(".fifo")
    dead = f"{base}-dead{dot}{suffix}"
    policy = {"deadLetterTargetArn": dead, "maxReceiveCount": 5}
    return f"sqs-workers create {arn_name(dead)} && {set_queue(url, {'RedrivePolicy': policy})}"


def _allowed(arn: str, name: str, dead_name: str, dead_url: str, dead: dict[str, str]) -> Iterator[Sign]:
    try:
        allow = json.loads(dead.get("RedriveAllowPolicy") or "{}")
    except ValueError:
        allow = {}
    permission, sources = allow.get("redrivePermission", "allowAll"), allow.get("sourceQueueArns") or []
    if permission == "allowAll" or (permission == "byQueue" and arn in sources):
        return
    more = {"redrivePermission": "byQueue", "sourceQueueArns": [*sources, arn]}
    yield Sign(
        "error",
        dead_name,
        f"its redrive allow policy ({permission}) does not let {name} use it",
        "redrive-not-allowed",
        f"SQS moves no dead letters of {name}: they come back until they expire.",
        set_queue(dead_url, {"RedriveAllowPolicy": more}),
    )


def _retention(
    name: str, retention: int, dead_name: str, dead_url: str, dead_retention: int
) -> Iterator[Sign]:
    """A message of a standard queue keeps its age when it is moved.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
    """
    if dead_url.endswith(".fifo") or dead_retention > retention or dead_retention == _LONGEST_RETENTION:
        return
    yield Sign(
        "error" if dead_retention < retention else "warning",
        dead_name,
        f"keeps messages for {duration(dead_retention)}, and {name} for {duration(retention)}",
        "retention",
        "The age of a message counts from when it was first sent: one that fails late vanishes soon after it "
        "was moved, before anybody has seen it.",
        set_queue(dead_url, {"MessageRetentionPeriod": str(_LONGEST_RETENTION)}),
    )
