"""The outbox: a job is sent if, and only if, the transaction that asked for it is committed.

::

    outbox = Outbox(engine)

    with engine.begin() as tx:
        tx.execute(insert_order)
        outbox.delay(tx, send_receipt, order_id=7)

The ready message is a row in the caller's transaction. A :class:`~sqs_workers.sql.relay.Relay` sends it
afterwards, at least once, with the row's id as attribute ``OutboxId``, by which an inbox on the other side
recognises the second one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.messages import OUTGOING_SINK, OutgoingMessage
from sqs_workers.sql.connections import executor_of, is_async, transaction
from sqs_workers.sql.errors import translated
from sqs_workers.sql.retention import delete_in_batches
from sqs_workers.sql.rows import PENDING, REFUSED, SENT, as_utc, to_row
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.tables import DEFAULT_TABLES, Tables
from sqs_workers.sql.wholeness import refuse_autocommit

__all__ = ["Outbox", "PreparesJobs", "RefusedMessage"]


class PreparesJobs(Protocol):
    """What the outbox asks of a task: the message that ``delay`` would send."""

    def prepare(self, *args: Any, **kwargs: Any) -> tuple[str, OutgoingMessage]:
        """Name of the queue, as ``env.queue(...)`` takes it, and the ready message."""
        ...


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that could not be sent and was set aside.

    :ivar reason: SQS's code and words, or the class of the error.
    """

    outbox_id: str
    queue_name: str
    job_name: str
    reason: str
    created_at: datetime


class Outbox:
    """Stores jobs in the caller's transaction.

    :param engine: a SQLAlchemy engine (or ``sessionmaker``) for the relay, :meth:`purge` and what operators
        ask; :meth:`delay` and :meth:`session` do without.
    :param tables: where the messages are kept.
    :param notify: wake relays by ``NOTIFY`` on PostgreSQL. It takes a lock for the length of the commit that
        all notifying transactions of the database share: turn it off above some thousand commits a second.
    """

    def __init__(
        self,
        engine: Any = None,
        *,
        tables: Tables = DEFAULT_TABLES,
        notify: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.engine = engine
        self.table = tables.outbox_messages
        self.notify = notify
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Outbox {self.table.fullname}>"

    @property
    def channel(self) -> str:
        """PostgreSQL channel on which relays are woken: 63 bytes at most."""
        name = f"sqs_workers.{self.table.fullname}"
        if len(name.encode()) < 64:
            return name
        return f"sqs_workers.{hashlib.sha256(name.encode()).hexdigest()[:40]}"

    def delay(self, tx: Any, task: PreparesJobs, *args: Any, **kwargs: Any) -> str:
        """Store the job that ``task.delay(*args, **kwargs)`` would send; returns its ``OutboxId``.

        :param tx: a SQLAlchemy ``Connection`` or ``Session``, what ``inbox.once()`` yields, Django's
            ``connection``, or a connection of psycopg, PyMySQL or sqlite3: in a transaction that you commit.
        :raises ConfigurationError: ``tx`` commits every statement by itself.
        :raises MessageTooLargeError: SQS would not take it.
        :raises DatabaseError: the row could not be stored: roll the transaction back.
        """
        queue_name, message = task.prepare(*args, **kwargs)
        return self.add(tx, queue_name, message)

    async def adelay(self, tx: Any, task: PreparesJobs, *args: Any, **kwargs: Any) -> str:
        """:meth:`delay` for an ``AsyncConnection`` or ``AsyncSession``."""
        queue_name, message = task.prepare(*args, **kwargs)
        outbox_id: str = await tx.run_sync(self.add, queue_name, message)
        return outbox_id

    def add(self, tx: Any, queue_name: str, message: OutgoingMessage) -> str:
        """Store a ready message; returns its ``OutboxId``."""
        outbox_id = str(uuid.uuid4())
        _, row = to_row(outbox_id, queue_name, message, self._now())
        executor = executor_of(tx)
        refuse_autocommit(executor.connection)
        statement: Any = sa.insert(self.table).values(**row)
        if self.notify and executor.dialect_name == "postgresql":
            # One round trip for both; relays hear of it when the transaction commits.
            statement = statement.returning(sa.func.pg_notify(self.channel, ""))
        with translated(f"storing a job for queue {queue_name!r} in the outbox"):
            executor.execute(statement)
        return outbox_id

    @contextmanager
    def session(self, tx: Any) -> Iterator[None]:
        """Within the block, ``task.delay(...)`` of this thread stores the job in the transaction ``tx``.

        A savepoint that is rolled back takes its jobs with it.
        """
        if is_async(tx):
            raise ConfigurationError("use `async with outbox.asession(tx):` with an asynchronous connection")
        token = OUTGOING_SINK.set(lambda queue_name, message: self.add(tx, queue_name, message))
        try:
            yield
        finally:
            OUTGOING_SINK.reset(token)

    @asynccontextmanager
    async def asession(self, tx: Any) -> AsyncIterator[None]:
        """:meth:`session` for an ``AsyncConnection`` or ``AsyncSession``.

        ``delay`` cannot wait for the database there: jobs are stored at the end of the block, and none of
        them if it raises. ``delay`` answers ``None``; open one block for each savepoint.
        """
        held: list[tuple[str, OutgoingMessage]] = []
        token = OUTGOING_SINK.set(lambda queue_name, message: held.append((queue_name, message)))
        try:
            yield
        finally:
            OUTGOING_SINK.reset(token)
        for queue_name, message in held:
            await tx.run_sync(self.add, queue_name, message)

    def refused(self, limit: int = 100) -> list[RefusedMessage]:
        """Messages that were set aside, the oldest first."""
        table = self.table
        statement = (
            sa.select(
                table.c.outbox_id, table.c.queue_name, table.c.job_name, table.c.reason, table.c.created_at
            )
            .where(table.c.state == REFUSED)
            .order_by(table.c.id)
            .limit(limit)
        )
        _, rows = self._ask(statement)
        return [
            RefusedMessage(outbox_id, queue_name, job_name, reason or "", as_utc(created_at))
            for outbox_id, queue_name, job_name, reason, created_at in rows
        ]

    def retry_refused(self, outbox_ids: Sequence[str] | None = None) -> int:
        """Let the relay try messages again that were set aside: those given, or all; returns how many.

        In a FIFO queue they go to their old place: before the later ones of the group that still wait.
        """
        table = self.table
        where = table.c.state == REFUSED
        if outbox_ids is not None:
            where &= table.c.outbox_id.in_(list(outbox_ids))
        statement = (
            sa.update(table)
            .where(where)
            .values(state=PENDING, attempts=0, not_before=None, reason=None, settled_at=None)
        )
        return self._ask(statement)[0]

    def pending(self) -> int:
        """Messages that wait to be sent."""
        statement = sa.select(sa.func.count()).select_from(self.table).where(self.table.c.state == PENDING)
        return int(self._ask(statement)[1][0][0])

    def purge(self, *, older_than: timedelta, batch: int = 1000) -> int:
        """Delete the rows of messages sent longer ago than ``older_than``; returns how many.

        :param batch: rows of one transaction.
        """
        table = self.table
        before = self._now() - older_than
        return delete_in_batches(
            self._require_engine(), table, [table.c.state == SENT], table.c.settled_at, before, batch
        )

    def _ask(self, statement: Any) -> tuple[int, Sequence[Sequence[Any]]]:
        engine = self._require_engine()
        with translated(f"asking the outbox {self.table.fullname!r}"), transaction(engine) as connection:
            return executor_of(connection).execute(statement)

    def _require_engine(self) -> Any:
        if self.engine is None or is_async(self.engine):
            raise ConfigurationError(
                "this needs a synchronous engine: Outbox(engine) with one of sqlalchemy.create_engine"
            )
        return self.engine

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)
