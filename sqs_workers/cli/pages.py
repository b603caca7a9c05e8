"""Pages of the documentation that are written from the code: ``python -m sqs_workers.cli.pages yaml|cli``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from sqs_workers.app.reference_page import reference_page
from sqs_workers.cli.needs import click
from sqs_workers.cli.root import COMMANDS, cli

__all__ = ["cli_page"]

_HEAD = """\
# Command line reference

`pip install 'sqs-workers[cli]'` brings the command `sqs-workers`; `python -m sqs_workers` is the same.
Colours and live displays are for terminals; in a pipe, or with `NO_COLOR`, output is plain, and tables have
their columns separated by tabs. Errors go to standard error, without a traceback for what you can mend.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | it could not be done: SQS or a database refused, a check found something |
| 2 | a wrong option, or a file with mistakes; nothing was started |
| 3 | a worker stopped, and left something behind at its deadline |
| 4 | a worker could not go on |
| 130 | interrupted |

This page is written by `python -m sqs_workers.cli.pages cli`.
"""


def cli_page() -> str:
    """The reference of the command line, as Markdown."""
    parts = [_HEAD]
    settings: dict[str, Any] = {**cli.context_settings, "terminal_width": 100}
    with click.Context(cli, info_name="sqs-workers", **settings) as root:
        for name in COMMANDS:
            command = cli.get_command(root, name)
            assert command is not None
            parts += _sections(command, name, root, settings, "##")
    return "".join(parts)


def _sections(
    command: click.Command, name: str, parent: click.Context, settings: dict[str, Any], level: str
) -> Iterator[str]:
    """The help of a command, and that of the commands below it."""
    context = click.Context(
        command, info_name=name, parent=parent, **{**settings, **command.context_settings}
    )
    path = context.command_path.removeprefix("sqs-workers ")
    yield f"\n{level} `{path}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _sections(found, below, context, settings, level + "#")


if __name__ == "__main__":
    sys.stdout.write(reference_page() if sys.argv[1:] == ["yaml"] else cli_page())
