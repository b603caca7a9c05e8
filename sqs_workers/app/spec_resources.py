"""The resources of a YAML file: queues, databases, sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqs_workers.app.keys import key
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_VISIBILITY_TIMEOUT, MAX_WAIT_SECONDS

__all__ = [
    "RESOURCE_TYPES",
    "Database",
    "HttpSink",
    "Inbox",
    "Mysql",
    "MysqlTableSink",
    "Postgres",
    "PostgresTableSink",
    "Resource",
    "Sqlite",
    "Sqs",
    "SqsQueue",
    "SqsSink",
    "TableSinkSpec",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sqs:
    """An account and region of SQS. Credentials come from the environment, a profile or a role."""

    region_name: str | None = key("AWS region. Absent: as boto3 finds it.", default=None)
    endpoint_url: str | None = key("Another endpoint than AWS's, for instance a local one.", default=None)
    profile_name: str | None = key("Profile of `~/.aws/config`.", default=None)
    role_arn: str | None = key("Role to assume, renewed before it expires.", default=None)
    external_id: str | None = key("External id that the role asks for.", default=None, secret=True)
    transport: Literal["boto3", "lean", "auto"] = key(
        "How requests get to SQS. `boto3`: through its client, into which proxies and monitoring hook. `lean`: "
        "past it, for a fraction of the CPU, or an error that says why not. `auto`: lean where it can honour "
        "everything about the client. `sqs-workers run --transport` overrides it.",
        default="boto3",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsQueue:
    """A queue that a task reads."""

    connector: str = key("The `sqs` resource to reach it by.", refers_to=("sqs",))
    url: str | None = key("URL of the queue; or give `name`.", default=None)
    name: str | None = key("Name of the queue on SQS; or give `url`.", default=None)
    batch_size: int = key(
        "Messages of one receive. More than there are free slots are never taken.",
        default=MAX_BATCH_ENTRIES,
        minimum=1,
        maximum=MAX_BATCH_ENTRIES,
    )
    wait_time_s: int = key(
        "Seconds of long polling.", default=MAX_WAIT_SECONDS, minimum=0, maximum=MAX_WAIT_SECONDS
    )
    visibility_timeout: int | None = key(
        "Seconds that a received message is hidden. Absent: as the queue says.",
        default=None,
        minimum=1,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    heartbeat_interval_s: float | None = key(
        "Seconds between two extensions of a message in the works. 0 is none; absent: a third of the "
        "visibility timeout.",
        default=None,
        minimum=0,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    heartbeat_visibility_timeout: int | None = key(
        "Seconds that an extension hides the message for. Absent: the visibility timeout.",
        default=None,
        minimum=1,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    on_fail: Literal["leave", "release", "delete", "dead_letter"] = key(
        "What happens to a message that has failed for good. `leave`: it stays, and the redrive policy of "
        "the queue moves it in the end. `release`: visible again at once; without a redrive policy it comes "
        "back for ever. `delete`: gone, said in the log. `dead_letter`: copied to `dead_letter_queue` with "
        "the reason, then deleted.",
        default="leave",
    )
    dead_letter_queue: str | None = key(
        "The queue of `on_fail: dead_letter`.", default=None, refers_to=("sqs_queue",)
    )
    codec: Literal["json", "text"] = key(
        "What the item is: the decoded JSON, or the text of the body.", default="json"
    )
    unwrap: Literal["auto", "none", "sns", "eventbridge"] = key(
        "Take the item out of the envelope that a service puts around it: `Message` of an SNS notification, "
        "`detail` of an EventBridge event. `auto` unwraps what is plainly an SNS notification.",
        default="auto",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    pool_size: int = key("Connections kept open at most.", default=5, minimum=1, maximum=200)
    pool_recycle_s: int = key(
        "Seconds after which a connection is opened anew; below the idle timeout of the server.",
        default=1800,
        minimum=1,
        maximum=86_400,
    )
    connect_timeout_s: int = key("Seconds to wait for a connection.", default=10, minimum=1, maximum=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mysql(_Pool):
    """A MySQL or MariaDB database."""

    dsn: str = key("`mysql://user:password@host:3306/database`, from a variable.", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres(_Pool):
    """A PostgreSQL database."""

    dsn: str = key("`postgresql://user:password@host:5432/database`, from a variable.", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sqlite:
    """A SQLite database."""

    dsn: str = key("`sqlite:///file.db`, the file relative to the YAML file.", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableSink:
    connector: str = key("The database.", refers_to=("mysql", "postgres", "sqlite"))
    table: str = key("Name of the table, which must exist.")
    schema: str | None = key("Schema of the table. Absent: that of the connection.", default=None)
    mode: Literal["upsert", "insert", "insert_ignore"] = key(
        "`upsert`: a row whose keys exist updates it. `insert`: it fails for good. `insert_ignore`: it is "
        "left as it is.",
        default="upsert",
    )
    keys: tuple[str, ...] = key(
        "Columns that tell rows apart; a unique index covers exactly these. Needed for `upsert`.", default=()
    )
    update_columns: tuple[str, ...] | None = key(
        "Columns that an upsert writes anew; the others keep their values. Absent: all of the row but the "
        "keys.",
        default=None,
    )
    update_expr: Mapping[str, str] = key(
        "Column -> SQL expression that an upsert sets it to, for instance `NOW(6)`. Never built from a "
        "message.",
        factory=dict,
    )
    serialize_json: Literal["auto", "never"] = key(
        "Mappings and lists become JSON text with `auto`; `never` leaves them to the driver.",
        default="auto",
    )
    batch_rows: int = key("Rows of one statement at most.", default=500, minimum=1, maximum=10_000)
    linger_s: float = key(
        "Seconds that a row waits for those of other messages, to share their statement and commit.",
        default=0.002,
        minimum=0,
        maximum=10,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSinkSpec(_TableSink):
    """A table of any of the databases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlTableSink(_TableSink):
    """A table in MySQL or MariaDB."""

    connector: str = key("The database.", refers_to=("mysql",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTableSink(_TableSink):
    """A table in PostgreSQL."""

    connector: str = key("The database.", refers_to=("postgres",))


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsSink:
    """Another queue: each row is sent there as JSON."""

    connector: str = key("The `sqs` resource to reach it by.", refers_to=("sqs",))
    url: str | None = key("URL of the queue; or give `name`.", default=None)
    name: str | None = key("Name of the queue on SQS; or give `url`.", default=None)
    group_id: str | None = key("Key of the row that holds the message group (FIFO).", default=None)
    deduplication_id: str | None = key(
        "Key of the row that holds the deduplication id (FIFO). Absent: made from the id of the message "
        "that the row came from, the same at each attempt.",
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSink:
    """An HTTP service: each row is sent as JSON.

    Any 2xx is success. 4xx is permanent, but for 408, 425 and 429; those, 5xx and no answer are tried again.
    """

    url: str = key("Where to send to; may hold a secret, and is never logged.", secret=True)
    method: Literal["POST", "PUT", "PATCH"] = key("Method.", default="POST")
    headers: Mapping[str, str] = key(
        "Headers, for instance `Authorization` from a variable.", factory=dict, secret=True
    )
    timeout_s: float = key("Seconds to wait for an answer.", default=10.0, minimum=0.1, maximum=900)
    idempotency_header: str = key("Header that carries the idempotency key.", default="Idempotency-Key")
    idempotency_key: str | None = key(
        "Key of the row that holds the idempotency key. Absent: made from the id of the message that the "
        "row came from, the same at each attempt.",
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """A table that remembers which events a consumer has processed."""

    connector: str = key(
        "The database; the same as that of the table sink.", refers_to=("mysql", "postgres", "sqlite")
    )
    consumer: str = key("Who processes: events are told apart per consumer.")
    event_id: str = key(
        "Where in the item the id of the event stands, for instance `id` or `order.id`; `$message_id` for "
        "that of the message, which another send of the same event does not share."
    )
    table: str = key("Name of the table.", default="processed_events")
    create: bool = key("Create the table if it is missing.", default=False)


Database: TypeAlias = Mysql | Postgres | Sqlite
AnyTableSink: TypeAlias = TableSinkSpec | MysqlTableSink | PostgresTableSink
Resource: TypeAlias = (
    Sqs
    | SqsQueue
    | Mysql
    | Postgres
    | Sqlite
    | TableSinkSpec
    | MysqlTableSink
    | PostgresTableSink
    | SqsSink
    | HttpSink
    | Inbox
)

RESOURCE_TYPES: Mapping[str, type] = {
    "sqs": Sqs,
    "sqs_queue": SqsQueue,
    "mysql": Mysql,
    "postgres": Postgres,
    "sqlite": Sqlite,
    "mysql_table_sink": MysqlTableSink,
    "postgres_table_sink": PostgresTableSink,
    "table_sink": TableSinkSpec,
    "sqs_sink": SqsSink,
    "http_sink": HttpSink,
    "inbox": Inbox,
}
