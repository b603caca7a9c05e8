"""The guide's worker at concurrency 16 against a loop written by hand with boto3 and PyMySQL.

The loop receives 10, runs one executemany, commits, deletes 10. Both read from the local endpoint, in a
process of its own, and write to MariaDB or MySQL. Rounds alternate; the result is the median of the ratios::

    python benchmarks/yaml_to_mysql.py --rounds 5 --events 5000
    python benchmarks/yaml_to_mysql.py --transport lean

The database comes from ``SQS_WORKERS_TEST_MYSQL_DSN`` (127.0.0.1:3306, root, by default).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3
import sqlalchemy as sa

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "app" / "cases"
DSN = os.environ.get("SQS_WORKERS_TEST_MYSQL_DSN", "mysql+pymysql://root@127.0.0.1:3306/test")
DATABASE = "sqs_workers_benchmark"
TABLE = (
    "CREATE TABLE events (event_id VARCHAR(64) PRIMARY KEY, payload JSON NOT NULL, status VARCHAR(32) NOT "
    "NULL, "
    "created_at DATETIME(6) NOT NULL DEFAULT NOW(6), updated_at DATETIME(6) NULL) CHARACTER SET utf8mb4"
)
UPSERT = (
    "INSERT INTO events (event_id, payload, status) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE "
    "payload = VALUES(payload), status = VALUES(status), updated_at = NOW(6)"
)
HAND = "by hand"
YAML = "worker.yaml"


def by_hand(url: str, count: int) -> None:
    """The loop."""
    client = boto3.client("sqs")
    connection = sa.create_engine(sa.make_url(DSN).set(database=DATABASE)).raw_connection()
    cursor = connection.cursor()
    done = 0
    while done < count:
        answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        messages = answer.get("Messages", [])
        if not messages:
            continue
        items = [json.loads(message["Body"]) for message in messages]
        cursor.executemany(
            UPSERT, [(item["id"], json.dumps(item), item.get("status", "received")) for item in items]
        )
        connection.commit()
        client.delete_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(messages)
            ],
        )
        done += len(messages)


def fill(client: Any, name: str, count: int) -> str:
    """A queue with events."""
    url: str = client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    for start in range(0, count, 10):
        entries = [
            {"Id": str(n), "MessageBody": json.dumps({"id": f"e{n}", "text": "x" * 200, "number": n})}
            for n in range(start, min(start + 10, count))
        ]
        client.send_message_batch(QueueUrl=url, Entries=entries)
    return url


def rate(engine: sa.Engine, command: list[str], directory: Path, url: str, count: int) -> float:
    """Rows a second, from the first row to the last; imports and start-up are not measured."""
    with engine.begin() as connection:
        connection.execute(sa.text("TRUNCATE events"))
    dsn = sa.make_url(DSN).set(database=DATABASE, drivername="mysql").render_as_string(hide_password=False)
    environment = {**os.environ, "SQS_EVENTS_URL": url, "SQS_MYSQL_DSN": dsn, "PYTHONPATH": str(ROOT)}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, env=environment, stderr=log)
    try:
        began, first, rows = 0.0, 0, 0
        while rows < count:
            with engine.connect() as connection:
                rows = int(connection.execute(sa.text("SELECT COUNT(*) FROM events")).scalar_one())
            now = time.perf_counter()
            if rows and not began:
                began, first = now, rows
            if process.poll() not in (None, 0):
                raise SystemExit((directory / "log").read_text()[-2000:])
            time.sleep(0.02)
        return (count - first) / (now - began)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=5000)
    parser.add_argument("--transport", choices=["boto3", "lean", "auto"], default="boto3")
    parser.add_argument("--by-hand", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_hand:
        by_hand(arguments.by_hand, arguments.events)
        return
    endpoint = subprocess.Popen(
        [sys.executable, "-m", "sqs_workers.local", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert endpoint.stdout is not None
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint.stdout.readline().split()[-1],
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server = sa.create_engine(DSN, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE IF EXISTS {DATABASE}"))
        connection.execute(sa.text(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"))
    engine = sa.create_engine(sa.make_url(DSN).set(database=DATABASE), isolation_level="AUTOCOMMIT")
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(TABLE))
        measure(engine, arguments.rounds, arguments.events, arguments.transport)
    finally:
        engine.dispose()
        with server.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {DATABASE}"))
        server.dispose()
        endpoint.terminate()
        endpoint.wait()


def measure(engine: sa.Engine, rounds: int, count: int, transport: str) -> None:
    client = boto3.client("sqs")
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for file in ("worker.yaml", "handler.py"):
            shutil.copyfile(CASES / file, directory / file)
        for number in range(rounds):
            rates: dict[str, float] = {}
            for what in (HAND, YAML) if number % 2 else (YAML, HAND):
                url = fill(client, f"round-{number}-{what.replace(' ', '-').replace('.', '-')}", count)
                command = [
                    sys.executable,
                    "-m",
                    "sqs_workers",
                    "run",
                    "worker.yaml",
                    "--transport",
                    transport,
                ]
                if what == HAND:
                    command = [sys.executable, __file__, "--by-hand", url, "--events", str(count)]
                rates[what] = rate(engine, command, directory, url, count)
                client.delete_queue(QueueUrl=url)
            ratios.append(rates[YAML] / rates[HAND])
            print(
                f"round {number + 1}: {HAND} {rates[HAND]:,.0f} rows/s, {YAML} {rates[YAML]:,.0f} rows/s, "
                f"ratio {ratios[-1]:.2f}",
                flush=True,
            )
    print(f"median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
