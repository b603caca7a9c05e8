"""An event's mark, its handler and its rows in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqs_workers.app.table_sink import RowsToTable
from sqs_workers.exceptions import PermanentError, WorkerError
from sqs_workers.sql.errors import translate
from sqs_workers.sql.inbox import Inbox as SqlInbox
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.tables import Tables

if TYPE_CHECKING:
    from sqs_workers.app.spec_resources import Inbox as InboxSpec
    from sqs_workers.app.task_handler import TaskHandler
    from sqs_workers.hooks import HookRegistry
    from sqs_workers.messages import Message

__all__ = ["InboxStep", "open_inbox"]

_OF_MESSAGE = "$message_id"


class InboxStep:
    """Runs a task's handler once for each event.

    :param event_id: where in the item the id of the event stands.
    """

    def __init__(self, name: str, inbox: SqlInbox, event_id: str) -> None:
        self._name = name
        self._inbox = inbox
        self._event_id = event_id

    def run(self, handler: TaskHandler, message: Message, item: Any) -> None:
        """Returns when the transaction is committed, or was by an earlier attempt.

        :raises PermanentError: the item has no id, or another payload than the first time.
        """

        def in_transaction(connection: Any) -> None:
            entry = handler.call(message, item, connection)
            if not entry.rows:
                return
            others = []
            for outlet in handler.outlets:
                if isinstance(outlet.sink, RowsToTable):
                    outlet.sink.write_in(connection, entry)
                else:
                    others.append(outlet)
            # Before the commit: a row that is sent twice after a crash has the same idempotency key; one that
            # was never sent would be lost.
            for outlet in others:
                outlet.submit(entry).result()

        self._inbox.run(self._id_of(message, item), item, in_transaction)

    def _id_of(self, message: Message, item: Any) -> str:
        if self._event_id == _OF_MESSAGE:
            return message.message_id
        found = item
        for part in self._event_id.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is None or isinstance(found, (dict, list)):
            raise PermanentError(f"the item has no id under {self._event_id!r}, as inbox {self._name} needs")
        return str(found)


def open_inbox(name: str, spec: InboxSpec, engine: sa.Engine, hooks: HookRegistry) -> SqlInbox:
    """The inbox of a file; its table is created if the file says so.

    :raises WorkerError: the table is missing.
    :raises DatabaseError: the database failed.
    """
    tables = Tables(
        processed_events=spec.table,
        outbox_messages="-outbox",
        idempotent_calls="-calls",
        schedule_slots="-slots",
    )
    try:
        if spec.create:
            tables.processed_events.create(engine, checkfirst=True)
        exists = sa.inspect(engine).has_table(spec.table)
    except sa.exc.SQLAlchemyError as error:
        raise translate(error, f"looking for the table of inbox {name!r}") from None
    if not exists:
        raise WorkerError(
            f"inbox {name!r}: there is no table {spec.table!r}; write `create: true`, or create it with "
            "sqs_workers.sql.tables.ddl()"
        )
    return SqlInbox(engine, consumer=spec.consumer, tables=tables, hooks=hooks)
