"""What a YAML file says, as frozen dataclasses.

Each field is a key; reading, checking, the JSON Schema and the reference page are made from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqs_workers.app.keys import OneOrMore, key
from sqs_workers.app.problems import Path
from sqs_workers.app.spec_resources import Resource
from sqs_workers.limits import MAX_VISIBILITY_TIMEOUT

__all__ = ["API_VERSIONS", "App", "AppSettings", "Batch", "Logging", "Retry", "Task"]

API_VERSIONS = ("sqs-workers/v1", "onestep/v1alpha1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    """What is logged and how."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = key(
        "Least level of the records of this package and of your handlers. Other libraries are never logged "
        "below WARNING: theirs may hold bodies and keys.",
        default="INFO",
        any_case=True,
    )
    format: Literal["auto", "text", "json"] = key(
        "`auto` is text on a terminal and JSON, one object a line, elsewhere.", default="auto"
    )
    error_messages: bool = key(
        "Log the messages of exceptions too. Off, their type and place are logged: a message may quote the "
        "body.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """The section `app`: what concerns the process as a whole."""

    name: str = key("Name for logs.")
    shutdown_timeout_s: float = key(
        "Seconds that running handlers get after SIGTERM or SIGINT. What has not finished by then is "
        "released and runs again elsewhere.",
        default=30.0,
        minimum=0,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    strict_env: bool = key(
        "A `${VAR}` that has neither a value nor a default is an error. Off: it is empty, with a warning.",
        default=True,
    )
    logging: Logging = key("What is logged and how.", factory=Logging)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a failed message is tried again, and how often."""

    type: Literal["exponential_backoff", "constant", "none"] = key(
        "`exponential_backoff`: `min_delay_s`, doubled with each attempt up to `max_delay_s`. `constant`: "
        "`min_delay_s` each time. `none`: one attempt.",
        default="exponential_backoff",
    )
    max_attempts: int | None = key(
        "Attempts, counted by the receive count of SQS, so that a worker that died has used one too. Then "
        "`on_fail` of the source applies. Absent: the redrive policy of the queue alone ends the attempts.",
        default=None,
        minimum=1,
        maximum=1000,
    )
    min_delay_s: float = key(
        "Seconds before the second attempt; SQS counts in whole seconds.",
        default=1.0,
        minimum=0,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    max_delay_s: float = key(
        "Seconds that a delay never exceeds.", default=1800.0, minimum=0, maximum=MAX_VISIBILITY_TIMEOUT
    )
    jitter: Literal["none", "full", "equal"] = key(
        "`full`: anywhere between `min_delay_s` and the delay; `equal`: anywhere in its upper half; `none`: "
        "the delay itself.",
        default="full",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """For a handler that takes a list of items."""

    size: int = key("Items at most; above 10 they come from several receives.", minimum=1, maximum=1000)
    linger_s: float = key(
        "Seconds that a batch with a first item waits for more.", default=1.0, minimum=0, maximum=60
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One entry of `tasks`: from a queue through a handler to sinks."""

    name: str = key("Name for logs; each task has its own.")
    source: str = key("The queue that is read. Each queue has one task.", refers_to=("sqs_queue",))
    handler: str = key(
        "`module:function`, resolved beside the YAML file first. `(ctx, item)` or `(item)`, sync or async; "
        "returns a row (a mapping), a list of rows, or None for nothing to write."
    )
    emit: OneOrMore = key(
        "The sink, or a list of sinks in the order in which they are written. The message is acknowledged "
        "when all have succeeded; if one fails, the next attempt writes to all of them again.",
        default=(),
        refers_to=("mysql_table_sink", "postgres_table_sink", "table_sink", "sqs_sink", "http_sink"),
    )
    description: str = key("For people.", default="")
    concurrency: int = key("Messages in the works at once.", default=1, minimum=1, maximum=1000)
    timeout_s: float | None = key(
        "Seconds that a message may take, the writing included. An async handler is cancelled; a sync one "
        "cannot be ended, so its message is given up and its late result dropped.",
        default=None,
        minimum=0.1,
        maximum=MAX_VISIBILITY_TIMEOUT,
    )
    retry: Retry = key("When a failed message is tried again.", factory=Retry)
    permanent_errors: tuple[str, ...] = key(
        "Exceptions that no retry can help, as `module:Class` or the name of a built-in one: `on_fail` "
        "applies at once.",
        default=(),
    )
    batch: Batch | None = key("The handler takes a list of items instead of one.", default=None)
    inbox: str | None = key(
        "Remembers which events were processed, in the transaction that writes the rows. The handler runs "
        "inside of that transaction, so it has to be sync.",
        default=None,
        refers_to=("inbox",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A whole file."""

    app: AppSettings
    lines: Mapping[Path, int] = field(default_factory=dict, compare=False, repr=False)
    """Line of each value in the file, by its path."""
    resources: Mapping[str, Resource]
    tasks: tuple[Task, ...]

    def resource(self, name: str) -> Resource:
        """The resource of this name, which checking has found to exist."""
        return self.resources[name]
