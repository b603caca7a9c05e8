"""The databases of the tests: a schema, database or file of its own for each test."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

POSTGRES_DSN = os.environ.get(
    "SQS_WORKERS_TEST_POSTGRES_DSN", "postgresql+psycopg://postgres@127.0.0.1:5432/test"
)
MYSQL_DSN = os.environ.get(
    "SQS_WORKERS_TEST_MYSQL_DSN", "mysql+pymysql://root@127.0.0.1:3306/test?charset=utf8mb4"
)
KINDS = ("postgresql", "mysql", "sqlite")
LOCK_WAIT_SECONDS = 20

_absent: dict[str, str] = {}


@dataclass
class Database:
    """A place of one test's own on a server, or a file.

    :ivar engine: connects there.
    """

    kind: str
    url: sa.URL
    options: dict[str, Any]
    name: str
    engine: sa.Engine = field(init=False)
    _engines: list[sa.Engine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.make_engine()

    def make_engine(self, isolation: str | None = None, **options: Any) -> sa.Engine:
        """Another engine for the same place."""
        merged = {**self.options, **options}
        if isolation is not None:
            merged["isolation_level"] = isolation
        engine = sa.create_engine(self.url, **merged)
        self._engines.append(engine)
        return engine

    @property
    def locks_rows(self) -> bool:
        return self.kind != "sqlite"

    def driver_connection(self) -> Any:
        """A plain connection of the driver, as a program without SQLAlchemy would open it."""
        arguments, options = self.engine.dialect.create_connect_args(self.url)
        return self.engine.dialect.dbapi.connect(
            *arguments, **{**options, **self.options.get("connect_args", {})}
        )  # type: ignore[union-attr]

    def dispose(self) -> None:
        """Close all connections; the first engine opens new ones when it is used again."""
        for engine in self._engines:
            engine.dispose()
        del self._engines[1:]


def open_database(kind: str, directory: Path) -> Database:
    """A fresh place; skips, or fails in CI, if there is no server."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    if kind == "sqlite":
        url = sa.make_url(f"sqlite:///{directory / name}.db")
        return Database(kind, url, {"connect_args": {"timeout": LOCK_WAIT_SECONDS}}, name)
    if kind == "postgresql":
        url = sa.make_url(POSTGRES_DSN)
        _administer(kind, url, f'CREATE SCHEMA "{name}"')
        options = f"-csearch_path={name} -clock_timeout={LOCK_WAIT_SECONDS}s"
        return Database(kind, url, {"connect_args": {"options": options, "application_name": name}}, name)
    url = sa.make_url(MYSQL_DSN)
    _administer(kind, url, f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    init = f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT_SECONDS}"
    return Database(kind, url.set(database=name), {"connect_args": {"init_command": init}}, name)


def drop_database(database: Database) -> None:
    database.dispose()
    if database.kind == "postgresql":
        _administer(database.kind, sa.make_url(POSTGRES_DSN), f'DROP SCHEMA "{database.name}" CASCADE')
    elif database.kind == "mysql":
        _administer(database.kind, sa.make_url(MYSQL_DSN), f"DROP DATABASE `{database.name}`")


def _administer(kind: str, url: sa.URL, statement: str) -> None:
    if kind in _absent:
        _give_up(_absent[kind])
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    except sa.exc.OperationalError as error:
        if "lock" in str(error.orig).lower():
            raise
        _absent[kind] = f"no {kind} server at {url.host}:{url.port}: {type(error.orig).__name__}"
        _give_up(_absent[kind])


def _give_up(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
