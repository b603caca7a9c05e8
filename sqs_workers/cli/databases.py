"""A database whose DSN stands in a variable of the environment, and so in no list of processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqs_workers.cli.needs import click

__all__ = ["engine_of"]

_FAMILIES = {
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgres": "postgres",
    "postgresql": "postgres",
    "sqlite": "sqlite",
}


def engine_of(variable: str, option: str) -> Any:
    """A SQLAlchemy engine for the DSN in ``variable``, which ``option`` names; closed with the command.

    :raises UsageError: there is none, or it is of no database that is known here.
    """
    from sqs_workers.app.connections import open_database
    from sqs_workers.app.spec_resources import Mysql, Postgres, Sqlite

    dsn = os.environ.get(variable, "")
    if not dsn:
        raise click.UsageError(f"the variable {variable} holds no DSN: set it, or name another with {option}")
    family = _FAMILIES.get(dsn.partition(":")[0].partition("+")[0])
    if family is None:
        raise click.UsageError(
            f"the DSN in {variable} begins with neither mysql://, postgresql:// nor sqlite://"
        )
    cls: Any = {"mysql": Mysql, "postgres": Postgres, "sqlite": Sqlite}[family]
    engine = open_database(variable, cls(dsn=dsn), Path.cwd())
    click.get_current_context().call_on_close(engine.dispose)
    return engine
