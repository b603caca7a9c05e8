"""``queues``, ``create`` and ``purge``: queues as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from sqs_workers.cli.metrics import QueueFlow, queue_flow
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import json_option, say, show_json, table
from sqs_workers.cli.sqs import Account, account_options, queue_name, url_of

__all__ = ["QueueState", "create_command", "purge_command", "queue_states", "queues_command"]

_ATTRIBUTES = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "QueueArn",
    "RedrivePolicy",
]


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at one moment.

    :ivar oldest_age: seconds since its oldest message was sent, by CloudWatch; ``None`` if nobody says.
    :ivar dead_letters: messages of its dead-letter queue; ``None`` without one.
    :ivar done_per_second: messages a second that were deleted in the last minutes, by CloudWatch: jobs that
        succeeded, and what was discarded.
    :ivar again: share (0 to 1) of receives in that time after which no delete followed: jobs that failed, and
        looks of people.
    """

    name: str
    url: str
    visible: int
    in_flight: int
    delayed: int
    oldest_age: float | None = None
    dead_letter_queue: str | None = None
    dead_letters: int | None = None
    done_per_second: float | None = None
    again: float | None = None


def queue_states(
    client: Any, urls: Iterable[str], *, flow: Callable[[str], QueueFlow] | None = None
) -> list[QueueState]:
    """Ask SQS about several queues at once.

    :param flow: called with the name of a queue for what SQS itself does not say.
    """
    with ThreadPoolExecutor(8) as pool:
        found = dict(pool.map(lambda url: (url, _attributes(client, url)), urls))
        flows = dict(pool.map(lambda url: (url, flow(queue_name(url)) if flow else QueueFlow()), found))
    by_arn = {attributes.get("QueueArn"): attributes for attributes in found.values()}
    return [_state(client, url, attributes, by_arn, flows[url]) for url, attributes in found.items()]


def _attributes(client: Any, url: str) -> dict[str, str]:
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=_ATTRIBUTES)
    found: dict[str, str] = answer.get("Attributes") or {}
    return found


def _state(
    client: Any,
    url: str,
    attributes: dict[str, str],
    by_arn: dict[Any, dict[str, str]],
    flow: QueueFlow,
) -> QueueState:
    arn = json.loads(attributes.get("RedrivePolicy") or "{}").get("deadLetterTargetArn")
    dead: int | None = None
    if arn is not None:
        letters = by_arn.get(arn)
        if letters is None:
            try:
                letters = _attributes(client, url_of(client, str(arn).rpartition(":")[2]))
            except Exception:  # noqa: BLE001 - of another account, or gone: not known
                letters = None
        dead = None if letters is None else _sum(letters)
    return QueueState(
        queue_name(url),
        url,
        int(attributes.get("ApproximateNumberOfMessages", 0)),
        int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
        int(attributes.get("ApproximateNumberOfMessagesDelayed", 0)),
        flow.oldest_age,
        None if arn is None else str(arn).rpartition(":")[2],
        dead,
        flow.done_per_second,
        flow.again,
    )


def _sum(attributes: dict[str, str]) -> int:
    return sum(int(attributes.get(name, 0)) for name in _ATTRIBUTES[:3])


@click.command("queues")
@click.argument("prefix", default="")
@account_options
@json_option
def queues_command(
    prefix: str, region: str | None, endpoint_url: str | None, profile: str | None, as_json: bool
) -> int:
    """List queues (whose names begin with PREFIX): depth, in flight, delayed, oldest, dead letters.

    The age of the oldest message comes from CloudWatch, which is asked where the endpoint is AWS's own.

    \b
    Example:
      sqs-workers queues prod- --json
    """
    account = Account(region, endpoint_url, profile)
    client = account.client()
    urls = [
        url
        for page in client.get_paginator("list_queues").paginate(QueueNamePrefix=prefix)
        for url in page.get("QueueUrls") or ()
    ]
    states = queue_states(client, urls, flow=None if endpoint_url else queue_flow(account))
    if as_json:
        show_json([asdict(state) for state in states])
        return 0
    columns = ["queue", "visible", "in flight", "delayed", "oldest", "dead letters"]
    rows = [
        [
            state.name,
            str(state.visible),
            str(state.in_flight),
            str(state.delayed),
            duration(state.oldest_age),
            "" if state.dead_letters is None else f"{state.dead_letters} in {state.dead_letter_queue}",
        ]
        for state in states
    ]
    table(f"{len(states)} queue(s)", columns, rows, right=("visible", "in flight", "delayed", "oldest"))
    return 0


def duration(seconds: float | None) -> str:
    """Seconds for people."""
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


@click.command("create")
@click.argument("queue")
@click.option("--visibility-timeout", type=click.IntRange(0, 43_200), help="Seconds (SQS: 30).")
@click.option(
    "--retention", type=click.IntRange(60, 1_209_600), help="Seconds that messages are kept (SQS: 4 days)."
)
@click.option("--dead-letter", metavar="NAME", help="Dead-letter queue; created too if it is missing.")
@click.option(
    "--max-receives", type=click.IntRange(1, 1000), default=5, show_default=True, help="Receives before that."
)
@account_options
@json_option
def create_command(
    queue: str,
    visibility_timeout: int | None,
    retention: int | None,
    dead_letter: str | None,
    max_receives: int,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Create QUEUE; a name that ends with .fifo makes a FIFO queue. Nothing happens if it is there already.

    \b
    Example:
      sqs-workers create events --dead-letter events-dead --max-receives 5
    """
    client = Account(region, endpoint_url, profile).client()
    fifo = {"FifoQueue": "true"} if queue.endswith(".fifo") else {}
    attributes = dict(fifo)
    if dead_letter is not None:
        if dead_letter.endswith(".fifo") != bool(fifo):
            raise click.UsageError(
                "a FIFO queue needs a FIFO dead-letter queue, and a standard one a standard one"
            )
        dead_url = client.create_queue(
            QueueName=dead_letter, Attributes={**fifo, "MessageRetentionPeriod": "1209600"}
        )["QueueUrl"]
        arn = client.get_queue_attributes(QueueUrl=dead_url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        attributes["RedrivePolicy"] = json.dumps(
            {"deadLetterTargetArn": arn, "maxReceiveCount": str(max_receives)}
        )
    if visibility_timeout is not None:
        attributes["VisibilityTimeout"] = str(visibility_timeout)
    if retention is not None:
        attributes["MessageRetentionPeriod"] = str(retention)
    url = client.create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]
    if as_json:
        show_json({"url": url})
    else:
        say(url)
    return 0


@click.command("purge")
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@account_options
def purge_command(
    queue: str, yes: bool, region: str | None, endpoint_url: str | None, profile: str | None
) -> int:
    """Delete all messages of QUEUE, for good. Asks first.

    \b
    Example:
      sqs-workers purge events-dead
    """
    client = Account(region, endpoint_url, profile).client()
    url = url_of(client, queue)
    count = _sum(_attributes(client, url))
    if not yes:
        click.confirm(f"Delete about {count} message(s) of {queue}, for good?", abort=True, err=True)
    client.purge_queue(QueueUrl=url)
    say(f"{queue} is being purged; it takes up to a minute, and in flight messages are deleted too")
    return 0
