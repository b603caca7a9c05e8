"""Exactly one effect: inbox, outbox with its relay, table sink and idempotent calls.

Needs SQLAlchemy 2 (``pip install 'sqs-workers[sql]'``, or ``[postgres]`` or ``[mysql]`` with the driver).
``sqs_workers.sql.errors`` works without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.sql.engines import create_engine
    from sqs_workers.sql.errors import (
        DatabaseError,
        DatabaseUnavailable,
        PayloadConflict,
        RowCountError,
        RowRefused,
        is_temporary,
    )
    from sqs_workers.sql.hashing import NO_PAYLOAD
    from sqs_workers.sql.idempotent import (
        NOT_FOUND,
        CallInProgress,
        CallRefused,
        IdempotentCall,
        OutcomeUnknown,
    )
    from sqs_workers.sql.inbox import Inbox, Ran, Skipped, expect_rows
    from sqs_workers.sql.outbox import Outbox
    from sqs_workers.sql.relay import Relay
    from sqs_workers.sql.sink import TableSink
    from sqs_workers.sql.slot_lease import DatabaseLease
    from sqs_workers.sql.tables import Tables, create_tables, ddl, metadata

_MODULES = {
    "engines": ("create_engine",),
    "errors": (
        "DatabaseError",
        "DatabaseUnavailable",
        "PayloadConflict",
        "RowCountError",
        "RowRefused",
        "is_temporary",
    ),
    "hashing": ("NO_PAYLOAD",),
    "idempotent": ("NOT_FOUND", "CallInProgress", "CallRefused", "IdempotentCall", "OutcomeUnknown"),
    "inbox": ("Inbox", "Ran", "Skipped", "expect_rows"),
    "outbox": ("Outbox",),
    "relay": ("Relay",),
    "sink": ("TableSink",),
    "slot_lease": ("DatabaseLease",),
    "tables": ("Tables", "create_tables", "ddl", "metadata"),
}
_OWNERS = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "NOT_FOUND",
    "NO_PAYLOAD",
    "CallInProgress",
    "CallRefused",
    "DatabaseError",
    "DatabaseLease",
    "DatabaseUnavailable",
    "IdempotentCall",
    "Inbox",
    "Outbox",
    "OutcomeUnknown",
    "PayloadConflict",
    "Ran",
    "Relay",
    "RowCountError",
    "RowRefused",
    "Skipped",
    "TableSink",
    "Tables",
    "create_engine",
    "create_tables",
    "ddl",
    "expect_rows",
    "is_temporary",
    "metadata",
]


def __getattr__(name: str) -> Any:
    # Late, so that the table of error codes can be had without SQLAlchemy.
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)
