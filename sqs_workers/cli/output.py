"""What goes to the terminal, to a pipe, or to a program."""

from __future__ import annotations

import json
import sys
from typing import Any

from sqs_workers.cli.needs import Console, Table, click

__all__ = [
    "console",
    "errors",
    "fail",
    "is_terminal",
    "json_option",
    "printable",
    "say",
    "show_json",
    "table",
]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def console() -> Console:
    """Standard output: coloured on a terminal, plain in a pipe or with NO_COLOR."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def errors() -> Console:
    """Standard error, likewise."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def say(text: str, *, style: str | None = None) -> None:
    """One line to standard output."""
    console().print(text, style=style, markup=False)


def fail(text: str) -> None:
    """One line to standard error."""
    errors().print(f"Error: {text}", style="red", markup=False)


def show_json(value: Any) -> None:
    """A value for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def printable(text: str) -> str:
    """A text of somebody else's, without what would steer the terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def table(title: str, columns: list[str], rows: list[list[str]], *, right: tuple[str, ...] = ()) -> None:
    """A table; in a pipe its columns are separated by tabs, for `cut` and its kin."""
    if not is_terminal():
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(row))
        return
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        shown.add_column(
            column, justify="right" if column in right else "left", overflow="fold", header_style="bold"
        )
    for row in rows:
        shown.add_row(*row)
    console().print(shown)
