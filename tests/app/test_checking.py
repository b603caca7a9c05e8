"""``check --connect``: every way in which the world may not be as the file says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from botocore.exceptions import ClientError

from sqs_workers.app.checking import Finding, check_connections
from sqs_workers.app.connections import Connections, open_database
from sqs_workers.app.loading import load
from sqs_workers.app.spec_resources import Mysql
from sqs_workers.cli import main
from tests.app.guide import MYSQL, database
from tests.app.world import World

HANDLER = "def handle(item): return None"


def findings(world: World, **environment: str) -> list[Finding]:
    path = world.directory / "worker.yaml"
    return check_connections(load(path, {"ENDPOINT": world.endpoint, **environment}), path)


def told(found: list[Finding], level: str = "error") -> str:
    return "\n".join(f"{one.resource}: {one.message}; {one.hint}" for one in found if one.level == level)


def test_all_is_well(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.queue(dead_after=5)
    path = world.write(handler=HANDLER, task="emit: sink\n")
    assert told(findings(world)) == ""
    monkeypatch.setenv("ENDPOINT", world.endpoint)
    assert main(["check", str(path), "--connect"]) == 0
    assert "is right" in capsys.readouterr().out


def test_a_missing_queue(world: World) -> None:
    world.write(handler=HANDLER, task="emit: sink\n")
    assert "queue 'events' does not exist" in told(findings(world))


def test_no_permission_to_see_the_queue_or_to_delete(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.queue(dead_after=5)
    world.write(handler=HANDLER, task="emit: sink\n")
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DeleteMessage")
    client = Connections.client

    def without(self: Connections, name: str) -> Any:
        found = client(self, name)

        def refuse(**_: Any) -> None:
            raise denied

        setattr(found, refused, refuse)
        return found

    monkeypatch.setattr(Connections, "client", without)
    refused = "delete_message"
    assert "no permission for sqs:DeleteMessage" in told(findings(world))
    refused = "get_queue_attributes"
    assert "may not use the queue (AccessDenied)" in told(findings(world))


def test_no_redrive_policy(world: World) -> None:
    world.queue()
    world.write(handler=HANDLER, task="emit: sink\n")
    assert "no redrive policy" in told(findings(world))


def test_a_redrive_policy_that_comes_before_the_attempts_are_used_up(world: World) -> None:
    world.queue(dead_after=2)
    world.write(handler=HANDLER, task="emit: sink\nretry: {max_attempts: 5}\n")
    assert "after 2 receives, before max_attempts 5" in told(findings(world), "warning")


def test_a_heartbeat_that_is_too_long_for_the_queue(world: World) -> None:
    world.queue(dead_after=5, visibility=10)
    world.write(handler=HANDLER, queue="heartbeat_interval_s: 15", task="emit: sink\n")
    assert "heartbeat_interval_s 15 is not below the visibility timeout of 10 s" in told(findings(world))


def test_no_heartbeat_and_a_timeout_above_the_visibility(world: World) -> None:
    world.queue(dead_after=5, visibility=10)
    world.write(handler=HANDLER, queue="heartbeat_interval_s: 0", task="emit: sink\ntimeout_s: 45\n")
    assert "may outlive the visibility timeout" in told(findings(world))


def test_a_missing_table(world: World) -> None:
    world.queue(dead_after=5)
    world.write(handler=HANDLER, task="emit: sink\n")
    with closing(sqlite3.connect(world.directory / "test.db")) as connection, connection:
        connection.execute("DROP TABLE events")
    assert "no table 'events'" in told(findings(world))


def test_a_missing_unique_index(world: World) -> None:
    world.queue(dead_after=5)
    world.write(handler=HANDLER, task="emit: sink\n")
    path = world.directory / "worker.yaml"
    path.write_text(path.read_text().replace("keys: [event_id]", "keys: [status]"), encoding="utf-8")
    assert "no unique index over exactly (status)" in told(findings(world))


def test_an_unknown_column(world: World) -> None:
    world.queue(dead_after=5)
    world.write(handler=HANDLER, task="emit: sink\n")
    path = world.directory / "worker.yaml"
    text = path.read_text().replace("keys: [event_id]", "keys: [event_id], update_columns: [stauts]")
    path.write_text(text, encoding="utf-8")
    assert "'stauts'" in told(findings(world))


def on_mysql(world: World) -> None:
    world.queue(dead_after=5)
    path = world.write(handler=HANDLER, task="emit: sink\n")
    text = path.read_text().replace(
        'db: {type: sqlite, dsn: "sqlite:///test.db"}', "db: {type: mysql, dsn: '${DSN}'}"
    )
    path.write_text(text, encoding="utf-8")


def test_a_wrong_character_set(world: World, tmp_path: Path) -> None:
    on_mysql(world)
    with database("mysql", tmp_path) as (dsn, engine):
        assert told(findings(world, DSN=dsn)) == ""
        with engine.begin() as connection:
            connection.execute(
                sa.text("ALTER TABLE events MODIFY status VARCHAR(32) CHARACTER SET latin1 NOT NULL")
            )
        assert "status (latin1)" in told(findings(world, DSN=dsn))


def test_an_unreachable_database(world: World) -> None:
    on_mysql(world)
    found = told(findings(world, DSN="mysql://root:hunter2@127.0.0.1:1/test"))
    assert "the database cannot be reached" in found
    assert "hunter2" not in found


def test_a_wrong_password_is_not_shown(world: World, tmp_path: Path) -> None:
    on_mysql(world)
    server = sa.make_url(MYSQL)
    with database("mysql", tmp_path):
        wrong = server.set(drivername="mysql", username="nobody", password="hunter2")
        found = told(findings(world, DSN=wrong.render_as_string(hide_password=False)))
    assert "refuses this user or password" in found
    assert "hunter2" not in found


def test_no_such_database(world: World, tmp_path: Path) -> None:
    on_mysql(world)
    with database("mysql", tmp_path):
        dsn = sa.make_url(MYSQL).set(drivername="mysql", database="absent_db")
        found = told(findings(world, DSN=dsn.render_as_string(hide_password=False)))
    assert "no such database" in found


def test_a_dsn_that_is_none_is_not_shown(world: World) -> None:
    on_mysql(world)
    found = told(findings(world, DSN="hunter2"))
    assert "is no URL of the form mysql://" in found
    assert "hunter2" not in found


def test_findings_end_with_exit_code_1(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.write(handler=HANDLER, task="emit: sink\n")
    monkeypatch.setenv("ENDPOINT", world.endpoint)
    assert main(["check", str(path), "--connect"]) == 1


def test_a_connection_that_ended_while_it_rested_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqs_workers.app.connections._REST_SECONDS", 0.0)
    with database("mysql", tmp_path) as (dsn, admin):
        engine = open_database("db", Mysql(dsn=dsn, pool_size=1), tmp_path)
        try:
            with engine.connect() as connection:
                first = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
            with admin.connect() as other:
                other.execute(sa.text(f"KILL {first}"))
            with engine.connect() as connection:
                assert connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one() != first
        finally:
            engine.dispose()
