"""``check --connect``: whether what the file names is there, and fits.

Looks only: nothing is received, sent or written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqs_workers.app.connections import Connections
from sqs_workers.app.spec_resources import (
    Inbox,
    Mysql,
    MysqlTableSink,
    Postgres,
    PostgresTableSink,
    Sqlite,
    SqsQueue,
    SqsSink,
    TableSinkSpec,
)
from sqs_workers.exceptions import SQSError
from sqs_workers.limits import DEFAULT_VISIBILITY_TIMEOUT
from sqs_workers.transport import ErrorKind, classify, error_code

if TYPE_CHECKING:
    from sqs_workers.app.spec import App, Task

__all__ = ["Finding", "check_connections"]

_BOGUS_RECEIPT = "AQEBcheck"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one resource.

    :ivar level: ``ok``, ``warning`` (it works, perhaps not as meant) or ``error``.
    """

    level: Literal["ok", "warning", "error"]
    resource: str
    message: str
    hint: str = ""


def check_connections(app: App, path: Path) -> list[Finding]:
    """Ask SQS and the databases; one finding or several for each resource."""
    connections = Connections(app, path.resolve().parent)
    found: list[Finding] = []
    broken: set[str] = set()
    try:
        for name, resource in app.resources.items():
            if isinstance(resource, (Mysql, Postgres, Sqlite)):
                findings = list(_database(name, connections))
                if any(finding.level == "error" for finding in findings):
                    broken.add(name)
                found += findings
        for name, resource in app.resources.items():
            if isinstance(resource, (SqsQueue, SqsSink)):
                tasks = [task for task in app.tasks if task.source == name]
                found += _queue(name, resource, tasks, connections)
            elif isinstance(resource, (TableSinkSpec, MysqlTableSink, PostgresTableSink)):
                if resource.connector not in broken:
                    found += _table(name, resource, connections)
            elif isinstance(resource, Inbox) and resource.connector not in broken:
                found += _inbox(name, resource, connections)
    finally:
        connections.close()
    return found


def _queue(
    name: str, spec: SqsQueue | SqsSink, tasks: list[Task], connections: Connections
) -> Iterator[Finding]:
    try:
        url = connections.queue_url(spec)
        attributes = connections.transport(spec.connector).get_queue_attributes(url, ["All"])
    except Exception as error:  # noqa: BLE001 - told as a finding
        yield Finding("error", name, *_why(error))
        return
    yield Finding("ok", name, "the queue is there, and its attributes may be read")
    if not isinstance(spec, SqsQueue) or not tasks:
        return
    yield from _permissions(name, spec, url, connections)
    for task in tasks:
        yield from _timings(name, spec, task, attributes)
        yield from _redrive(name, spec, task, attributes, connections)


def _why(error: Exception) -> tuple[str, str]:
    if isinstance(error, SQSError):
        return str(error), ""
    code = error_code(error)
    match classify(error):
        case ErrorKind.MISSING:
            return f"the queue does not exist ({code})", "check url or name, and the region"
        case ErrorKind.DENIED:
            return f"these credentials may not use the queue ({code})", "docs/deploying.md lists the actions"
        case ErrorKind.CREDENTIALS:
            return f"credentials are missing, wrong or expired ({code})", ""
        case ErrorKind.NETWORK:
            return f"the endpoint does not answer ({code})", "check the network, endpoint_url and the region"
        case _:
            return f"SQS refused: {code}", ""


def _permissions(name: str, spec: SqsQueue, url: str, connections: Connections) -> Iterator[Finding]:
    """SQS looks at permissions before it looks at the receipt handle, and nothing has this one."""
    transport = connections.transport(spec.connector)
    calls: dict[str, Callable[[], None]] = {
        "sqs:DeleteMessage": lambda: transport.delete(url, _BOGUS_RECEIPT),
        "sqs:ChangeMessageVisibility": lambda: transport.change_visibility(url, _BOGUS_RECEIPT, 0),
    }
    for action, call in calls.items():
        try:
            call()
        except Exception as error:  # noqa: BLE001 - told as a finding
            if classify(error) is ErrorKind.DENIED:
                yield Finding("error", name, f"no permission for {action} ({error_code(error)})", "allow it")


def _timings(name: str, spec: SqsQueue, task: Task, attributes: dict[str, str]) -> Iterator[Finding]:
    own = int(attributes.get("VisibilityTimeout", DEFAULT_VISIBILITY_TIMEOUT))
    hidden = own if spec.visibility_timeout is None else spec.visibility_timeout
    interval = spec.heartbeat_interval_s
    if interval and interval >= hidden:
        yield Finding(
            "error",
            name,
            f"heartbeat_interval_s {interval:g} is not below the visibility timeout of {hidden} s: messages "
            "come back before they are extended",
            f"write visibility_timeout above {interval:g}, or an interval of {max(1, hidden // 3)}",
        )
    if interval == 0 and (task.timeout_s is None or task.timeout_s >= hidden):
        limit = "no timeout_s" if task.timeout_s is None else f"a timeout_s of {task.timeout_s:g}"
        yield Finding(
            "error",
            name,
            f"without a heartbeat, and with {limit}, a handler may outlive the visibility timeout of "
            f"{hidden} s",
            "leave heartbeat_interval_s out, or make timeout_s smaller",
        )


def _redrive(
    name: str, spec: SqsQueue, task: Task, attributes: dict[str, str], connections: Connections
) -> Iterator[Finding]:
    policy: dict[str, Any] = json.loads(attributes.get("RedrivePolicy") or "{}")
    if not policy:
        if spec.on_fail in ("leave", "release"):
            yield Finding(
                "error",
                name,
                f"the queue has no redrive policy, and on_fail is {spec.on_fail}: a message that fails comes "
                "back until its retention ends",
                "give the queue a redrive policy, or write on_fail: dead_letter",
            )
        return
    target = str(policy.get("deadLetterTargetArn", "")).rpartition(":")[2]
    try:
        connections.transport(spec.connector).get_queue_url(target)
    except Exception as error:  # noqa: BLE001 - told as a finding
        if classify(error) is ErrorKind.MISSING:
            yield Finding("error", name, f"its dead-letter queue {target!r} does not exist", "create it")
    most = int(policy.get("maxReceiveCount", 0))
    wanted = task.retry.max_attempts
    if wanted is not None and most < wanted:
        yield Finding(
            "warning",
            name,
            f"the redrive policy moves a message after {most} receives, before max_attempts {wanted} of task "
            f"{task.name!r}",
            f"make maxReceiveCount {wanted} or more",
        )
    else:
        yield Finding("ok", name, f"redrive policy to {target} after {most} receives")


def _database(name: str, connections: Connections) -> Iterator[Finding]:
    from sqs_workers.sql.errors import describe

    try:
        with connections.database(name).connect() as connection:
            yield from _encoding_of_connection(name, connection)
    except SQSError as error:
        yield Finding("error", name, str(error))
        return
    except Exception as error:  # noqa: BLE001 - told as a finding, without its text
        kind, code = describe(error)
        yield Finding("error", name, *_why_not_connected(str(error).lower(), kind, code))
        return
    yield Finding("ok", name, "the database answers")


def _why_not_connected(text: str, kind: str, code: str) -> tuple[str, str]:
    told = f"{kind} {code}".strip()
    if code in ("1045", "1698", "28P01", "28000") or "authentication failed" in text:
        return f"the database refuses this user or password ({told})", "check the variable that holds the DSN"
    if code in ("1049", "3D000") or ("database" in text and "does not exist" in text):
        return f"there is no such database on the server ({told})", "check the end of the DSN"
    if code == "1044":
        return f"this user may not use the database ({told})", "grant it"
    return f"the database cannot be reached ({told})", "check host and port in the DSN, and that it runs"


def _encoding_of_connection(name: str, connection: Any) -> Iterator[Finding]:
    from sqs_workers.sql.sqla import sa

    family = connection.dialect.name
    if family in ("mysql", "mariadb"):
        found = connection.execute(sa.text("SELECT @@character_set_connection")).scalar()
        if found != "utf8mb4":
            yield Finding("error", name, f"the connection speaks {found}", "remove `charset` from the DSN")
    elif family == "postgresql":
        found = connection.execute(sa.text("SHOW server_encoding")).scalar()
        if found != "UTF8":
            yield Finding("error", name, f"the database is encoded in {found}", "it must be UTF8")


def _table(
    name: str, spec: TableSinkSpec | MysqlTableSink | PostgresTableSink, connections: Connections
) -> Iterator[Finding]:
    from sqs_workers.app.table_sink import RowsToTable

    engine = connections.database(spec.connector)
    try:
        RowsToTable(name, spec, engine).check()
        findings = list(_encoding_of_table(name, spec, engine))
    except SQSError as error:
        yield Finding("error", name, str(error))
        return
    yield from findings
    if not findings:
        yield Finding("ok", name, f"table {spec.table} is there, with its columns and unique index")


def _encoding_of_table(name: str, spec: Any, engine: Any) -> Iterator[Finding]:
    if engine.dialect.name not in ("mysql", "mariadb"):
        return
    from sqs_workers.sql.sqla import sa

    query = sa.text(
        "SELECT column_name, character_set_name FROM information_schema.columns WHERE table_name = :table "
        "AND table_schema = COALESCE(:schema, DATABASE()) AND character_set_name IS NOT NULL"
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"table": spec.table, "schema": spec.schema}).all()
    # An id in ASCII is nobody's trouble; a text that cannot hold every character is.
    wrong = [
        f"{column} ({charset})" for column, charset in rows if charset not in ("utf8mb4", "ascii", "binary")
    ]
    if wrong:
        yield Finding(
            "error",
            name,
            f"columns of {spec.table} cannot hold every character: {', '.join(wrong)}",
            f"ALTER TABLE {spec.table} CONVERT TO CHARACTER SET utf8mb4",
        )


def _inbox(name: str, spec: Inbox, connections: Connections) -> Iterator[Finding]:
    from sqs_workers.sql.sqla import sa

    if sa.inspect(connections.database(spec.connector)).has_table(spec.table):
        yield Finding("ok", name, f"table {spec.table} is there")
    elif spec.create:
        yield Finding("ok", name, f"table {spec.table} will be created")
    else:
        yield Finding("error", name, f"there is no table {spec.table}", "write create: true")
