"""``send`` and ``peek``: single messages of a queue."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, json_option, printable, say, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES

__all__ = ["peek_command", "send_command"]


@click.command("send")
@click.argument("queue")
@click.argument("bodies", nargs=-1)
@click.option(
    "--file", "file", type=click.File(encoding="utf-8"), help="One body a line; `-` for standard input."
)
@click.option(
    "--attribute", "-a", multiple=True, metavar="NAME=TEXT", help="Message attribute; may be repeated."
)
@click.option("--job", help="Name of a job: the body holds its arguments as a JSON object.")
@click.option("--delay", type=click.IntRange(0, 900), help="Seconds until the message is visible.")
@click.option("--group", help="Message group (FIFO).")
@click.option("--dedup", help="Deduplication id (FIFO); made up if the queue has none of its own.")
@account_options
@json_option
def send_command(
    queue: str,
    bodies: tuple[str, ...],
    file: Any,
    attribute: tuple[str, ...],
    job: str | None,
    delay: int | None,
    group: str | None,
    dedup: str | None,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Send messages to QUEUE, by its name or URL.

    \b
    Examples:
      sqs-workers send events '{"id": "e-1", "status": "paid"}'
      sqs-workers send events --file events.jsonl
      sqs-workers send emails '{"to": "ada@example.com"}' --job send_email

    Exit codes: 0 all sent, 1 some were not (told on standard error), 2 a wrong option.
    """
    texts = [*bodies, *(line.rstrip("\n") for line in file or () if line.strip())]
    if not texts:
        raise click.UsageError("nothing to send: give bodies, or --file")
    if dedup is not None and len(texts) > 1:
        raise click.UsageError("--dedup is for one message: the others would be taken for the same")
    for text in texts:
        _check_body(text, job)
    common: dict[str, Any] = {"MessageAttributes": _attributes(attribute, job)}
    client = Account(region, endpoint_url, profile).client()
    url = url_of(client, queue)
    if delay is not None:
        common["DelaySeconds"] = delay
    if url.endswith(".fifo"):
        common["MessageGroupId"] = group or "cli"
    elif group is not None:
        common["MessageGroupId"] = group
    sent: list[str] = []
    failed: list[str] = []
    for start in range(0, len(texts), MAX_BATCH_ENTRIES):
        _send(client, url, texts[start : start + MAX_BATCH_ENTRIES], common, dedup, sent, failed)
    if as_json:
        show_json({"sent": sent, "failed": failed})
    else:
        say(f"Sent {len(sent)} message(s) to {queue}" + (f": {sent[0]}" if len(sent) == 1 else ""))
    for code in sorted(set(failed)):
        fail(f"{failed.count(code)} message(s) were not sent: {code}")
    return EXIT_FAILED if failed else 0


def _check_body(text: str, job: str | None) -> None:
    if len(text.encode()) > MAX_MESSAGE_BYTES:
        raise click.UsageError(f"a body has more than the {MAX_MESSAGE_BYTES:,} bytes that SQS takes")
    if job is not None:
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise click.UsageError("with --job, a body is a JSON object: the arguments by name")


def _attributes(pairs: tuple[str, ...], job: str | None) -> dict[str, Any]:
    texts: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"--attribute {pair!r}: write NAME=TEXT")
        texts[name] = value
    if job is not None:
        texts |= {"JobName": job, "ContentType": "json"}
    return {name: {"DataType": "String", "StringValue": value} for name, value in texts.items()}


def _send(
    client: Any,
    url: str,
    texts: list[str],
    common: dict[str, Any],
    dedup: str | None,
    sent: list[str],
    failed: list[str],
) -> None:
    if sum(len(text.encode()) for text in texts) > MAX_MESSAGE_BYTES - 20_000 and len(texts) > 1:
        middle = len(texts) // 2
        _send(client, url, texts[:middle], common, dedup, sent, failed)
        _send(client, url, texts[middle:], common, dedup, sent, failed)
        return
    entries = [{"Id": str(index), "MessageBody": text, **common} for index, text in enumerate(texts)]
    if url.endswith(".fifo"):
        for entry in entries:
            entry["MessageDeduplicationId"] = dedup or str(uuid.uuid4())
    answer = client.send_message_batch(QueueUrl=url, Entries=entries)
    sent.extend(entry["MessageId"] for entry in answer.get("Successful") or ())
    failed.extend(str(entry.get("Code")) for entry in answer.get("Failed") or ())


@click.command("peek")
@click.argument("queue")
@click.option(
    "--count", "-n", type=click.IntRange(1, 100), default=10, show_default=True, help="Messages at most."
)
@click.option(
    "--wait", type=click.IntRange(0, 20), default=1, show_default=True, help="Seconds to wait for one."
)
@account_options
@json_option
def peek_command(
    queue: str,
    count: int,
    wait: int,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Look at messages of QUEUE without taking them.

    SQS cannot show a message without handing it out: each look counts as a receive of the redrive policy,
    and the message is hidden from workers for a moment. It is released at once.

    \b
    Example:
      sqs-workers peek events-dead -n 3 --json

    Exit codes: 0 (also if the queue is empty), 1 SQS refused, 2 a wrong option.
    """
    client = Account(region, endpoint_url, profile).client()
    url = url_of(client, queue)
    if url.endswith(".fifo") and not as_json:
        click.echo("Looking at a FIFO queue blocks its message groups for a moment.", err=True)
    found = _look(client, url, count, wait)
    if as_json:
        show_json(found)
    elif not found:
        say(f"No message of {queue} is visible")
    else:
        for message in found:
            _show(message)
        click.echo(f"Each of these {len(found)} has used up one receive; all are released.", err=True)
    return 0


def _look(client: Any, url: str, count: int, wait: int) -> list[dict[str, Any]]:
    held: dict[str, dict[str, Any]] = {}
    try:
        while len(held) < count:
            answer = client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(10, count - len(held)),
                # Long enough to see each once; released below in any case.
                VisibilityTimeout=30,
                WaitTimeSeconds=0 if held else wait,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages") or ()
            if not messages:
                break
            held.update((message["MessageId"], message) for message in messages)
    finally:
        _release(client, url, [message["ReceiptHandle"] for message in held.values()])
    return [_plain(message) for message in held.values()]


def _release(client: Any, url: str, receipts: list[str]) -> None:
    for start in range(0, len(receipts), MAX_BATCH_ENTRIES):
        entries = [
            {"Id": str(index), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
            for index, receipt in enumerate(receipts[start : start + MAX_BATCH_ENTRIES])
        ]
        answer = client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
        if answer.get("Failed"):
            print(
                f"{len(answer['Failed'])} message(s) could not be released: they come back within 30 seconds",
                file=sys.stderr,
            )


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    attributes = message.get("MessageAttributes") or {}
    system = message.get("Attributes") or {}
    return {
        "message_id": message["MessageId"],
        "receive_count": int(system.get("ApproximateReceiveCount", 0)),
        "sent": int(system.get("SentTimestamp", 0)) / 1000,
        "group": system.get("MessageGroupId"),
        "attributes": {
            name: value.get("StringValue", f"<{len(value.get('BinaryValue', b''))} bytes>")
            for name, value in attributes.items()
        },
        "body": message.get("Body", ""),
    }


def _show(message: dict[str, Any]) -> None:
    import datetime

    sent = datetime.datetime.fromtimestamp(message["sent"], datetime.timezone.utc)
    say(
        f"{message['message_id']}  sent {sent:%Y-%m-%d %H:%M:%S}Z  receive {message['receive_count']}",
        style="bold",
    )
    for name, value in message["attributes"].items():
        say(f"  {name}: {printable(value)}")
    say(f"  {printable(message['body'])}")
