"""``init``: a worker to start from, which runs at once."""

from __future__ import annotations

from pathlib import Path

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.init_files import FILES, NEXT_STEPS
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail, say

__all__ = ["init_command"]


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=9324, show_default=True, help="Local endpoint."
)
def init_command(directory: Path, force: bool, port: int) -> int:
    """Write worker.yaml, handler.py, schema.sql and events.jsonl to DIRECTORY.

    They run at once on the local endpoint and SQLite, without AWS and without a server of your own. The
    commands for that are printed.

    \b
    Example:
      sqs-workers init demo

    Exit codes: 0 written, 1 a file is there already.
    """
    there = [name for name in FILES if (directory / name).exists()]
    if there and not force:
        fail(f"{', '.join(there)} in {directory}: choose another directory, or write over with --force")
        return EXIT_FAILED
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (directory / name).write_text(text.replace("{port}", str(port)), encoding="utf-8")
    say(f"Wrote {', '.join(FILES)} to {directory}. Next:")
    say(NEXT_STEPS.format(directory=directory, port=port))
    return 0
