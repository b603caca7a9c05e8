"""What the commands about dead letters share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sqs_workers.cli.needs import click
from sqs_workers.cli.sqs import Account, url_of
from sqs_workers.redrive import AuditLog, DeadLetters

__all__ = ["audit_options", "letters_of", "open_audit", "rate_option", "to_option", "where_option"]

_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SECONDS = {"s": 1, "m": 60, "h": 3600}

where_option = click.option(
    "--where",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Only letters that match; may be repeated. NAME is job, error, reason, group, id, source or "
    "attribute.NAME; the pattern may hold * and ?.",
)

to_option = click.option(
    "--to", metavar="QUEUE", help="Where they go to, instead of the queue that they failed in."
)


def _rate(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    match = _RATE.fullmatch(value)
    if match is None or float(match[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no rate: write 10/s, 90/m or 600/h", ctx, param)
    return float(match[1]) / _SECONDS[match[2] or "s"]


rate_option = click.option(
    "--rate", metavar="N/s", callback=_rate, help="Messages a second (10/s), a minute (90/m) or an hour."
)


def audit_options(function: Any) -> Any:
    """``--reason`` and ``--audit``; the command gets them as ``reason`` and ``audit``."""
    for option in (
        click.option(
            "--audit",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="SQS_WORKERS_AUDIT",
            default=Path("dead-letters-audit.jsonl"),
            show_default=True,
            help="File to which a line is appended for each letter.",
        ),
        click.option("--reason", required=True, help="Why, for the audit log."),
    ):
        function = option(function)
    return function


def open_audit(path: Path, *, bodies: bool = False) -> AuditLog:
    """The audit log, after a look whether it can be written to."""
    try:
        path.open("ab").close()
    except OSError as error:
        raise click.UsageError(f"the audit log {path} cannot be written: {error.strerror}") from None
    return AuditLog(path, bodies)


def letters_of(account: Account, queue: str, **options: Any) -> DeadLetters:
    """The letters of a queue that is named, or given by its URL.

    :param options: as for :class:`DeadLetters`.
    :raises QueueNotFoundError: there is no such queue, or these credentials may not see it.
    """
    client = account.client()
    return DeadLetters(client, url_of(client, queue), **options)
