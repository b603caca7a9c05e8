"""Deleting old rows in small transactions, so that nobody waits long for their locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.connections import Executor, executor_of, transaction
from sqs_workers.sql.errors import translated
from sqs_workers.sql.sqla import sa

__all__ = ["delete_in_batches"]


def delete_in_batches(
    source: Any,
    table: sa.Table,
    conditions: Sequence[sa.ColumnElement[bool]],
    oldest: sa.ColumnElement[Any],
    before: datetime,
    batch: int,
) -> int:
    """Delete rows for which ``conditions`` hold and ``oldest`` lies before ``before``; returns how many.

    :param batch: rows of one transaction.
    :raises ConfigurationError: ``batch`` is below 1.
    :raises DatabaseError: the database failed; what was deleted until then stays deleted.
    """
    if batch < 1:
        raise ConfigurationError(f"batch must be 1 or more, not {batch!r}")
    where = (*conditions, oldest < before)
    deleted = 0
    while True:
        with translated(f"deleting old rows of table {table.fullname!r}"), transaction(source) as connection:
            rows = _delete_batch(executor_of(connection), table, where, oldest, batch)
        deleted += rows
        if rows < batch:
            return deleted


def _delete_batch(
    executor: Executor,
    table: sa.Table,
    where: Sequence[sa.ColumnElement[bool]],
    oldest: sa.ColumnElement[Any],
    batch: int,
) -> int:
    keys = list(table.primary_key.columns)
    # MySQL takes no LIMIT within an IN, so the keys make the round trip.
    _, rows = executor.execute(sa.select(*keys).where(*where).order_by(oldest).limit(batch))
    if rows:
        found = (
            keys[0].in_([row[0] for row in rows])
            if len(keys) == 1
            else sa.tuple_(*keys).in_([tuple(row) for row in rows])
        )
        executor.execute(sa.delete(table).where(found, *where))
    return len(rows)
