"""Fixtures of the SQL tests: each runs on PostgreSQL, MySQL (or MariaDB) and SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqs_workers.sql import create_tables, faults
from tests.sql.databases import KINDS, Database, drop_database, open_database


@pytest.fixture(params=KINDS)
def bare_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without tables."""
    database = open_database(request.param, tmp_path)
    try:
        yield database
    finally:
        drop_database(database)


@pytest.fixture
def database(bare_database: Database) -> Database:
    """A database with the tables of inbox, outbox and idempotent calls."""
    create_tables(bare_database.engine)
    return bare_database


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """No fault point stays armed."""
    yield
    for name in faults.__all__:
        point = getattr(faults, name)
        if isinstance(point, faults.FaultPoint):
            point.action = None
