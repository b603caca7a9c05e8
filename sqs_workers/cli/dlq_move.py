"""``dlq move``: the whole dead-letter queue, by a task of SQS's."""

from __future__ import annotations

from dataclasses import asdict

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.dlq_options import letters_of, rate_option, to_option
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, json_option, say, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of
from sqs_workers.redrive import DeadLetters, MoveTask

__all__ = ["move_command"]


@click.command("move")
@click.argument("queue")
@rate_option
@to_option
@click.option("--no-follow", is_flag=True, help="Start it and return.")
@click.option("--status", is_flag=True, help="Show the last tasks instead.")
@click.option("--cancel", is_flag=True, help="End the running task instead. What it moved stays moved.")
@account_options
@json_option
def move_command(
    queue: str,
    rate: float | None,
    to: str | None,
    no_follow: bool,
    status: bool,
    cancel: bool,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Let SQS move all letters of QUEUE by a task, which goes on without this command.

    For queues too deep to send back one by one; redrive a few first. There is no choice of letters, and
    attributes stay as they are. While it is followed, the task is cancelled if letters come back.

    \b
    Examples:
      sqs-workers dlq redrive events-dead --first 0 --limit 5
      sqs-workers dlq move events-dead --rate 50/s
      sqs-workers dlq move events-dead --status
      sqs-workers dlq move events-dead --cancel

    Exit codes: 0 done, 1 the task failed or was cancelled.
    """
    letters = letters_of(Account(region, endpoint_url, profile), queue)
    if status and cancel:
        raise click.UsageError("--status and --cancel: choose one")
    if status:
        return _status(letters, as_json)
    if cancel:
        moved = letters.cancel_move()
        if as_json:
            show_json({"moved": moved})
        else:
            say(f"Cancelled; {moved} message(s) had been moved")
        return 0
    letters.start_move(
        to=None if to is None else url_of(letters.client, to),
        rate=None if rate is None else max(1, int(rate)),
    )
    if no_follow:
        return _status(letters, as_json)
    return _follow(letters, as_json)


def _status(letters: DeadLetters, as_json: bool) -> int:
    tasks = letters.moves()
    if as_json:
        show_json([asdict(task) for task in tasks])
        return 0
    for task in tasks:
        say(_line(task))
    if not tasks:
        say("No task has moved messages of this queue")
    return 0


def _follow(letters: DeadLetters, as_json: bool) -> int:
    last = ""

    def show(task: MoveTask) -> None:
        nonlocal last
        line = _line(task)
        if line != last and not as_json:
            click.echo(line, err=True)
        last = line

    task = letters.follow_move(show)
    if as_json:
        show_json(asdict(task))
    elif task.status == "COMPLETED":
        say(f"{task.moved} message(s) were moved")
    else:
        fail(
            f"the task is {task.status.lower()} after {task.moved} message(s): {task.failure or 'cancelled'}"
        )
    return 0 if task.status == "COMPLETED" else EXIT_FAILED


def _line(task: MoveTask) -> str:
    total = "" if task.to_move is None else f" of {task.to_move}"
    where = "" if task.destination is None else f" to {task.destination.rpartition(':')[2]}"
    return f"{task.status.lower()}: {task.moved}{total} moved{where}" + (
        f" ({task.failure})" if task.failure else ""
    )
