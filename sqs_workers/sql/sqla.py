"""SQLAlchemy, or an error that says how to install it."""

from __future__ import annotations

from sqs_workers.exceptions import MissingExtraError

try:
    import sqlalchemy as sa
    from sqlalchemy import schema as sa_schema
    from sqlalchemy.dialects import mysql, postgresql, sqlite
except ModuleNotFoundError as error:
    if error.name != "sqlalchemy":
        raise
    raise MissingExtraError(
        "sqs_workers.sql needs SQLAlchemy, which is not installed: pip install 'sqs-workers[sql]', "
        "or 'sqs-workers[postgres]' or 'sqs-workers[mysql]' with the driver"
    ) from None

__all__ = ["mysql", "postgresql", "sa", "sa_schema", "sqlite"]
