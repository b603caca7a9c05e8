"""What a right file means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sqs_workers.app import AppFileError, load, loads
from sqs_workers.app.json_schema import json_schema
from sqs_workers.app.spec_resources import MysqlTableSink, SqsQueue
from tests.app.broken import RIGHT

CASES = Path(__file__).parent / "cases"
ENVIRONMENT = {
    "SQS_EVENTS_URL": "https://sqs.us-east-1.amazonaws.com/1/events",
    "SQS_MYSQL_DSN": "mysql://u:p@h/d",
}


def test_the_guides_file_is_read_as_it_is_meant() -> None:
    app = load(CASES / "worker.yaml", ENVIRONMENT)
    assert (app.app.name, app.app.shutdown_timeout_s, app.app.logging.level) == ("sqs-to-mysql", 60.0, "INFO")
    queue, sink = app.resources["events"], app.resources["events_sink"]
    assert isinstance(queue, SqsQueue)
    assert (queue.url, queue.batch_size, queue.wait_time_s) == (ENVIRONMENT["SQS_EVENTS_URL"], 10, 20)
    assert (queue.heartbeat_interval_s, queue.heartbeat_visibility_timeout, queue.on_fail) == (
        15.0,
        60,
        "leave",
    )
    assert isinstance(sink, MysqlTableSink)
    assert (sink.keys, sink.update_columns, sink.update_expr) == (
        ("event_id",),
        ("payload", "status"),
        {"updated_at": "NOW(6)"},
    )
    (task,) = app.tasks
    assert (task.emit, task.concurrency, task.timeout_s) == (("events_sink",), 16, 45.0)
    assert (task.retry.max_attempts, task.retry.max_delay_s, task.retry.jitter) == (5, 30.0, "full")


def test_both_versions_have_the_same_words() -> None:
    assert loads(RIGHT) == loads(RIGHT.replace("sqs-workers/v1", "onestep/v1alpha1"))


def test_a_value_of_a_variable_is_read_as_the_type_that_is_wanted() -> None:
    text = RIGHT.replace("concurrency: 4", 'concurrency: "${N}"').replace("name: demo", "name: ${N}")
    app = loads(text, {"N": "16"})
    assert (app.tasks[0].concurrency, app.app.name) == (16, "16")


def test_a_default_holds_where_the_variable_is_absent_or_empty() -> None:
    text = RIGHT.replace("name: demo", 'name: "a-${A:-x}-${B:-y}-${C:-}-$$-$x"')
    assert loads(text, {"A": "", "B": "b"}).app.name == "a-x-b--$-$x"


def test_a_value_cannot_bring_keys_or_lists_into_the_file() -> None:
    evil = "a\n  shutdown_timeout_s: 0\n# [x]: {y"
    app = loads(RIGHT.replace("name: demo", "name: ${EVIL}"), {"EVIL": evil})
    assert app.app.name == evil
    assert app.app.shutdown_timeout_s == 30.0


def test_without_strict_env_a_missing_variable_is_empty_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = RIGHT.replace("  name: demo", '  name: "x${NONE}"\n  strict_env: false')
    assert loads(text, {}).app.name == "x"
    assert "NONE has no value" in caplog.text


def test_several_documents_are_read_as_one() -> None:
    text = RIGHT.replace("resources:\n", "---\napiVersion: sqs-workers/v1\nkind: App\nresources:\n")
    text = text.replace("tasks:\n", "---\napiVersion: sqs-workers/v1\nkind: App\ntasks:\n")
    assert loads(text) == loads(RIGHT)


def test_anchors_and_merges_are_followed() -> None:
    text = RIGHT.replace(
        "resources:\n", "x-queue: &queue {connector: sqs, wait_time_s: 5, on_fail: release}\nresources:\n"
    )
    text = text.replace("    connector: sqs\n", "    <<: *queue\n")
    queue = loads(text).resources["events"]
    assert isinstance(queue, SqsQueue)
    assert (queue.connector, queue.wait_time_s, queue.on_fail) == ("sqs", 5, "leave")


def test_a_number_is_taken_as_a_text_where_one_is_wanted() -> None:
    app: Any = loads(RIGHT.replace("table: events", "table: 0123"))
    assert app.resources["sink"].table == "0123"


def test_one_sink_may_be_written_without_a_list() -> None:
    assert loads(RIGHT.replace("emit: sink", "emit: [sink]")) == loads(RIGHT)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "worker.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + RIGHT.encode())
    assert load(path) == loads(RIGHT)


def test_bytes_that_are_no_utf8_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "worker.yaml"
    path.write_bytes(RIGHT.encode().replace(b"name: demo", b"name: d\xe9mo"))
    with pytest.raises(AppFileError, match=r":4: is not UTF-8"):
        load(path)


def test_secrets_are_in_no_error() -> None:
    text = RIGHT.replace("dsn: sqlite:///demo.db", "dsn: [hunter2]").replace(
        "concurrency: 4", "concurrency: '${P}'"
    )
    with pytest.raises(AppFileError) as caught:
        loads(text, {"P": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [RIGHT, (CASES / "worker.yaml").read_text(encoding="utf-8")], ids=["right", "guide"]
)
def test_the_json_schema_takes_right_files(text: str) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("concurrency: 4", "concurency: 4"),
        ("concurrency: 4", "concurrency: many"),
        ("concurrency: 4", "concurrency: 0"),
        ("on_fail: leave", "on_fail: leaf"),
        ("    connector: sqs\n", ""),
        ("type: sqs_queue", "type: queue"),
        ("keys: [event_id]", "keys: event_id"),
        ("kind: App", "kind: Job"),
    ],
)
def test_the_json_schema_refuses_wrong_ones(old: str, new: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(RIGHT.replace(old, new, 1)), json_schema())


def test_the_json_schema_is_json() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_the_file_of_the_guide_on_the_page_is_right_and_that_of_the_handler_too() -> None:
    from tests.docs.pages import blocks

    page = Path(__file__).parents[2] / "docs" / "guide-sqs-to-mysql.md"
    (shown,) = [block.code for block in blocks(page) if block.language == "yaml"]
    app = loads(shown, ENVIRONMENT)
    original = load(CASES / "worker.yaml", ENVIRONMENT)
    assert app.resources == original.resources
    assert app.tasks[0].retry == original.tasks[0].retry
