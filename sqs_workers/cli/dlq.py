"""``dlq``: dead-letter queues, found and looked at; the other commands of the group."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from sqs_workers.cli.dlq_options import letters_of, where_option
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import json_option, printable, say, show_json, table
from sqs_workers.cli.queues import duration
from sqs_workers.cli.sqs import Account, account_options, queue_name
from sqs_workers.redrive import (
    DeadLetterQueueState,
    Letter,
    Sample,
    find_dead_letter_queues,
    masked,
    parse_where,
)

__all__ = ["dlq_command"]

_ELSEWHERE = {
    "redrive": "dlq_redrive",
    "move": "dlq_move",
    "export": "dlq_files",
    "import": "dlq_files",
    "edit": "dlq_change",
    "discard": "dlq_change",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["list", "show", *_ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"sqs_workers.cli.{_ELSEWHERE[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command


@click.group("dlq", cls=_Group)
def dlq_command() -> None:
    """Dead letters: find them, look at them, send them back, repair, keep or discard them.

    \b
    Example, from the alarm to the end:
      sqs-workers dlq list
      sqs-workers dlq show events-dead
      sqs-workers dlq redrive events-dead --dry-run
      sqs-workers dlq redrive events-dead --first 5 --rate 10/s
    """


@dlq_command.command("list")
@click.argument("prefix", default="")
@account_options
@json_option
def list_command(
    prefix: str, region: str | None, endpoint_url: str | None, profile: str | None, as_json: bool
) -> int:
    """List dead-letter queues and the queues that they belong to.

    Dead-letter queues are those that a redrive policy names, of all queues or of those whose names begin with
    PREFIX. A queue that only a failure policy of a worker copies to is none for SQS, and not in the list.

    \b
    Example:
      sqs-workers dlq list prod- --json
    """
    client = Account(region, endpoint_url, profile).client()
    found = find_dead_letter_queues(client, prefix)
    if as_json:
        show_json([_state(state) for state in found])
        return 0
    rows = [
        [
            state.name,
            str(state.messages),
            str(state.in_flight),
            duration(state.retention),
            ", ".join(f"{source.name} (after {source.max_receives})" for source in state.sources),
        ]
        for state in found
    ]
    columns = ["dead-letter queue", "messages", "in flight", "kept for", "of"]
    table(f"{len(found)} dead-letter queue(s)", columns, rows, right=("messages", "in flight", "kept for"))
    return 0


def _state(state: DeadLetterQueueState) -> dict[str, Any]:
    return {
        "name": state.name,
        "url": state.url,
        "messages": state.messages,
        "in_flight": state.in_flight,
        "retention": state.retention,
        "sources": [
            {"name": source.name, "url": source.url, "max_receives": source.max_receives}
            for source in state.sources
        ],
    }


@dlq_command.command("show")
@click.argument("queue")
@click.option("--count", "-n", type=click.IntRange(1, 1000), default=50, show_default=True, help="Messages.")
@where_option
@click.option("--bodies", is_flag=True, help="Show bodies and attributes, not only their shape.")
@account_options
@json_option
def show_command(
    queue: str,
    count: int,
    where: tuple[str, ...],
    bodies: bool,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Look at a sample of dead letters: by job and error, then one by one.

    SQS shows a message only by handing it out: each look counts as a receive, and hides the sample from
    others for a moment. It is released at once. Bodies are masked.

    \b
    Examples:
      sqs-workers dlq show events-dead
      sqs-workers dlq show events-dead --where error=KeyError -n 3 --bodies
    """
    letters = letters_of(Account(region, endpoint_url, profile), queue)
    if not as_json:
        _say_what_it_costs(letters.url, count)
    sample = letters.sample(count, parse_where(where))
    if as_json:
        show_json(
            {
                "queue": queue_name(letters.url),
                "groups": [
                    {"job": job, "reason": reason, "error": error, "count": number}
                    for (job, reason, error), number in sample.groups.most_common()
                ],
                "letters": [_letter(letter, bodies) for letter in sample.letters],
            }
        )
    else:
        _show(sample, bodies)
    return 0


def _say_what_it_costs(url: str, count: int) -> None:
    group = " Their message groups are blocked meanwhile." if url.endswith(".fifo") else ""
    click.echo(
        f"Looking at up to {count} messages uses up one receive of each, and hides them for a moment.{group}",
        err=True,
    )


def _letter(letter: Letter, bodies: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "message_id": letter.id,
        "original_id": letter.original_id,
        "job": letter.job,
        "reason": letter.reason,
        "error": letter.error,
        "receives": letter.receives,
        "receives_before": letter.receives_before,
        "group": letter.group,
        "source": letter.source_arn,
        "sent_at": letter.sent_at,
        "body": letter.message.body if bodies else masked(letter.message.body),
    }
    if bodies:
        found["attributes"] = {
            name: value.get("StringValue", f"<{len(value.get('BinaryValue', b''))} bytes>")
            for name, value in letter.message.message_attributes.items()
        }
    return found


def _show(sample: Sample, bodies: bool) -> None:
    if not sample.letters:
        say("No message is visible that matches")
        return
    rows = [
        [printable(job) or "-", reason, printable(error) or "-", str(number)]
        for (job, reason, error), number in sample.groups.most_common()
    ]
    table(
        f"{len(sample.letters)} message(s)", ["job", "reason", "error", "messages"], rows, right=("messages",)
    )
    _show_letters(sample.letters, bodies)


def _show_letters(letters: Sequence[Letter], bodies: bool) -> None:
    import datetime

    for letter in letters:
        sent = datetime.datetime.fromtimestamp(letter.sent_at, datetime.timezone.utc)
        before = "" if letter.receives_before is None else f" (and {letter.receives_before} before)"
        say(
            f"{letter.id}  {printable(letter.job) or '-'}  sent {sent:%Y-%m-%d %H:%M:%S}Z  "
            f"receives {letter.receives}{before}",
            style="bold",
        )
        shown = _letter(letter, bodies)
        for name, value in shown.get("attributes", {}).items():
            say(f"  {name}: {printable(value)}")
        say(f"  {printable(shown['body'])}")
