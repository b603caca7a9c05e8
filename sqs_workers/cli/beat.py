"""``beat``: sends the jobs of schedules when they are due."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.app.handlers import load_object
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import errors
from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.schedules import Beat

__all__ = ["beat_command"]


@click.command("beat")
@click.argument("target", metavar="MODULE:OBJECT")
@click.option(
    "--dsn-env",
    metavar="VARIABLE",
    help="Variable that holds the DSN of the database in which beats remember together what was sent.",
)
@click.option(
    "--name",
    default="beat",
    show_default=True,
    help="Beats with one name and one database share their schedules.",
)
@click.option("--poll", type=click.FloatRange(0.1, 60), default=5.0, show_default=True, help="Seconds.")
def beat_command(target: str, dsn_env: str | None, name: str, poll: float) -> int:
    """Send the jobs that @queue.periodic(...) declares when they are due, until SIGTERM or SIGINT.

    OBJECT is an SQSEnv, or a Beat with the lease and the outbox that it was given in code. For an SQSEnv,
    --dsn-env names the database; its table comes from sqs_workers.sql.create_tables. Then two beats may run, so
    that one may die. Without, one beat remembers in memory, and what was due while none ran is not sent.

    --poll is the longest time between two looks at the clock: how late a step of the clock is noticed.

    \b
    Examples:
      sqs-workers beat shop.jobs:sqs
      DATABASE_URL=postgresql://app@127.0.0.1/app sqs-workers beat shop.jobs:sqs --dsn-env DATABASE_URL
      sqs-workers beat shop.jobs:beat

    Exit codes: 0 stopped in order, 1 could not start, 2 a wrong option or object.
    """
    from sqs_workers.app.logs import configure
    from sqs_workers.app.spec import Logging

    beat = _beat(target, dsn_env, name, poll)
    if not beat.schedules:
        raise click.UsageError(
            f"{target} declares no schedule by @queue.periodic(...): name a module that imports those that do"
        )
    console = errors()
    configure(Logging(), color=not console.no_color and console.is_terminal)
    if console.is_terminal:
        console.print(f"{target}: {beat!r}", style="bold", markup=False)
        for periodic in beat.schedules:
            console.print(
                f"  {periodic.name}: {periodic.when} -> {periodic.queue_name}, {periodic.job_name}",
                markup=False,
            )
        console.print("  Ctrl-C stops in order.", style="dim", markup=False)
    beat.run()
    return 0


def _beat(target: str, dsn_env: str | None, name: str, poll: float) -> Beat:
    from sqs_workers.schedules import Beat

    try:
        found: Any = load_object(target, Path.cwd())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    given = click.get_current_context().get_parameter_source
    if isinstance(found, Beat):
        own = [
            f"--{option.replace('_', '-')}"
            for option in ("dsn_env", "name", "poll")
            if given(option) is click.core.ParameterSource.COMMANDLINE
        ]
        if own:
            raise click.UsageError(f"{target} is a Beat, made in code with its options: leave {own[0]} out")
        return found
    if not callable(getattr(found, "worker", None)):
        raise click.UsageError(f"{target} is a {type(found).__name__}, and neither an SQSEnv nor a Beat")
    if dsn_env is None:
        if given("name") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--name is for beats that share a database: give --dsn-env")
        return Beat(found, poll=poll)
    return Beat(found, _lease(dsn_env, name), poll=poll)


def _lease(dsn_env: str, name: str) -> Any:
    from sqs_workers.cli.databases import engine_of
    from sqs_workers.sql import DatabaseLease
    from sqs_workers.sql.errors import translated
    from sqs_workers.sql.sqla import sa
    from sqs_workers.sql.tables import DEFAULT_TABLES

    engine = engine_of(dsn_env, "--dsn-env")
    table = DEFAULT_TABLES.schedule_slots.name
    with translated(f"looking for table {table!r}"):
        there = sa.inspect(engine).has_table(table)
    if not there:
        raise ConfigurationError(
            f"the database of {dsn_env} has no table {table!r}, in which beats remember what was sent: make it by "
            "sqs_workers.sql.create_tables(engine)"
        )
    try:
        return DatabaseLease(engine, name)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
