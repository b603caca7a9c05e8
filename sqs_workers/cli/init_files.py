"""What ``init`` writes and prints."""

from __future__ import annotations

__all__ = ["FILES", "NEXT_STEPS"]

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
    type: sqlite
    dsn: "${DEMO_DSN:-sqlite:///demo.db}"

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

FILES = {"worker.yaml": _WORKER, "handler.py": _HANDLER, "schema.sql": _SCHEMA, "events.jsonl": _EVENTS}

NEXT_STEPS = """
  cd {directory}
  export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION=us-east-1
  export AWS_ENDPOINT_URL=http://127.0.0.1:{port}
  sqs-workers local --port {port} &
  python -c "import sqlite3; sqlite3.connect('demo.db').executescript(open('schema.sql').read())"
  sqs-workers create events --dead-letter events-dead
  sqs-workers check worker.yaml --connect
  sqs-workers send events --file events.jsonl
  sqs-workers run worker.yaml --until-idle
  python -c "import sqlite3; print(*sqlite3.connect('demo.db').execute('SELECT * FROM events'), sep='\\n')"
"""
