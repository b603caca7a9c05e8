"""The row that says that a consumer has processed an event."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqs_workers.sql.dialects import insert_if_absent
from sqs_workers.sql.errors import DatabaseError, DatabaseErrorKind, PayloadConflict, translated
from sqs_workers.sql.hashing import same_payload
from sqs_workers.sql.sqla import sa

if TYPE_CHECKING:
    from sqs_workers.sql.connections import Executor

__all__ = ["insert_mark"]


def insert_mark(
    executor: Executor, table: sa.Table, *, consumer: str, event_id: str, digest: str, now: datetime
) -> bool:
    """Insert the event's row before anything else is written.

    If another transaction has inserted the same event and is still open, the database makes this one wait for
    its end: that is what keeps two workers from running one event at once.

    :returns: ``True`` if the event is new to the consumer, ``False`` if it was processed with this payload.
    :raises PayloadConflict: it was processed with another payload.
    :raises DatabaseError: the database failed, without the values of the statement.
    """
    with translated(f"marking an event of {consumer!r} in table {table.fullname!r}"):
        values = {"consumer": consumer, "event_id": event_id, "payload_hash": digest, "processed_at": now}
        if insert_if_absent(executor, table, values):
            return True
        stored = _stored_hash(executor, table, consumer, event_id)
    if stored is None:
        raise DatabaseError(
            f"an event of {consumer!r} was removed from table {table.fullname!r} at this moment "
            "(by a purge, or by hand): the transaction is run again",
            kind=DatabaseErrorKind.CONFLICT,
        )
    if not same_payload(stored, digest):
        raise PayloadConflict(consumer, event_id)
    return False


def _stored_hash(executor: Executor, table: sa.Table, consumer: str, event_id: str) -> str | None:
    statement = sa.select(table.c.payload_hash).where(
        table.c.consumer == consumer, table.c.event_id == event_id
    )
    if executor.dialect_name == "mysql":
        # Under REPEATABLE READ a plain read would not see a row committed after the caller's first one.
        statement = statement.with_for_update(read=True)
    _, rows = executor.execute(statement)
    return str(rows[0][0]) if rows else None
