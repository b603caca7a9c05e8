"""Calls to others who cannot take part in a transaction: payments, mails, other services.

::

    charge = IdempotentCall(engine, "charge", lookup=ask_the_bank)
    answer = charge.run(f"order-{order_id}", {"amount": 5}, lambda key: bank.charge(5, idempotency_key=key))

============  =========================================================  ================================
state         means                                                      the next :meth:`IdempotentCall.run`
============  =========================================================  ================================
(no row)      never asked                                                stores the key, then calls
``started``   the other side may have done it: the call runs now, or     while its lease runs: raises
              its answer was lost                                        ``CallInProgress``. Then asks
                                                                         ``lookup``, or calls again with the
                                                                         same key, or gives up: ``unknown``
``done``      the answer is stored                                       returns it
``refused``   the other side said a definite no                          raises ``CallRefused``
``unknown``   nobody knows: for a person to settle                       raises ``OutcomeUnknown``
============  =========================================================  ================================
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError, PermanentError, SQSError
from sqs_workers.sql import faults
from sqs_workers.sql.connections import Executor, executor_of
from sqs_workers.sql.dialects import insert_if_absent
from sqs_workers.sql.errors import PayloadConflict
from sqs_workers.sql.hashing import payload_hash, same_payload, stored_id
from sqs_workers.sql.rows import as_utc
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.steps import Ask, InTransaction, Steps, atake, take
from sqs_workers.sql.tables import DEFAULT_TABLES, Tables
from sqs_workers.sql.wholeness import refuse_autocommit

__all__ = [
    "NOT_FOUND",
    "CallInProgress",
    "CallRefused",
    "IdempotentCall",
    "OpenCall",
    "OutcomeUnknown",
]

STARTED = "started"
DONE = "done"
REFUSED = "refused"
UNKNOWN = "unknown"


class _NotFound:
    """What ``lookup`` answers when the other side has never seen the key."""

    def __repr__(self) -> str:
        return "NOT_FOUND"


NOT_FOUND = _NotFound()


class CallInProgress(SQSError):
    """Another worker makes this call now, or did a moment ago: retry later."""


class CallRefused(PermanentError):
    """The other side has refused this call for good."""


class OutcomeUnknown(PermanentError):
    """Nobody knows whether the call had its effect: see :meth:`IdempotentCall.unknown`."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call whose outcome a person has to find out.

    :ivar attempts: how often it was made.
    :ivar since: when it was made first.
    """

    operation: str
    key: str
    attempts: int
    since: datetime


@dataclass(frozen=True, slots=True)
class _Mine:
    """The row is ours to go on with: ``in_doubt`` if an earlier attempt may have had its effect."""

    owner: str
    in_doubt: bool
    attempts: int


class IdempotentCall:
    """One kind of call to another system, each key of which has its effect once.

    :param engine: a SQLAlchemy engine, an asynchronous one (for the methods whose names begin with ``a``), or
        a callable that opens a driver's connection. The transactions are its own: never run it on the
        connection of an inbox.
    :param operation: name of the kind of call, 1 to 100 characters.
    :param lookup: asks the other side for the answer to a key; returns :data:`NOT_FOUND` if it never saw the
        key, and raises if it does not know.
    :param repeatable: the other side honours the key, so that calling again is safe; ``True`` by default.
        With ``False`` and without ``lookup`` a call in doubt becomes ``unknown`` at once.
    :param refused: exception classes by which the call says a definite no.
    :param lease: seconds that one attempt may take, by the clocks of the workers; 300 by default. Longer than
        the timeout of the call and the difference of two clocks together.
    :param max_attempts: attempts in doubt before the outcome counts as unknown; 5 by default.
    """

    def __init__(
        self,
        engine: Any,
        operation: str,
        *,
        lookup: Callable[[str], Any] | None = None,
        repeatable: bool = True,
        refused: tuple[type[Exception], ...] = (),
        lease: float = 300.0,
        max_attempts: int = 5,
        tables: Tables = DEFAULT_TABLES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not operation or len(operation) > 100 or operation != operation.strip():
            raise ConfigurationError(
                f"operation must be 1 to 100 characters without blanks around, not {operation!r}"
            )
        if lease <= 0 or max_attempts < 1:
            raise ConfigurationError(
                f"lease must be above 0 and max_attempts 1 or more, not {lease!r}, {max_attempts!r}"
            )
        self.operation = operation
        self._engine = engine
        self._lookup = lookup
        self._repeatable = repeatable
        self._refused = refused
        self._lease = lease
        self._max_attempts = max_attempts
        self._table = tables.idempotent_calls
        self._clock = clock

    def __repr__(self) -> str:
        return f"<IdempotentCall {self.operation}>"

    def run(self, key: str, request: object, call: Callable[[str], Any]) -> Any:
        """Answer of ``call(key)``: made now, or stored from the time when it was made.

        :param key: stable for the business operation, not for the attempt: an order's id, an event's.
        :param request: compared with that of the first time, by hash; ``NO_PAYLOAD`` leaves it out.
        :param call: gets ``key`` for the other side; its answer must fit JSON, and from the second time on it
            is what JSON makes of it: tuples are lists, keys are strings.
        :raises PayloadConflict: the key was used with another request; permanent.
        :raises CallInProgress: another worker makes the call.
        :raises CallRefused: the other side refused for good; permanent.
        :raises OutcomeUnknown: see the table above; permanent.
        :raises Exception: whatever ``call`` raises: the outcome is in doubt, and the next run finds it out.
        """
        return take(self._engine, self._run(key, request, call))

    async def arun(self, key: str, request: object, call: Callable[[str], Awaitable[Any]]) -> Any:
        """:meth:`run` for an asynchronous engine and a coroutine function; ``lookup`` may be one, too.

        A call that is cancelled is in doubt, and nobody makes it again before its lease is over.
        """
        return await atake(self._engine, self._run(key, request, call))

    def unknown(self, *, older_than: timedelta = timedelta(0), limit: int = 100) -> list[OpenCall]:
        """Calls for reconciliation: ``unknown`` ones, and ``started`` ones whose lease is over.

        :param older_than: leave out those that changed more recently.
        """
        found: list[OpenCall] = take(self._engine, self._unknown(older_than, limit))
        return found

    async def aunknown(self, *, older_than: timedelta = timedelta(0), limit: int = 100) -> list[OpenCall]:
        """:meth:`unknown` for an asynchronous engine."""
        found: list[OpenCall] = await atake(self._engine, self._unknown(older_than, limit))
        return found

    def settle(self, key: str, answer: Any) -> None:
        """Store what a person found out: the call has had its effect, and this was the answer."""
        take(self._engine, self._settle(key, DONE, _dump(answer)))

    async def asettle(self, key: str, answer: Any) -> None:
        """:meth:`settle` for an asynchronous engine."""
        await atake(self._engine, self._settle(key, DONE, _dump(answer)))

    def settle_refused(self, key: str) -> None:
        """Store what a person found out: the call had no effect and is not to be made again."""
        take(self._engine, self._settle(key, REFUSED, json.dumps("settled by hand")))

    async def asettle_refused(self, key: str) -> None:
        """:meth:`settle_refused` for an asynchronous engine."""
        await atake(self._engine, self._settle(key, REFUSED, json.dumps("settled by hand")))

    def forget(self, key: str) -> None:
        """Store what a person found out: the call had no effect; the next run makes it."""
        take(self._engine, self._forget(key))

    async def aforget(self, key: str) -> None:
        """:meth:`forget` for an asynchronous engine."""
        await atake(self._engine, self._forget(key))

    def _run(self, key: str, request: object, call: Callable[[str], Any]) -> Steps:
        key_, digest = stored_id(key), payload_hash(request)
        found = yield InTransaction(
            f"starting a call of {self.operation!r}", lambda connection: self._begin(connection, key_, digest)
        )
        if not isinstance(found, _Mine):
            return found["answer"]
        if found.in_doubt:
            answer = yield from self._find_out(key, key_, found)
            if answer is not NOT_FOUND:
                return answer
        faults.AFTER_START.reach()
        try:
            answer = yield Ask(call, key)
        except self._refused as error:
            yield from self._end(key_, found.owner, REFUSED, json.dumps(type(error).__name__))
            raise CallRefused(self._say(key_, f"was refused: {type(error).__name__}")) from None
        except Exception:
            # In doubt, and free for the next attempt at once.
            yield from self._end(key_, found.owner, STARTED, None)
            raise
        faults.AFTER_CALL.reach()
        try:
            stored = _dump(answer)
        except ConfigurationError:
            yield from self._end(key_, found.owner, STARTED, None)
            raise
        yield from self._end(key_, found.owner, DONE, stored)
        return answer

    def _unknown(self, older_than: timedelta, limit: int) -> Steps:
        table, now = self._table, self._now()
        over = (table.c.state == STARTED) & (table.c.leased_until <= now)
        statement = (
            sa.select(table.c.call_key, table.c.attempts, table.c.created_at)
            .where(
                table.c.operation == self.operation,
                (table.c.state == UNKNOWN) | over,
                table.c.updated_at <= now - older_than,
            )
            .order_by(table.c.created_at)
            .limit(limit)
        )
        _, rows = yield from self._execute(statement)
        return [OpenCall(self.operation, key, attempts, as_utc(since)) for key, attempts, since in rows]

    def _forget(self, key: str) -> Steps:
        row = self._row(stored_id(key))
        yield from self._execute(sa.delete(self._table).where(row, self._table.c.state != DONE))

    def _begin(self, connection: Any, key: str, digest: str) -> _Mine | Mapping[str, Any]:
        """Make the row ours, or find the answer; committed before anything is asked of the other side."""
        owner, now = str(uuid.uuid4()), self._now()
        until = now + timedelta(seconds=self._lease)
        fresh = {
            "operation": self.operation,
            "call_key": key,
            "state": STARTED,
            "request_hash": digest,
            "attempts": 1,
            "owner": owner,
            "leased_until": until,
            "created_at": now,
            "updated_at": now,
        }
        executor = executor_of(connection)
        refuse_autocommit(executor.connection)
        if insert_if_absent(executor, self._table, fresh):
            return _Mine(owner, in_doubt=False, attempts=1)
        return self._take_over(executor, key, digest, owner)

    def _take_over(self, executor: Executor, key: str, digest: str, owner: str) -> _Mine | Mapping[str, Any]:
        table, now = self._table, self._now()
        statement = sa.select(
            table.c.state, table.c.request_hash, table.c.answer, table.c.attempts, table.c.leased_until
        ).where(self._row(key))
        if executor.dialect_name != "sqlite":
            statement = statement.with_for_update()
        _, rows = executor.execute(statement)
        if not rows:
            raise CallInProgress(self._say(key, "was removed at this moment: retry"))
        state, stored, answer, attempts, leased_until = rows[0]
        if not same_payload(stored, digest):
            raise PayloadConflict(self.operation, key)
        if state == DONE:
            return {"answer": json.loads(answer)}
        if state == REFUSED:
            raise CallRefused(self._say(key, f"was refused: {json.loads(answer)}"))
        if state == UNKNOWN:
            raise OutcomeUnknown(self._say(key, _SETTLE))
        if leased_until is not None and as_utc(leased_until) > now:
            raise CallInProgress(self._say(key, "is being made by another worker: retry later"))
        taken = {
            "attempts": attempts + 1,
            "owner": owner,
            "leased_until": now + timedelta(seconds=self._lease),
            "updated_at": now,
        }
        executor.execute(sa.update(table).where(self._row(key)).values(**taken))
        return _Mine(owner, in_doubt=True, attempts=attempts + 1)

    def _find_out(self, key: str, stored_key: str, mine: _Mine) -> Steps:
        """Answer to a call in doubt, or ``NOT_FOUND`` if it is to be made (again)."""
        if self._lookup is not None:
            try:
                answer = yield Ask(self._lookup, key)
                stored = None if answer is NOT_FOUND else _dump(answer)
            except Exception:
                yield from self._give_up_or_wait(stored_key, mine)
                raise
            if stored is not None:
                yield from self._end(stored_key, mine.owner, DONE, stored)
            return answer
        if self._repeatable and mine.attempts <= self._max_attempts:
            return NOT_FOUND
        yield from self._end(stored_key, mine.owner, UNKNOWN, None)
        raise OutcomeUnknown(self._say(stored_key, _SETTLE))

    def _give_up_or_wait(self, key: str, mine: _Mine) -> Steps:
        if mine.attempts > self._max_attempts:
            yield from self._end(key, mine.owner, UNKNOWN, None)
            raise OutcomeUnknown(self._say(key, _SETTLE)) from None
        yield from self._end(key, mine.owner, STARTED, None)

    def _end(self, key: str, owner: str, state: str, answer: str | None) -> Steps:
        now = self._now()
        yield from self._execute(
            sa.update(self._table)
            # An attempt that outlived its lease must not overwrite what its successor found.
            .where(self._row(key), self._table.c.owner == owner, self._table.c.state == STARTED)
            .values(state=state, answer=answer, leased_until=now, updated_at=now)
        )

    def _settle(self, key: str, state: str, answer: str) -> Steps:
        touched, _ = yield from self._execute(
            sa.update(self._table)
            .where(self._row(stored_id(key)), self._table.c.state.in_((STARTED, UNKNOWN)))
            .values(state=state, answer=answer, updated_at=self._now())
        )
        if touched != 1:
            raise ConfigurationError(self._say(stored_id(key), "is not open: nothing was changed"))

    def _row(self, key: str) -> Any:
        return (self._table.c.operation == self.operation) & (self._table.c.call_key == key)

    def _execute(self, statement: Any) -> Generator[Any, Any, tuple[int, Sequence[Sequence[Any]]]]:
        touched: tuple[int, Sequence[Sequence[Any]]] = yield InTransaction(
            f"the table of calls of {self.operation!r}",
            lambda connection: executor_of(connection).execute(statement),
        )
        return touched

    def _say(self, key: str, what: str) -> str:
        return f"call {self.operation!r} with key {key!r} {what}"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)


_SETTLE = (
    "may or may not have had its effect: ask the other side, then use settle(), settle_refused() or forget()"
)


def _dump(answer: Any) -> str:
    try:
        return json.dumps(answer)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"the answer of a call must fit JSON to be stored; this one holds a {type(answer).__name__} or "
            "something in it that does not"
        ) from None
