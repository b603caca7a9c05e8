"""``schedules``: what ``@queue.periodic(...)`` declares, and what EventBridge Scheduler has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.app.handlers import load_object
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import json_option, say, show_json, table
from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.schedules import EventBridgeScheduler, ScheduleChange

__all__ = ["schedules_command"]

_SIGNS = {"create": "+", "update": "~", "remove": "-", "keep": " "}
_STYLES = {"create": "green", "update": "yellow", "remove": "red"}
_DONE = {"create": "created", "update": "updated", "remove": "removed", "keep": "unchanged"}


@click.group("schedules")
def schedules_command() -> None:
    """Jobs that come again and again: list them, or hand them to EventBridge Scheduler.

    TARGET is an environment, as MODULE:NAME. Its scheduler is used, or the one of --group and --role-arn.

    \b
    Example:
      sqs-workers schedules list shop.jobs:sqs
      sqs-workers schedules sync shop.jobs:sqs --dry-run
      sqs-workers schedules sync shop.jobs:sqs --prune
    """


@schedules_command.command("list")
@click.argument("target")
@json_option
def list_command(target: str, as_json: bool) -> None:
    """Show the schedules that TARGET declares, and when they are due next."""
    from datetime import datetime, timezone

    env = _environment(target)
    now = env.clock.time()
    rows = []
    for queue in env.queues.values():
        for periodic in getattr(queue, "periodic_jobs", {}).values():
            upcoming = periodic.next_slot(now)
            moment = None if upcoming is None else datetime.fromtimestamp(upcoming, timezone.utc)
            rows.append(
                {
                    "name": periodic.name,
                    "queue": periodic.queue_name,
                    "job": periodic.job_name,
                    "when": periodic.when,
                    "next": "never" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "catch_up": periodic.catch_up,
                }
            )
    if as_json:
        show_json(rows)
    elif not rows:
        say(f"{target} declares no schedules: @queue.periodic(...) does")
    else:
        table("Schedules", list(rows[0]), [[str(value) for value in row.values()] for row in rows])


@schedules_command.command("sync")
@click.argument("target")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--prune", is_flag=True, help="Remove schedules that are declared no more.")
@click.option("--group", help="Schedule group, if TARGET has no scheduler.")
@click.option("--role-arn", help="Role that EventBridge Scheduler takes on, if TARGET has no scheduler.")
@json_option
def sync_command(
    target: str, dry_run: bool, prune: bool, group: str | None, role_arn: str | None, as_json: bool
) -> None:
    """Make the schedules at EventBridge Scheduler those that TARGET declares.

    Says first what differs. What is declared no more is removed with --prune alone: give each application and
    each prefix a schedule group of its own.
    """
    from sqs_workers.schedules import sync_schedules

    env = _environment(target)
    scheduler = _scheduler(env, target, group, role_arn)
    # What can be refused is refused before anything is changed.
    plan = sync_schedules(env, scheduler, prune=True, dry_run=True)
    if not as_json:
        _show(plan, prune)
    done = plan if dry_run else sync_schedules(env, scheduler, prune=prune)
    chosen = [change for change in done if prune or change.kind != "remove"]
    if as_json:
        show_json(
            [
                {"name": change.name, "change": change.kind, "differences": list(change.differences)}
                for change in chosen
            ]
        )
        return
    counts = ", ".join(
        f"{sum(change.kind == kind for change in chosen)} {word}" for kind, word in _DONE.items()
    )
    say(f"{'Would be' if dry_run else 'Done'}: {counts}")


def _environment(target: str) -> Any:
    try:
        env = load_object(target, Path.cwd())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if not callable(getattr(env, "worker", None)):
        raise click.UsageError(f"{target} is a {type(env).__name__}, and no SQSEnv")
    return env


def _scheduler(env: Any, target: str, group: str | None, role_arn: str | None) -> EventBridgeScheduler | None:
    from sqs_workers.schedules import EventBridgeScheduler

    if role_arn is not None:
        return EventBridgeScheduler(group or "default", role_arn=role_arn)
    if env.scheduler is None:
        raise click.UsageError(
            f"{target} has no scheduler: give --group and --role-arn, or SQSEnv(scheduler=...) in code"
        )
    if group is not None:
        raise click.UsageError("--group needs --role-arn: the scheduler of the environment has both")
    return None


def _show(plan: list[ScheduleChange], prune: bool) -> None:
    for change in plan:
        definition = change.wanted or change.found
        when = "" if definition is None else f"  {definition.expression} {definition.timezone}"
        what = f"  ({', '.join(change.differences)})" if change.differences else ""
        kept = "  (kept: --prune removes it)" if change.kind == "remove" and not prune else ""
        say(f"{_SIGNS[change.kind]} {change.name}{when}{what}{kept}", style=_STYLES.get(change.kind))
