"""``dlq edit`` and ``dlq discard``: what changes dead letters for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.dlq_options import audit_options, letters_of, open_audit, where_option
from sqs_workers.cli.interrupting import stop_at_once
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, json_option, printable, say, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of
from sqs_workers.redrive import Letter, Where, parse_where

__all__ = ["discard_command", "edit_command"]


@click.command("edit")
@click.argument("queue")
@click.argument("message_id")
@click.option("--body", help="The new body.")
@click.option(
    "--file", "file", type=click.File(encoding="utf-8"), help="File with the new body; - for standard input."
)
@click.option("--to", metavar="QUEUE", help="Send the repaired message there instead of keeping it here.")
@audit_options
@account_options
def edit_command(
    queue: str,
    message_id: str,
    body: str | None,
    file: Any,
    to: str | None,
    reason: str,
    audit: Path,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
) -> int:
    """Repair the body of a letter of QUEUE: in $EDITOR, unless --body or --file has the new one.

    A new message with the same attributes is sent, then the old one is deleted. The new one is the last of
    its message group on a FIFO queue.

    \b
    Examples:
      sqs-workers dlq edit events-dead 1f0c2a6e-7f1d-4a4e-9d2b-0c5f6a7b8c9d --reason JOB-17
      sqs-workers dlq edit events-dead 1f0c2a6e-7f1d-4a4e-9d2b-0c5f6a7b8c9d --reason JOB-17 --file fixed.json
    """
    if body is not None and file is not None:
        raise click.UsageError("--body and --file: choose one")
    given: str | None = body if file is None else file.read().removesuffix("\n")

    def change(letter: Letter) -> str | None:
        if given is not None:
            return given
        edited: str | None = click.edit(letter.message.body, extension=".json")
        # Editors end the last line.
        return edited if edited is None or letter.message.body.endswith("\n") else edited.removesuffix("\n")

    letters = letters_of(Account(region, endpoint_url, profile), queue)
    target = None if to is None else url_of(letters.client, to)
    with stop_at_once():
        new = letters.edit(message_id, change, reason=reason, audit=open_audit(audit), to=target)
    say("Nothing was changed" if new is None else f"{message_id} is replaced by {new}")
    return 0


@click.command("discard")
@click.argument("queue")
@where_option
@click.option("--all", "everything", is_flag=True, help="All letters, without a condition.")
@click.option("--limit", type=click.IntRange(1), help="Messages at most.")
@click.option("--audit-bodies", is_flag=True, help="Keep bodies in the audit log, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@audit_options
@account_options
@json_option
def discard_command(
    queue: str,
    where: tuple[str, ...],
    everything: bool,
    limit: int | None,
    audit_bodies: bool,
    yes: bool,
    reason: str,
    audit: Path,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Delete letters of QUEUE for good. Asks first, and keeps a line of each in the audit log.

    \b
    Example:
      sqs-workers dlq discard events-dead --where job=old_report --reason "the job is gone since 4.0"

    Exit codes: 0 done, 1 some could not be deleted.
    """
    wanted: Where = parse_where(where)
    if wanted.everything != everything:
        raise click.UsageError("say which letters with --where, or --all without it")

    def confirm(letters: list[Letter]) -> bool:
        jobs = sorted({printable(letter.job) or "-" for letter in letters})
        return yes or click.confirm(
            f"Delete {len(letters)} message(s) of {queue} for good ({', '.join(jobs[:5])})?", err=True
        )

    letters = letters_of(Account(region, endpoint_url, profile), queue)
    log = open_audit(audit, bodies=audit_bodies)
    with stop_at_once():
        done = letters.discard(wanted, reason=reason, audit=log, limit=limit, confirm=confirm)
    if as_json:
        show_json({"discarded": done.ids, "left": done.left})
    else:
        say(f"Discarded {len(done.ids)} letter(s); noted in {audit}")
    if done.left:
        fail(f"{len(done.left)} could not be deleted, and stay")
    return EXIT_FAILED if done.left else 0
