"""Files with one mistake each: what is changed in a right file, its line, and words of the error."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BROKEN", "RIGHT", "Broken"]

RIGHT = """\
apiVersion: sqs-workers/v1
kind: App
app:
  name: demo
  logging:
    level: INFO
resources:
  sqs:
    type: sqs
    region_name: us-east-1
  events:
    type: sqs_queue
    connector: sqs
    name: events
    heartbeat_interval_s: 15
    heartbeat_visibility_timeout: 60
    on_fail: leave
  db:
    type: sqlite
    dsn: sqlite:///demo.db
  sink:
    type: table_sink
    connector: db
    table: events
    mode: upsert
    keys: [event_id]
tasks:
  - name: ingest
    source: events
    emit: sink
    handler: right_handler:to_row
    concurrency: 4
    retry:
      type: exponential_backoff
      max_attempts: 5
"""


@dataclass(frozen=True)
class Broken:
    """One mistake.

    :param change: text of the right file -> what stands in its place.
    :param line: line that the error names; 0 for the file as a whole.
    :param words: what the error says.
    """

    name: str
    change: dict[str, str]
    line: int
    words: tuple[str, ...]


def _one(name: str, old: str, new: str, line: int, *words: str) -> Broken:
    return Broken(name, {old: new}, line, words)


BROKEN = [
    # YAML itself
    _one("a tab", "  name: demo", "\tname: demo", 4, "a tab", "spaces"),
    _one(
        "a key twice",
        "    name: events\n",
        "    name: events\n    name: again\n",
        15,
        "second time",
        "line 14",
    ),
    _one("an unclosed list", "keys: [event_id]", "keys: [event_id", 27, "is no YAML"),
    _one("an unclosed quote", "name: demo", 'name: "demo', 36, "is no YAML"),
    _one(
        "a wrong indentation", "    region_name: us", "      region_name: us", 10, "is no YAML", "indentation"
    ),
    _one("a colon in a text", "name: demo", "name: a: b", 4, "is no YAML", "quotes"),
    _one("an unknown alias", "name: demo", "name: *demo", 4, "undefined alias"),
    _one("a tag", "name: demo", "name: !!python/object/apply:os.system [id]", 4, "tag", "not allowed"),
    _one("an alias that contains itself", "keys: [event_id]", "keys: &a [*a]", 26, "contain itself"),
    _one(
        "an alias bomb",
        "app:\n",
        "x-a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        "x-b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        "x-c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
        "x-d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
        "x-e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\napp:\n",
        3,
        "20,000 values",
    ),
    _one("a huge file", "kind: App\n", "kind: App\n#" + "x" * 1_000_001 + "\n", 0, "larger than"),
    _one("deep nesting", "keys: [event_id]", "keys: " + "[" * 60 + "]" * 60, 26, "more than 40 deep"),
    _one("deeper nesting", "keys: [event_id]", "keys: " + "[" * 20_000, 0, "deep"),
    _one("a list as document", RIGHT, "- a\n- b\n", 1, "must be a mapping"),
    _one("nothing", RIGHT, "", 0, "is empty"),
    _one("a control character", "name: demo", "name: d\x07mo", 4, "does not allow"),
    _one("a list as key", "  name: demo", "  ? [a]\n  : b\n  name: demo", 4, "a key must be a text"),
    # The head
    _one("no apiVersion", "apiVersion: sqs-workers/v1\n", "", 1, "`apiVersion` is missing", "sqs-workers/v1"),
    _one(
        "another apiVersion",
        "sqs-workers/v1",
        "sqs-workers/v9",
        1,
        "must be sqs-workers/v1 or onestep/v1alpha1",
    ),
    _one("another kind", "kind: App", "kind: Job", 2, "must be App"),
    _one("an unknown section", "tasks:", "task:", 27, "no such key", "did you mean `tasks`?"),
    _one("no app", "app:\n  name: demo\n  logging:\n    level: INFO\n", "", 1, "`app` is missing"),
    _one("no tasks", RIGHT[RIGHT.index("tasks:") :], "", 1, "`tasks` is missing"),
    _one(
        "app in two documents",
        "resources:\n",
        "---\napiVersion: sqs-workers/v1\nkind: App\napp:\n  name: b\nresources:\n",
        11,
        "second document",
    ),
    _one(
        "a resource in two documents",
        "tasks:\n",
        "---\napiVersion: sqs-workers/v1\nkind: App\nresources:\n  sqs:\n    type: sqs\ntasks:\n",
        31,
        "second document",
        "line 8",
    ),
    # Keys and values
    _one(
        "an unknown key", "concurrency: 4", "concurency: 4", 32, "no such key", "did you mean `concurrency`?"
    ),
    _one("an unknown key of the app", "  logging:", "  loging:", 5, "did you mean `logging`?"),
    _one("an unknown key of a queue", "on_fail: leave", "onfail: leave", 17, "did you mean `on_fail`?"),
    _one("a missing key", "    connector: sqs\n", "", 12, "`connector` is missing"),
    _one(
        "an unknown type", "type: sqs_queue", "type: sqs_que", 12, "no such type", "did you mean `sqs_queue`?"
    ),
    _one("no type", "    type: sqlite\n", "", 18, "`type` is missing"),
    _one("a text for a number", "concurrency: 4", "concurrency: many", 32, "whole number", "`many`"),
    _one("a fraction for a whole number", "concurrency: 4", "concurrency: 4.5", 32, "whole number"),
    _one("a number out of range", "concurrency: 4", "concurrency: 0", 32, "from 1 to 1000", "`0`"),
    _one("a wait of 30 s", "on_fail: leave", "wait_time_s: 30", 17, "from 0 to 20"),
    _one("a word that is none", "on_fail: leave", "on_fail: leaf", 17, "`leave`", "did you mean `leave`?"),
    _one(
        "a list for a mapping",
        "  logging:\n    level: INFO",
        "  logging: [INFO]",
        5,
        "must be a mapping, not a list",
    ),
    _one("a text for a list", "keys: [event_id]", "keys: event_id", 26, "must be a list", "[a, b]"),
    _one("a mapping for a text", "table: events", "table: {a: b}", 24, "must be a text, not a mapping"),
    _one("no value", "table: events", "table:", 24, "has no value"),
    _one("a truth value for a text", "table: events", "table: yes", 24, "in quotes"),
    _one(
        "a resource that is a text",
        "  sqs:\n    type: sqs\n    region_name: us-east-1\n",
        "  sqs: here\n",
        8,
        "must be a mapping",
    ),
    # Variables
    _one(
        "a variable without a value",
        "name: demo",
        'name: "${DEMO_NAME}"',
        4,
        "DEMO_NAME has no value",
        ":-default",
    ),
    _one("a reference that is not closed", "name: demo", 'name: "${DEMO_NAME"', 4, "cannot be read", "$$"),
    _one("a variable with a wrong name", "name: demo", 'name: "${1ST}"', 4, "cannot be read"),
    _one(
        "a variable of the wrong type",
        "concurrency: 4",
        'concurrency: "${WORD}"',
        32,
        "whole number",
        "the value of ${WORD}",
    ),
    # Relations
    _one(
        "an unknown source",
        "source: events",
        "source: event",
        29,
        "no resource `event`",
        "did you mean `events`?",
    ),
    _one(
        "a source that is no queue", "source: events", "source: db", 29, "is of type `sqlite`", "`sqs_queue`"
    ),
    _one(
        "an unknown sink",
        "emit: sink",
        "emit: [sink, sunk]",
        30,
        "no resource `sunk`",
        "did you mean `sink`?",
    ),
    _one("a sink twice", "emit: sink", "emit: [sink, sink]", 30, "twice"),
    _one("neither url nor name", "    name: events\n", "", 11, "one of `url` and `name`"),
    _one(
        "both url and name",
        "    name: events\n",
        "    name: events\n    url: https://a/b\n",
        11,
        "one of `url` and `name`",
    ),
    _one("a url that is none", "    name: events\n", "    url: events\n", 14, "https://"),
    _one(
        "a heartbeat that is too long",
        "heartbeat_interval_s: 15",
        "heartbeat_interval_s: 60",
        15,
        "not below",
        "20",
    ),
    _one(
        "dead_letter without a queue",
        "on_fail: leave",
        "on_fail: dead_letter",
        17,
        "needs `dead_letter_queue`",
    ),
    _one(
        "a dead-letter queue that is the queue",
        "on_fail: leave",
        "on_fail: dead_letter\n    dead_letter_queue: events",
        18,
        "the queue itself",
    ),
    _one("an upsert without keys", "    keys: [event_id]\n", "", 21, "needs `keys`"),
    _one(
        "updates without an upsert", "mode: upsert", "mode: insert\n    update_columns: [a]", 26, "no effect"
    ),
    _one(
        "a key that is updated",
        "keys: [event_id]",
        "keys: [event_id]\n    update_columns: [event_id]",
        21,
        "`event_id`",
    ),
    _one(
        "two tasks of one queue",
        "    concurrency: 4\n",
        "    concurrency: 4\n  - name: second\n    source: events\n    handler: right_handler:to_row\n",
        34,
        "reads the same queue",
    ),
    _one(
        "two tasks of one name",
        "    concurrency: 4\n",
        "    concurrency: 4\n  - name: ingest\n    source: events\n    handler: right_handler:to_row\n",
        33,
        "tasks[0]",
    ),
    Broken(
        "a cycle",
        {
            "tasks:\n": "  back:\n    type: sqs_sink\n    connector: sqs\n    name: events\ntasks:\n",
            "emit: sink": "emit: back",
        },
        32,
        ("a cycle",),
    ),
    _one(
        "delays the wrong way round", "max_attempts: 5", "min_delay_s: 60\n      max_delay_s: 5", 33, "above"
    ),
    _one("several attempts of none", "exponential_backoff", "none", 35, "one attempt"),
    # Handlers
    _one("a handler without a function", "right_handler:to_row", "right_handler", 31, "module:function"),
    _one(
        "a module that is not there",
        "right_handler:to_row",
        "absent_handler:to_row",
        31,
        "no module `absent_handler`",
    ),
    _one(
        "a function that is not there",
        "right_handler:to_row",
        "right_handler:to_rows",
        31,
        "no `to_rows`",
        "to_row",
    ),
    _one(
        "a module that raises",
        "right_handler:to_row",
        "raising_handler:to_row",
        31,
        "ZeroDivisionError",
        "raising_handler.py:2",
    ),
    _one(
        "a module with a syntax error",
        "right_handler:to_row",
        "unparsable_handler:f",
        31,
        "unparsable_handler.py:1",
    ),
    _one(
        "a module that needs another",
        "right_handler:to_row",
        "needing_handler:f",
        31,
        "not_installed_anywhere",
    ),
    _one("a module that exits", "right_handler:to_row", "exiting_handler:f", 31, "ends the process"),
    _one("a handler of three arguments", "right_handler:to_row", "right_handler:three", 31, "(ctx, item)"),
    _one("a handler of none", "right_handler:to_row", "right_handler:none", 31, "(ctx, item)"),
    _one("a handler that is a class", "right_handler:to_row", "right_handler:Rows", 31, "is a class"),
    _one(
        "a handler that is no function",
        "right_handler:to_row",
        "right_handler:ANSWER",
        31,
        "cannot be called",
    ),
    _one("a handler that is a generator", "right_handler:to_row", "right_handler:rows", 31, "generator"),
    _one(
        "an async handler of batches",
        "right_handler:to_row",
        "right_handler:async_row\n    batch: {size: 10}",
        31,
        "async",
        "plain `def`",
    ),
    Broken(
        "an async handler with an inbox",
        {
            "tasks:\n": "  inbox:\n    type: inbox\n    connector: db\n    consumer: demo\n"
            "    event_id: id\ntasks:\n",
            "right_handler:to_row": "right_handler:async_row\n    inbox: inbox",
        },
        36,
        ("async", "transaction"),
    ),
    _one(
        "an exception that is none",
        "    concurrency: 4\n",
        "    concurrency: 4\n    permanent_errors: [ValueErr]\n",
        33,
        "`ValueErr` is no exception",
    ),
]
