"""What ``init`` writes and prints."""

from __future__ import annotations

from typing import Literal

__all__ = ["Database", "files_of", "next_steps"]

Database = Literal["sqlite", "postgres"]

_WORKER = """\
apiVersion: sqs-workers/v1
kind: App

app:
  name: demo
  shutdown_timeout_s: 30

resources:
  sqs:
    type: sqs
    region_name: "${AWS_DEFAULT_REGION:-us-east-1}"
    endpoint_url: "${SQS_ENDPOINT_URL:-http://127.0.0.1:{port}}"

  events:
    type: sqs_queue
    connector: sqs
    name: events
    wait_time_s: 5
    # What has failed five times stays, and the redrive policy of the queue moves it to events-dead.
    on_fail: leave

  database:
    type: {database}
    dsn: "{dsn}"

  events_sink:
    type: table_sink
    connector: database
    table: events
    mode: upsert
    keys: [event_id]
    # Written anew when an event comes again; created_at keeps its value.
    update_columns: [payload, status]
    update_expr:
      updated_at: "CURRENT_TIMESTAMP"

tasks:
  - name: ingest_events
    description: Events into the table, each once
    source: events
    emit: events_sink
    handler: handler:to_row
    concurrency: 8
    timeout_s: 45
    retry:
      type: exponential_backoff
      max_attempts: 5
      min_delay_s: 1
      max_delay_s: 30
      jitter: full
"""

_HANDLER = '''\
"""Turns an event into a row. The columns are those of the table in schema.sql."""


def to_row(ctx, item):
    return {
        # Belongs to the event for ever: an event that comes twice finds its row by it.
        "event_id": item["id"],
        "payload": item,
        "status": item.get("status", "received"),
    }
'''

_SCHEMA = """\
CREATE TABLE IF NOT EXISTS events (
    event_id   VARCHAR(64) NOT NULL PRIMARY KEY,
    payload    TEXT NOT NULL,
    status     VARCHAR(32) NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NULL
);
"""

_EVENTS = """\
{"id": "e-1", "status": "paid", "amount": "9.90"}
{"id": "e-2", "amount": "12.00", "note": "\\u00e9l\\u00e8ve"}
{"id": "e-3", "status": "paid"}
{"id": "e-1", "status": "refunded", "amount": "9.90"}
"""

_DSN = {"sqlite": "${DEMO_DSN:-sqlite:///demo.db}", "postgres": "${DEMO_DSN}"}

_STEPS = """
  cd {directory}
  export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION=us-east-1
  export AWS_ENDPOINT_URL=http://127.0.0.1:{port}
  sqs-workers local --port {port} &
  {create_table}
  sqs-workers create events --dead-letter events-dead
  sqs-workers check worker.yaml --connect
  sqs-workers send events --file events.jsonl
  sqs-workers run worker.yaml --until-idle
  {show_rows}
"""

_CREATE_TABLE = {
    "sqlite": """\
python -c "import sqlite3; sqlite3.connect('demo.db').executescript(open('schema.sql').read())\"""",
    "postgres": """\
export DEMO_DSN=${DEMO_DSN:-postgresql://postgres@127.0.0.1:5432/postgres}
  python -c "import os, psycopg; \\
    psycopg.connect(os.environ['DEMO_DSN'], autocommit=True).execute(open('schema.sql').read())\"""",
}
_SHOW_ROWS = {
    "sqlite": """\
python -c "import sqlite3; \\
    print(*sqlite3.connect('demo.db').execute('SELECT * FROM events ORDER BY 1'), sep='\\n')\"""",
    "postgres": """\
python -c "import os, psycopg; \\
    print(*psycopg.connect(os.environ['DEMO_DSN']).execute('SELECT * FROM events ORDER BY 1'), sep='\\n')\"""",
}


def files_of(database: Database, port: int) -> dict[str, str]:
    """Texts by file name.

    :param port: of the local endpoint.
    """
    worker = _WORKER.replace("{database}", database).replace("{dsn}", _DSN[database])
    return {
        "worker.yaml": worker.replace("{port}", str(port)),
        "handler.py": _HANDLER,
        "schema.sql": _SCHEMA,
        "events.jsonl": _EVENTS,
    }


def next_steps(database: Database, port: int, directory: str) -> str:
    """The commands that lead from the files to rows."""
    return _STEPS.format(
        directory=directory,
        port=port,
        create_table=_CREATE_TABLE[database],
        show_rows=_SHOW_ROWS[database],
    )
