"""Effects in a database, each through an inbox; also what the mapped function runs."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import sqlalchemy as sa

from sqs_workers import SQSEnv
from sqs_workers.aws import lambda_handler
from sqs_workers.envelopes import IncomingEvent
from sqs_workers.sql import Inbox, create_engine, create_tables

__all__ = ["Effects", "numbers", "take_events"]

metadata = sa.MetaData()
effects = sa.Table(
    "effects",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("consumer", sa.String(50), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
)


class Effects:
    """A database of SQLite with the effects of one or more consumers."""

    def __init__(self, path: str) -> None:
        self.engine = create_engine(f"sqlite:///{path}")
        create_tables(self.engine)
        metadata.create_all(self.engine)

    def inbox(self, consumer: str) -> Inbox:
        return Inbox(self.engine, consumer=consumer)

    def counts(self, consumer: str) -> Counter[int]:
        statement = sa.select(effects.c.number).where(effects.c.consumer == consumer)
        with self.engine.connect() as connection:
            return Counter(connection.execute(statement).scalars())


def numbers(count: int) -> Counter[int]:
    """Each number once."""
    return Counter(range(count))


def add(tx: Any, consumer: str, number: int) -> None:
    tx.execute(sa.insert(effects).values(consumer=consumer, number=number))


def take_events(queue: Any, inbox: Inbox) -> None:
    """Let ``queue`` write the number of each event, once."""

    @queue.events().on("number.drawn", source="lottery", inbox=inbox)
    def take(tx: Any, event: IncomingEvent[Any]) -> None:
        add(tx, inbox.consumer, event.data["number"])


if "EFFECTS_DATABASE" in os.environ:
    mapped = SQSEnv(codec="json").queue("mapped", envelope="auto")
    take_events(mapped, Effects(os.environ["EFFECTS_DATABASE"]).inbox("mapped"))
    handler = lambda_handler(mapped)
