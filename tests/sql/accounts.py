"""The account of the tests: an event adds an amount to a balance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from sqs_workers.sql import expect_rows

metadata = sa.MetaData()
totals = sa.Table(
    "totals",
    metadata,
    sa.Column("account_id", sa.String(50), primary_key=True),
    sa.Column("amount", sa.Numeric(12, 2), nullable=False),
    mysql_engine="InnoDB",
)


def open_account(engine: sa.Engine, account: str = "alice") -> None:
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.delete(totals).where(totals.c.account_id == account))
        connection.execute(sa.insert(totals).values(account_id=account, amount=0))


def credit(amount: int, account: str = "alice") -> Callable[[Any], str]:
    """A handler that adds ``amount``, and refuses an account that is not there."""

    def handler(tx: Any) -> str:
        statement = (
            sa.update(totals).where(totals.c.account_id == account).values(amount=totals.c.amount + amount)
        )
        expect_rows(tx.execute(statement), 1)
        return f"credited {amount}"

    return handler


def balance(engine: sa.Engine, account: str = "alice") -> int:
    with engine.connect() as connection:
        return int(connection.scalar(sa.select(totals.c.amount).where(totals.c.account_id == account)))
