"""``schema``: a JSON Schema for editors."""

from __future__ import annotations

from sqs_workers.app.json_schema import json_schema
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import show_json

__all__ = ["schema_command"]


@click.command("schema")
def schema_command() -> int:
    """Print the JSON Schema of worker files, with which editors complete and check.

    \b
    Example:
      sqs-workers schema > worker.schema.json
      # then, as the first line of worker.yaml:
      # yaml-language-server: $schema=worker.schema.json
    """
    show_json(json_schema())
    return 0
