"""Pages that are written from the code are as the code is."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from sqs_workers.app.reference_page import reference_page
from sqs_workers.cli.pages import cli_page
from sqs_workers.cli.root import COMMANDS, cli

DOCS = Path(__file__).parents[2] / "docs"


def test_the_yaml_reference_is_that_of_the_dataclasses() -> None:
    assert (DOCS / "yaml.md").read_text(encoding="utf-8") == reference_page(), (
        "write it anew: python -m sqs_workers.cli.pages yaml > docs/yaml.md"
    )


def test_the_command_line_reference_is_that_of_the_commands() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == cli_page(), (
        "write it anew: python -m sqs_workers.cli.pages cli > docs/cli.md"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert "Example" in (command.help or "")
    assert f"sqs-workers {name}" in (command.help or "")
