"""``dlq export`` and ``dlq import``: dead letters as lines of JSON."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.dlq_options import letters_of, where_option
from sqs_workers.cli.interrupting import EXIT_INTERRUPTED, stop_at_once, stop_between_calls
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, json_option, say, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of
from sqs_workers.redrive import parse_where

__all__ = ["export_command", "import_command"]


@click.command("export")
@click.argument("queue")
@click.option(
    "--file",
    "-o",
    "file",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    show_default=True,
    help="Where to; - for standard output. A new file is for its owner alone.",
)
@where_option
@click.option("--limit", type=click.IntRange(1), help="Messages at most.")
@account_options
def export_command(
    queue: str,
    file: str,
    where: tuple[str, ...],
    limit: int | None,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
) -> int:
    """Write the letters of QUEUE as lines of JSON, bodies included. They stay in the queue.

    Each counts as received once more; all are hidden until the export ends. Of a message group of a FIFO
    queue, SQS shows no more than ten until those are gone.

    \b
    Example:
      sqs-workers dlq export events-dead -o events-dead.jsonl
    """
    letters = letters_of(Account(region, endpoint_url, profile), queue)
    count = 0
    with stop_at_once(), _opened(file) as out:
        for line in letters.export(parse_where(where), limit):
            out.write(line + "\n")
            count += 1
    click.echo(f"Exported {count} letter(s)", err=True)
    return 0


def _opened(file: str) -> AbstractContextManager[TextIO]:
    if file == "-":
        return nullcontext(sys.stdout)
    # Bodies are data of others.
    return open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))


@click.command("import")
@click.argument("queue")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--to", metavar="QUEUE", help="Send them there instead, without the attributes that say why they died."
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Notes what was imported where: the next import to that queue passes it over; FILE.imported by default.",
)
@account_options
@json_option
def import_command(
    queue: str,
    file: Path,
    to: str | None,
    journal: Path | None,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Send the letters of an exported FILE to QUEUE again, each once however often it is called.

    \b
    Examples:
      sqs-workers dlq import events-dead events-dead.jsonl
      sqs-workers dlq import events-dead events-dead.jsonl --to events

    Exit codes: 0 all are there, 1 some were not taken.
    """
    letters = letters_of(Account(region, endpoint_url, profile), queue)
    target = None if to is None else url_of(letters.client, to)
    notes = journal or file.with_name(file.name + ".imported")
    with stop_between_calls() as told, file.open(encoding="utf-8") as lines:
        report = letters.import_lines(lines, to=target, journal=notes, stop=told.is_set)
    if as_json:
        failed = [{"message_id": message_id, "code": code} for message_id, code in report.failed]
        show_json({"sent": report.sent, "known": report.known, "failed": failed})
    else:
        say(f"Imported {report.sent} letter(s); {report.known} were imported before")
    for code, count in Counter(code for _, code in report.failed).items():
        fail(f"{count} letter(s) were not taken: {code}")
    if report.stopped:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if report.failed else 0
