"""What the command line is built on, or an error that says how to install it."""

from __future__ import annotations

from sqs_workers.exceptions import MissingExtraError

try:
    import click
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"the command line needs {error.name!r}, which is not installed: pip install 'sqs-workers[cli]'"
    ) from None

__all__ = ["Console", "Group", "Live", "Table", "Text", "click"]
