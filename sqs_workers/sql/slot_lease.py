"""A lease in the database: which slot of a schedule was the last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.periodic import SlotClaim
from sqs_workers.sql.errors import translated
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.tables import DEFAULT_TABLES, Tables

__all__ = ["DatabaseLease"]


class DatabaseLease:
    """One row a schedule, with the slot that was the last. Beats that share it send a slot once together.

    A slot is won by the beat whose ``UPDATE ... WHERE last_slot = ...`` finds the row; the others wait for its
    transaction and then find it no more.

    :param engine: a synchronous SQLAlchemy engine.
    :param name: beats with the same name share their schedules; 100 characters at most.
    :param tables: where the rows are kept.
    :raises ConfigurationError: the engine is none, or the name is empty or too long.
    """

    def __init__(
        self,
        engine: Any,
        name: str = "beat",
        *,
        tables: Tables = DEFAULT_TABLES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(engine, sa.Engine):
            raise ConfigurationError("a lease needs a synchronous SQLAlchemy engine")
        if not 1 <= len(name) <= 100:
            raise ConfigurationError(f"the name of a lease has 1 to 100 characters, not {len(name)}")
        self.name = name
        self._engine = engine
        self._table = tables.schedule_slots
        self._clock = clock
        self._mine = (self._table.c.lease == name) & (self._table.c.schedule == sa.bindparam("of_schedule"))
        self._query = sa.select(self._table.c.last_slot).where(self._mine)

    def __repr__(self) -> str:
        return f"DatabaseLease({self.name!r})"

    def last_slot(self, schedule: str, now: int) -> int:
        """The last slot of a schedule; ``now`` from the first question on, if there was none.

        :raises DatabaseError: the database failed.
        """
        with translated(f"reading the last slot of schedule {schedule!r}"):
            found = self._read(schedule)
            if found is None:
                self._insert(schedule, now)
                found = self._read(schedule)
        return now if found is None else int(found)

    def _read(self, schedule: str) -> int | None:
        with self._engine.connect() as connection:
            found: int | None = connection.scalar(self._query, {"of_schedule": schedule})
            return found

    def _insert(self, schedule: str, now: int) -> None:
        row = {"lease": self.name, "schedule": schedule, "last_slot": now, "claimed_at": self._now()}
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(self._table).values(**row))
        except sa.exc.IntegrityError:
            # Another beat was faster: its answer counts.
            return

    @contextmanager
    def claim(self, schedule: str, previous: int, slot: int) -> Iterator[SlotClaim]:
        """Move a schedule from ``previous`` on to ``slot``, if it is still there.

        :raises DatabaseError: the database failed.
        """
        with self._engine.begin() as connection:
            with translated(f"claiming a slot of schedule {schedule!r}"):
                won = self._move(connection, schedule, previous, slot)
            yield SlotClaim(won, connection)

    def give_back(self, schedule: str, slot: int, previous: int) -> None:
        """Undo a claim of which nothing came, if nobody has moved on since.

        :raises DatabaseError: the database failed.
        """
        with translated(f"giving back a slot of schedule {schedule!r}"), self._engine.begin() as connection:
            self._move(connection, schedule, slot, previous)

    def _move(self, connection: sa.Connection, schedule: str, previous: int, slot: int) -> bool:
        statement = (
            sa.update(self._table)
            .where(self._mine, self._table.c.last_slot == previous)
            .values(last_slot=slot, claimed_at=self._now())
        )
        return connection.execute(statement, {"of_schedule": schedule}).rowcount == 1

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)
