"""Which rows a relay may send, so that no other relay sends them meanwhile.

Order within a group of a FIFO queue rests on its first waiting row, its head: whoever holds that one holds the
group, for the later rows can be had only behind it.

Heads are looked for among the oldest rows. Where a long group fills all of those, the heads behind it are found
by a search of the whole table, which is given a tenth of the relay's time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

from typing_extensions import assert_never

from sqs_workers.clock import Clock
from sqs_workers.sql.connections import close_lost, open_beside_pool
from sqs_workers.sql.dialects import skips_locked_rows
from sqs_workers.sql.rows import (
    PENDING,
    REFUSED,
    ROW_COLUMNS,
    SENT,
    OutboxRow,
    Postponed,
    Refused,
    RowResult,
    Sent,
    from_row,
)
from sqs_workers.sql.sqla import sa

__all__ = ["Claim", "Claims", "LeaseClaims", "LockClaims", "make_claims"]

CANDIDATES = 8
SEARCH_SHARE = 10
SEARCHED = 1000


class Claim:
    """Rows that nobody else sends now, and what became of them.

    :ivar rows: in the order of their ids.
    :ivar results: id of the row -> result; rows without one stay as they are.
    """

    def __init__(self, rows: Sequence[OutboxRow]) -> None:
        self.rows = rows
        self.results: dict[int, RowResult] = {}


class Claims(Protocol):
    """Claims rows of one outbox, for one relay."""

    def open(self) -> Any:
        """Context manager that gives a :class:`Claim` and stores its results at the end of the block."""
        ...

    def close(self) -> None:
        """Give the connection back; :meth:`open` takes another one."""
        ...


def make_claims(engine: sa.Engine, table: sa.Table, clock: Clock, *, size: int, lease: float) -> Claims:
    """Row locks where the database can skip rows that others have locked, else a lease column."""
    with engine.connect() as connection:
        locks = skips_locked_rows(connection.dialect)
    if locks:
        return LockClaims(engine, table, clock, size)
    return LeaseClaims(engine, table, clock, size, lease)


class _Statements:
    """What both ways of claiming ask the database."""

    def __init__(self, engine: sa.Engine, table: sa.Table, clock: Clock, size: int) -> None:
        self._engine = engine
        self._table = table
        self._clock = clock
        self._size = size
        self._behind: list[int] = []
        self._next_search = clock.monotonic()
        self._columns = [table.c[name] for name in ROW_COLUMNS]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)

    def _due(self, now: datetime) -> Any:
        table = self._table
        return (table.c.state == PENDING) & (table.c.not_before.is_(None) | (table.c.not_before <= now))

    def _is_head(self) -> Any:
        """Condition of rows that may be sent before any other: those without order, and firsts of groups."""
        table, earlier = self._table, self._table.alias()
        blocked = sa.exists().where(
            earlier.c.queue_name == table.c.queue_name,
            earlier.c.group_id == table.c.group_id,
            earlier.c.state == PENDING,
            earlier.c.id < table.c.id,
        )
        return self._unordered() | ~blocked

    def _unordered(self) -> Any:
        return self._table.c.group_id.is_(None) | self._table.c.queue_name.not_like("%.fifo")

    def _heads(self, connection: sa.Connection, free: Any, *, thorough: bool = False) -> list[int]:
        """Rows to send next, more than are wanted, so that relays which look at the same moment differ.

        :param free: condition of rows that may be had now.
        :param thorough: search the whole table if need be, however short ago that was done.
        """
        table, wanted = self._table, self._size * CANDIDATES
        oldest = sa.select(table.c.id).where(free).order_by(table.c.id).limit(wanted).subquery()
        head = sa.case((self._is_head(), 1), else_=0)
        looked_at = connection.execute(
            sa.select(table.c.id, head).join_from(oldest, table, oldest.c.id == table.c.id)
        ).all()
        found = {id_ for id_, is_head in looked_at if is_head}
        if self._behind:
            known = table.c.id.in_(self._behind)
            self._behind = self._ids(connection, known & free & self._is_head(), wanted)
            found.update(self._behind)
        more = len(looked_at) == wanted and len(found) < self._size
        if more and (thorough or not found or self._clock.monotonic() >= self._next_search):
            self._search(connection, free, wanted)
            found.update(self._behind)
        return sorted(found)[:wanted]

    def _search(self, connection: sa.Connection, free: Any, wanted: int) -> None:
        """Look for heads behind rows that must wait; they are kept until they are sent."""
        started = self._clock.monotonic()
        heads: list[int] = []
        after = 0
        while not heads:
            firsts = self._firsts(connection, after)
            heads = self._ids(connection, self._table.c.id.in_(firsts) & free, wanted) if firsts else []
            if len(firsts) < SEARCHED:
                break
            # Of those that are not due there may be more than one look finds.
            after = firsts[-1]
        others = self._ids(connection, self._unordered() & free, wanted)
        self._behind = sorted({*heads, *others})[:wanted]
        finished = self._clock.monotonic()
        self._next_search = finished + SEARCH_SHARE * (finished - started)

    def _firsts(self, connection: sa.Connection, after: int) -> list[int]:
        """First rows of groups, due or not, with greater ids than ``after``.

        Not joined with the rest: planned from the statistics of an empty table, the groups would be made again
        for each row.
        """
        table, first = self._table, sa.func.min(self._table.c.id)
        statement = (
            sa.select(first)
            .where(table.c.state == PENDING, table.c.group_id.is_not(None))
            .group_by(table.c.queue_name, table.c.group_id)
            .having(first > after)
            .order_by(first)
            .limit(SEARCHED)
        )
        return list(connection.scalars(statement))

    def _ids(self, connection: sa.Connection, condition: Any, limit: int) -> list[int]:
        by_id = self._table.c.id
        return list(connection.scalars(sa.select(by_id).where(condition).order_by(by_id).limit(limit)))

    def _followers(self, connection: sa.Connection, heads: Sequence[OutboxRow], ready: Any) -> list[int]:
        """Rows behind ``heads`` in their groups, as many as there is room for; none behind one that must wait.

        :param ready: condition of rows that may be sent now.
        """
        table, room = self._table, self._size - len(heads)
        groups = [
            (table.c.queue_name == row.queue_name)
            & (table.c.group_id == row.message.group_id)
            & (table.c.id > row.id)
            for row in heads
            if row.order_key is not None
        ]
        if not groups or room <= 0:
            return []
        behind = connection.execute(
            sa.select(table.c.id, table.c.queue_name, table.c.group_id, sa.case((ready, 1), else_=0))
            .where(table.c.state == PENDING, sa.or_(*groups))
            .order_by(table.c.id)
            .limit(room)
        )
        found: list[int] = []
        waiting: set[tuple[str, str]] = set()
        for id_, queue_name, group_id, is_ready in behind:
            if is_ready and (queue_name, group_id) not in waiting:
                found.append(id_)
            else:
                waiting.add((queue_name, group_id))
        return found

    def _store(
        self, connection: sa.Connection, results: Mapping[int, RowResult], condition: Any = None
    ) -> None:
        table, now = self._table, self._now()
        released: dict[str, Any] = {"lease": None, "leased_until": None}
        where = sa.true() if condition is None else condition
        sent = {id_: result.message_id for id_, result in results.items() if isinstance(result, Sent)}
        if sent:
            connection.execute(
                sa.update(table)
                .where(table.c.id.in_(list(sent)), where)
                .values(
                    state=SENT,
                    settled_at=now,
                    message_id=sa.case(sent, value=table.c.id),
                    reason=None,
                    **released,
                )
            )
        for id_, result in results.items():
            match result:
                case Sent():
                    continue
                case Postponed(delay, reason):
                    values: dict[str, Any] = {
                        "not_before": now + timedelta(seconds=delay),
                        "attempts": table.c.attempts + 1,
                        "reason": reason,
                    }
                case Refused(reason):
                    values = {"state": REFUSED, "settled_at": now, "reason": reason}
                case _:
                    assert_never(result)
            connection.execute(sa.update(table).where(table.c.id == id_, where).values(**values, **released))


class LockClaims(_Statements):
    """Row locks, held until the results are stored: a relay that dies gives its rows back at once."""

    _connection: sa.Connection | None = None

    @contextmanager
    def open(self) -> Iterator[Claim]:
        if self._connection is None:
            # Under REPEATABLE READ the condition on earlier rows would be read from an old snapshot.
            # Beside the pool, which may be small and is not the relay's alone.
            self._connection = open_beside_pool(self._engine, "READ COMMITTED")
        connection = self._connection
        with connection.begin():
            claim = Claim(self._lock(connection))
            yield claim
            self._store(connection, claim.results)

    def _lock(self, connection: sa.Connection) -> list[OutboxRow]:
        now = self._now()
        for thorough in (False, True):
            candidates = self._heads(connection, self._due(now), thorough=thorough)
            rows = self._lock_rows(connection, candidates, self._size, skip_locked=True)
            if rows or not candidates:
                break
        followers = self._followers(connection, rows, self._due(now))
        # Whoever holds one of them is waited for: skipping it would break the order.
        rows += self._lock_rows(connection, followers, len(followers))
        return sorted(rows, key=lambda row: row.id)

    def _lock_rows(
        self, connection: sa.Connection, ids: Sequence[int], limit: int, *, skip_locked: bool = False
    ) -> list[OutboxRow]:
        """Lock rows by their key alone: a search that locks would deadlock with other relays on MySQL."""
        if not ids:
            return []
        table = self._table
        # Not by the index of states, which a planner with the statistics of an empty table takes for short.
        pending = sa.func.coalesce(table.c.state, "") == PENDING
        statement = (
            sa.select(*self._columns)
            .where(table.c.id.in_(ids), pending)
            .order_by(table.c.id)
            .limit(limit)
            .with_for_update(skip_locked=skip_locked)
        )
        return [from_row(row) for row in connection.execute(statement)]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            close_lost(connection)


class LeaseClaims(_Statements):
    """A lease in the rows: those of a relay that dies come back when its lease ends.

    :param lease: seconds.
    """

    def __init__(self, engine: sa.Engine, table: sa.Table, clock: Clock, size: int, lease: float) -> None:
        super().__init__(engine, table, clock, size)
        self._lease = lease

    @contextmanager
    def open(self) -> Iterator[Claim]:
        token = str(uuid.uuid4())
        claim = Claim(self._take(token))
        yield claim
        if claim.rows:
            with self._engine.begin() as connection:
                # By their ids: there is no index of leases.
                claimed = self._table.c.id.in_([row.id for row in claim.rows])
                mine = claimed & (self._table.c.lease == token)
                self._store(connection, claim.results, mine)
                connection.execute(sa.update(self._table).where(mine).values(lease=None, leased_until=None))

    def _take(self, token: str) -> list[OutboxRow]:
        table, now = self._table, self._now()
        free = table.c.leased_until.is_(None) | (table.c.leased_until <= now)
        with self._engine.connect() as connection:
            heads = self._heads(connection, self._due(now) & free)
        rows = self._lease_rows(heads[: self._size], free, token, now)
        with self._engine.connect() as connection:
            followers = self._followers(connection, rows, self._due(now) & free)
        rows += self._lease_rows(followers, free, token, now)
        return sorted(rows, key=lambda row: row.id)

    def _lease_rows(self, ids: Sequence[int], free: Any, token: str, now: datetime) -> list[OutboxRow]:
        if not ids:
            return []
        table = self._table
        with self._engine.begin() as connection:
            chosen = table.c.id.in_(ids)
            connection.execute(
                sa.update(table)
                .where(chosen, free, table.c.state == PENDING)
                .values(lease=token, leased_until=now + timedelta(seconds=self._lease))
            )
            rows = connection.execute(sa.select(*self._columns).where(chosen, table.c.lease == token))
            return [from_row(row) for row in rows]

    def close(self) -> None:
        """Nothing is held between two claims."""
