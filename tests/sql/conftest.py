"""Fixtures of the SQL tests: each runs on PostgreSQL, MySQL (or MariaDB) and SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sqs_workers.sql import create_tables, faults
from sqs_workers.sql.tables import DEFAULT_TABLES
from tests.sql.accounts import totals
from tests.sql.databases import KINDS, Database, drop_database, open_database


@pytest.fixture(params=KINDS)
def bare_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A new database without tables."""
    database = open_database(request.param, tmp_path)
    try:
        yield database
    finally:
        drop_database(database)


@pytest.fixture(scope="session")
def shared_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Database]]:
    """One database of each kind for all tests of this process: making one takes long on MySQL."""
    opened: dict[str, Database] = {}

    def get(kind: str) -> Database:
        if kind not in opened:
            opened[kind] = open_database(kind, tmp_path_factory.mktemp(kind))
            create_tables(opened[kind].engine)
        return opened[kind]

    yield get
    for database in opened.values():
        drop_database(database)


@pytest.fixture(params=KINDS)
def database(
    request: pytest.FixtureRequest, shared_databases: Callable[[str], Database]
) -> Iterator[Database]:
    """A database with the tables of inbox, outbox and idempotent calls, all empty."""
    found = shared_databases(request.param)
    with found.engine.begin() as connection:
        # The tests' own tables stay, or go, with the tests that make them; but no rows of an earlier test.
        existing = set(sa.inspect(connection).get_table_names())
        for table in (*DEFAULT_TABLES.all, totals):
            if table.name in existing:
                connection.execute(sa.delete(table))
    yield found
    found.dispose()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """No fault point stays armed."""
    yield
    for name in faults.__all__:
        point = getattr(faults, name)
        if isinstance(point, faults.FaultPoint):
            point.action = None
