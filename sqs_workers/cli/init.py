"""``init``: a worker to start from, which runs at once."""

from __future__ import annotations

from pathlib import Path

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.init_files import Database, files_of, next_steps
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, say

__all__ = ["init_command"]


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option(
    "--database",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Where the rows go.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=9324, show_default=True, help="Local endpoint."
)
def init_command(directory: Path, force: bool, database: Database, port: int) -> int:
    """Write worker.yaml, handler.py, schema.sql and events.jsonl to DIRECTORY.

    They run at once on the local endpoint and SQLite, without AWS and without a server of your own, or on
    your PostgreSQL. The commands for that are printed.

    \b
    Examples:
      sqs-workers init demo
      sqs-workers init demo --database postgres

    Exit codes: 0 written, 1 a file is there already.
    """
    files = files_of(database, port)
    there = [name for name in files if (directory / name).exists()]
    if there and not force:
        fail(f"{', '.join(there)} in {directory}: choose another directory, or write over with --force")
        return EXIT_FAILED
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    say(f"Wrote {', '.join(files)} to {directory}. Next:")
    say(next_steps(database, port, str(directory)))
    return 0
