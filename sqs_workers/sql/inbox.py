"""The inbox: an event has its effect once, because the mark and the effect are one transaction.

::

    inbox = Inbox(engine, consumer="billing")

    def credit(tx):
        expect_rows(tx.execute(update_account), 1)

    result = inbox.run("evt-1", payload, credit)     # Ran(...) the first time, Skipped() ever after

The row of the event is inserted *first*, under a unique key, in the transaction of the handler. A second
worker with the same event waits at that insert for the end of the first one's transaction: after its commit
the second one skips, after its rollback the second one takes over. Acknowledge the message afterwards.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import Any, TypeVar

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import HookRegistry
from sqs_workers.job import current_job
from sqs_workers.sql import faults
from sqs_workers.sql.connections import executor_of, is_async, transaction
from sqs_workers.sql.errors import describe, is_retryable
from sqs_workers.sql.event_ids import (
    EventIdSource,
    make_event_id,
    payload_of_call,
    without_first_parameter,
)
from sqs_workers.sql.events import EventConflict, EventProcessed, EventSkipped, InboxEvent, TransactionRetried
from sqs_workers.sql.hashing import NO_PAYLOAD, payload_hash, stored_id
from sqs_workers.sql.inbox_guards import Errors, alone
from sqs_workers.sql.inbox_results import InboxResult, Ran, Skipped, expect_rows
from sqs_workers.sql.inbox_transaction import InboxTransaction
from sqs_workers.sql.marks import insert_mark
from sqs_workers.sql.retention import delete_in_batches
from sqs_workers.sql.tables import DEFAULT_TABLES, Tables
from sqs_workers.sql.wholeness import Watch, refuse_autocommit

__all__ = ["Inbox", "InboxResult", "Ran", "Skipped", "expect_rows"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
ResultT = TypeVar("ResultT")


class Inbox:
    """Runs a handler once for each event of one consumer.

    :param engine: a SQLAlchemy engine (handlers get a ``Connection``), a ``sessionmaker`` (a ``Session``),
        their asynchronous kin (for :meth:`arun` and :meth:`aonce`), or a callable that opens a connection
        of psycopg, PyMySQL or sqlite3.
    :param consumer: who processes the event, 1 to 100 characters: each consumer processes it once.
    :param tables: where the events are kept.
    :param attempts: how often :meth:`run` runs the whole transaction if the database rolls it back because of
        another one (deadlock, serialization failure); 5 by default.
    :param hooks: gets the events of ``sqs_workers.sql.events``.
    :raises ConfigurationError: ``consumer`` or ``attempts`` is out of range.
    """

    def __init__(
        self,
        engine: Any,
        *,
        consumer: str,
        tables: Tables = DEFAULT_TABLES,
        attempts: int = 5,
        hooks: HookRegistry | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not consumer or len(consumer) > 100 or consumer != consumer.strip():
            raise ConfigurationError(
                f"consumer must be 1 to 100 characters without blanks around, not {consumer!r}"
            )
        if attempts < 1:
            raise ConfigurationError(f"attempts must be 1 or more, not {attempts!r}")
        self.consumer = consumer
        self.hooks = HookRegistry() if hooks is None else hooks
        self._engine = engine
        self._table = tables.processed_events
        self._attempts = attempts
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Inbox consumer={self.consumer!r}>"

    @property
    def counts(self) -> dict[str, int]:
        """How many events this object has ``processed``, ``skipped``, refused as ``conflict``, and how many
        transactions were ``retried``."""
        with self._lock:
            return dict(self._counts)

    def run(self, event_id: str, payload: object, handler: Callable[[Any], T]) -> InboxResult[T]:
        """Run ``handler(connection)`` in a transaction that also records the event, unless it is recorded.

        The handler may run again if the database rolled its transaction back: it must have no effect but
        through the connection (an :class:`~sqs_workers.sql.outbox.Outbox` sends jobs through it).

        :param payload: compared with that of the first time; ``NO_PAYLOAD`` leaves it out.
        :raises PayloadConflict: the event was processed with another payload; permanent.
        :raises DatabaseError: the database failed; its ``kind`` says whether it is temporary.
        """
        id_, digest = stored_id(event_id), payload_hash(payload)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._count(id_, self._run_once(id_, digest, handler))
            except Exception as error:
                if not self._goes_on(attempt, id_, error):
                    raise
            condition = threading.Condition()
            with condition:
                self._clock.wait(condition, _pause(attempt))

    def _run_once(self, event_id: str, digest: str, handler: Callable[[Any], T]) -> InboxResult[T]:
        errors = Errors(self.consumer, self._refused)
        with self._alone(event_id), errors.of_transaction(event_id), transaction(self._engine) as connection:
            watch = self._mark(connection, event_id, digest)
            if watch is None:
                return Skipped()
            with errors.of_handler():
                value = handler(connection)
            watch.check()
            faults.AFTER_HANDLER.reach()
        faults.AFTER_COMMIT.reach()
        return Ran(value)

    async def arun(
        self, event_id: str, payload: object, handler: Callable[[Any], Awaitable[T]]
    ) -> InboxResult[T]:
        """:meth:`run` for an asynchronous engine and a coroutine function."""
        id_, digest = stored_id(event_id), payload_hash(payload)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._count(id_, await self._arun_once(id_, digest, handler))
            except Exception as error:
                if not self._goes_on(attempt, id_, error):
                    raise
            await asyncio.sleep(_pause(attempt))

    async def _arun_once(
        self, event_id: str, digest: str, handler: Callable[[Any], Awaitable[T]]
    ) -> InboxResult[T]:
        errors = Errors(self.consumer, self._refused)
        with self._alone(event_id), errors.of_transaction(event_id):
            async with self._asynchronous().begin() as connection:
                watch = await connection.run_sync(self._mark, event_id, digest)
                if watch is None:
                    return Skipped()
                with errors.of_handler():
                    value = await handler(connection)
                await connection.run_sync(_check, watch)
                faults.AFTER_HANDLER.reach()
        faults.AFTER_COMMIT.reach()
        return Ran(value)

    @contextmanager
    def once(
        self, event_id: str, payload: object = NO_PAYLOAD, *, connection: Any = None
    ) -> Iterator[InboxTransaction]:
        """``with inbox.once(event_id, payload) as tx:`` - the block's effect happens once.

        If the event was processed before, the first use of ``tx`` ends the block, without an error: whatever
        goes through ``tx`` cannot happen twice. Anything else in the block stands behind ``if tx.fresh:``.
        Unlike :meth:`run` it cannot run the block again after a deadlock: the error leaves the block, and the
        message is to be retried.

        :param connection: a connection in a transaction of yours, which you commit (for instance Django's
            ``connection`` within ``transaction.atomic()``); by default a transaction of its own. The counts
            and hooks then speak of the end of the block, not of your commit.
        :raises ConfigurationError: the connection commits every statement by itself, or this event's block is
            entered within itself.
        :raises PayloadConflict: the event was processed with another payload; permanent.
        :raises DatabaseError: the database failed; its ``kind`` says whether it is temporary.
        """
        id_, digest = stored_id(event_id), payload_hash(payload)
        errors = Errors(self.consumer, self._refused)
        own = transaction(self._engine) if connection is None else nullcontext(connection)
        alone = self._alone(id_) if connection is None else nullcontext()
        with alone, errors.of_transaction(id_), own as joined:
            watch = self._mark(joined, id_, digest)
            tx = InboxTransaction(joined, fresh=watch is not None)
            with errors.of_handler(), tx:
                yield tx
            if watch is not None:
                watch.check()
            faults.AFTER_HANDLER.reach()
        if connection is None:
            faults.AFTER_COMMIT.reach()
        self._count(id_, Ran(None) if tx.fresh else Skipped())

    @asynccontextmanager
    async def aonce(
        self, event_id: str, payload: object = NO_PAYLOAD, *, connection: Any = None
    ) -> AsyncIterator[InboxTransaction]:
        """:meth:`once` for an asynchronous engine; ``await`` what ``tx`` returns."""
        id_, digest = stored_id(event_id), payload_hash(payload)
        errors = Errors(self.consumer, self._refused)
        own = self._asynchronous().begin() if connection is None else nullcontext(connection)
        with errors.of_transaction(id_):
            async with own as joined:
                watch = await joined.run_sync(self._mark, id_, digest)
                tx = InboxTransaction(joined, fresh=watch is not None)
                with errors.of_handler(), tx:
                    yield tx
                if watch is not None:
                    await joined.run_sync(_check, watch)
                faults.AFTER_HANDLER.reach()
        if connection is None:
            faults.AFTER_COMMIT.reach()
        self._count(id_, Ran(None) if tx.fresh else Skipped())

    def handler(self, event_id: EventIdSource = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: a function whose first argument is the connection runs once for each event.

        Callers leave the connection out. The payload is all other arguments, as they were given: those of the
        job, also the ones that the function does not take, and without the function's defaults. The decorated
        function returns what the function returns, or ``None`` if the event was processed before.

        :param event_id: name of the argument that is the id, a function of the arguments (a mapping), or
            ``None`` for the stable id of the outbox or else the message id of the running job
            (see ``sqs_workers.sql.event_ids`` for which is safe when).
        """

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            signature = without_first_parameter(function)

            def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
                bound = signature.bind(*args, **kwargs)
                payload = payload_of_call(bound.arguments)
                bound.apply_defaults()
                return make_event_id(event_id, bound.arguments), payload

            if inspect.iscoroutinefunction(function):

                @wraps(function)
                async def arun(*args: Any, **kwargs: Any) -> Any:
                    id_, payload = bind(args, kwargs)
                    result = await self.arun(id_, payload, lambda tx: function(tx, *args, **kwargs))
                    return result.value if isinstance(result, Ran) else None

                run: Callable[..., Any] = arun
            else:

                @wraps(function)
                def run(*args: Any, **kwargs: Any) -> Any:
                    id_, payload = bind(args, kwargs)
                    result = self.run(id_, payload, lambda tx: function(tx, *args, **kwargs))
                    return result.value if isinstance(result, Ran) else None

            run.__signature__ = signature  # type: ignore[attr-defined]
            return run

        return decorate

    def purge(self, *, older_than: timedelta, batch: int = 1000) -> int:
        """Forget events processed longer ago than ``older_than``; returns how many.

        An event that arrives once more after that has its effect again: keep events for longer than SQS keeps
        messages (14 days at most) and than you wait before you send dead letters back.

        :param batch: rows of one transaction.
        """
        table = self._table
        mine = [table.c.consumer == self.consumer]
        before = self._now() - older_than
        return delete_in_batches(self._engine, table, mine, table.c.processed_at, before, batch)

    def _mark(self, connection: Any, event_id: str, digest: str) -> Watch | None:
        """The transaction that holds the event's mark, or ``None`` if the event was processed before."""
        executor = executor_of(connection)
        refuse_autocommit(executor.connection)
        fresh = insert_mark(
            executor,
            self._table,
            consumer=self.consumer,
            event_id=event_id,
            digest=digest,
            now=self._now(),
        )
        return Watch(executor.connection) if fresh else None

    def _alone(self, event_id: str) -> AbstractContextManager[None]:
        event = (id(self._engine), self._table.fullname, self.consumer, event_id)
        return alone(event, f"event {event_id!r} of {self.consumer!r}")

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)

    def _asynchronous(self) -> Any:
        if not is_async(self._engine):
            raise ConfigurationError(
                f"the inbox of {self.consumer!r} has no asynchronous engine: make it with one of "
                "sqlalchemy.ext.asyncio.create_async_engine, or use the methods without 'a'"
            )
        return self._engine

    def _goes_on(self, attempt: int, event_id: str, error: Exception) -> bool:
        if attempt >= self._attempts or not is_retryable(error):
            return False
        _, code = describe(error)
        self._notice("retried", TransactionRetried, event_id, attempt=attempt, code=code)
        logger.info("Transaction of %r is run again: %s", self.consumer, code, extra=_log_fields(event_id))
        return True

    def _count(self, event_id: str, result: InboxResult[T]) -> InboxResult[T]:
        if isinstance(result, Ran):
            self._notice("processed", EventProcessed, event_id)
        else:
            self._notice("skipped", EventSkipped, event_id)
            logger.info(
                "Event was processed by %r before: skipped", self.consumer, extra=_log_fields(event_id)
            )
        return result

    def _refused(self, event_id: str) -> None:
        self._notice("conflict", EventConflict, event_id)
        logger.error(
            "Event %r of %r came with another payload: refused",
            event_id,
            self.consumer,
            extra=_log_fields(event_id),
        )

    def _notice(self, name: str, event: type[InboxEvent], event_id: str, **fields: Any) -> None:
        with self._lock:
            self._counts[name] += 1
        if self.hooks.wants(event):
            job = current_job()
            self.hooks.emit(
                event(
                    queue_name=job.queue_name if job else "",
                    consumer=self.consumer,
                    event_id=event_id,
                    **fields,
                )
            )


def _check(_connection: Any, watch: Watch) -> None:
    watch.check()


def _pause(attempt: int) -> float:
    """Seconds before the next attempt: short, growing, and different for each of those who collided."""
    return random.uniform(0.005, 0.02 * 2 ** min(attempt, 5))  # noqa: S311


def _log_fields(event_id: str) -> dict[str, str]:
    return {"event_id": event_id}
