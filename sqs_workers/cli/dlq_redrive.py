"""``dlq redrive``: sending dead letters back under control."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.dlq_options import letters_of, rate_option, to_option, where_option
from sqs_workers.cli.interrupting import EXIT_INTERRUPTED, stop_between_calls
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, json_option, printable, say, show_json
from sqs_workers.cli.sqs import Account, account_options, queue_name, url_of
from sqs_workers.redrive import DeadLetters, Plan, RedriveReport, parse_where

__all__ = ["redrive_command"]


@click.command("redrive")
@click.argument("queue")
@click.option(
    "--first",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Send so many, wait, and go on with ten times as many only if none returns; 0 sends all at once.",
)
@click.option(
    "--wait", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds of that wait."
)
@rate_option
@where_option
@click.option("--limit", type=click.IntRange(1), help="Messages at most.")
@to_option
@click.option(
    "--hold",
    type=click.IntRange(2, 43_200),
    default=120,
    show_default=True,
    help="Seconds for which letters in hand are hidden, extended meanwhile; after a kill they come back then.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go where.")
@account_options
@json_option
def redrive_command(
    queue: str,
    first: int,
    wait: float,
    rate: float | None,
    where: tuple[str, ...],
    limit: int | None,
    to: str | None,
    hold: int,
    dry_run: bool,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Send the letters of QUEUE back to the queues that they failed in, a few first.

    A letter is deleted here when its queue has taken the copy. It stops when letters come back: the cause is
    still there then. FIFO queues keep groups and their order. Ctrl-C ends it in order; after a kill, up to
    ten letters are in both queues.

    \b
    Examples:
      sqs-workers dlq redrive events-dead --dry-run
      sqs-workers dlq redrive events-dead --first 5 --rate 10/s --where job=send_email
      sqs-workers dlq redrive events-dead --limit 1 --where id=1f0c2a6e-7f1d-4a4e-9d2b-0c5f6a7b8c9d

    Exit codes: 0 all that were meant went back, 1 it stopped, or some were not taken.
    """
    account = Account(region, endpoint_url, profile)
    letters = letters_of(account, queue, visibility=hold)
    plan = Plan(
        where=parse_where(where),
        to=None if to is None else url_of(letters.client, to),
        first=first,
        wait=wait,
        rate=rate,
        limit=limit,
        dry_run=dry_run,
    )
    if not as_json and first and not dry_run:
        _warn_of_a_short_wait(letters, wait)
    with stop_between_calls() as told:
        report = letters.redrive(
            plan, progress=None if as_json else lambda line: click.echo(line, err=True), stop=told.is_set
        )
    if as_json:
        show_json(_as_json(report))
    else:
        _say(report, dry_run)
    if told.is_set():
        return EXIT_INTERRUPTED
    return 0 if report.clean else EXIT_FAILED


def _warn_of_a_short_wait(letters: DeadLetters, wait: float) -> None:
    for source in letters.sources():
        longest = source.max_receives * source.visibility
        if longest > wait:
            click.echo(
                f"A message of {source.name} that fails {source.max_receives} times with a visibility "
                f"timeout of {source.visibility} s may take {longest} s to come back: consider --wait "
                f"{longest}",
                err=True,
            )


def _as_json(report: RedriveReport) -> dict[str, Any]:
    return {
        "seen": report.seen,
        "matched": report.matched,
        "sent": report.sent,
        "by_target": {queue_name(url): count for url, count in report.by_target.items()},
        "by_job": dict(report.by_job),
        "refused": [{"message_id": item.letter.id, "code": item.code} for item in report.refused],
        "not_deleted": report.not_deleted,
        "came_back": report.came_back,
        "unseen": report.unseen,
        "stopped": report.stopped,
    }


def _say(report: RedriveReport, dry_run: bool) -> None:
    verb = "would go" if dry_run else "went"
    for url, count in report.by_target.most_common():
        say(f"{count} letter(s) {verb} back to {queue_name(url)}")
    for job, count in report.by_job.most_common():
        say(f"  {count} {printable(job) or 'without a job name'}")
    if not report.sent:
        say(f"No letter {verb} back; {report.seen} were looked at")
    for code, count in Counter(item.code for item in report.refused).most_common():
        fail(f"{count} letter(s) were not taken, and stay: {code}")
    if report.not_deleted:
        fail(
            f"these went back and could not be deleted here, so that both queues have them: {report.not_deleted}"
        )
    if report.unseen:
        click.echo(
            f"About {report.unseen} message(s) wait behind others of their group that are not meant, and were "
            "not looked at",
            err=True,
        )
    if report.stopped:
        fail(f"stopped: {report.stopped}")
