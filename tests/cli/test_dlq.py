"""``dlq``, against the local endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from sqs_workers.cli import main
from sqs_workers.cli.root import cli

QUICK = ["--wait", "0"]


@pytest.fixture
def dead(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A dead-letter queue with twelve letters: ten of one job, two of another."""
    monkeypatch.chdir(tmp_path)
    main(["create", "events", "--dead-letter", "events-dead", "--max-receives", "2"])
    reasons = ["-a", "DeadLetterReason=permanent error", "-a", "DeadLetterErrorType=KeyError"]
    main(["send", "events-dead", *['{"to": "ada@example.com"}'] * 10, "--job", "send_email", *reasons])
    main(["send", "events-dead", *['{"id": 7}'] * 2, "--job", "report"])
    url: str = client.get_queue_url(QueueName="events-dead")["QueueUrl"]
    return url


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def counts(client: Any, url: str) -> tuple[int, int]:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return int(found[names[0]]), int(found[names[1]])


def test_dead_letter_queues_are_listed_with_their_sources(
    dead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = said(capsys, "dlq", "list")
    assert (state["name"], state["messages"], state["sources"][0]["name"]) == ("events-dead", 12, "events")
    assert main(["dlq", "list", "events"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t") == [
        "events-dead",
        "12",
        "0",
        "14.0d",
        "events (after 2)",
    ]


def test_letters_are_shown_in_groups_masked_and_released(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["dlq", "show", "events-dead"]) == 0
    told = capsys.readouterr()
    assert "send_email\tpermanent error\tKeyError\t10" in told.out
    assert "report\tredrive policy\t-\t2" in told.out
    assert "{to: <text of 15>}" in told.out
    assert "ada@example.com" not in told.out
    assert "uses up one receive" in told.err
    assert counts(client, dead) == (12, 0)


def test_bodies_are_shown_to_those_who_ask(dead: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "dlq", "show", "events-dead", "--where", "job=report", "--bodies", "-n", "1")
    assert [letter["body"] for letter in shown["letters"]] == ['{"id": 7}']
    assert shown["letters"][0]["attributes"]["JobName"] == "report"


def test_letters_go_back_that_are_meant(dead: str, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["dlq", "redrive", "events-dead", "--where", "job=send_*"]
    report = said(capsys, *chosen, "--dry-run")
    assert (report["sent"], report["by_job"]) == (10, {"send_email": 10})
    assert counts(client, dead) == (12, 0)
    assert main([*chosen, *QUICK, "--first", "5", "--rate", "1000/s"]) == 0
    told = capsys.readouterr()
    assert "10 letter(s) went back to events" in told.out
    assert "5 sent back; waiting" in told.err
    assert "may take 60 s to come back" in told.err
    assert counts(client, dead) == (2, 0)


def test_a_letter_without_a_known_source_goes_where_it_is_told(
    client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for queue in ("lonely", "events"):
        main(["create", queue])
    main(["send", "lonely", "x"])
    assert main(["dlq", "redrive", "lonely"]) == 1
    assert "say where the letters are to go" in capsys.readouterr().err
    assert said(capsys, "dlq", "redrive", "lonely", "--to", "events", *QUICK)["by_target"] == {"events": 1}


@pytest.mark.parametrize("rate", ["0/s", "fast", "10/d", "-1/s"])
def test_what_is_no_rate_is_a_usage_error(dead: str, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dlq", "redrive", "events-dead", "--rate", rate]) == 2
    assert "10/s, 90/m or 600/h" in capsys.readouterr().err


def test_a_task_moves_all_and_shows_its_end(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    task = said(capsys, "dlq", "move", "events-dead", "--to", "events")
    assert (task["status"], task["moved"]) == ("COMPLETED", 12)
    assert [task["status"] for task in said(capsys, "dlq", "move", "events-dead", "--status")] == [
        "COMPLETED"
    ]
    assert main(["dlq", "move", "events-dead", "--cancel"]) == 1
    assert "no task" in capsys.readouterr().err
    assert counts(client, dead) == (0, 0)


def test_a_task_is_cancelled(dead: str, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dlq", "move", "events-dead", "--to", "events", "--rate", "1/s", "--no-follow"])
    assert said(capsys, "dlq", "move", "events-dead", "--cancel")["moved"] < 12
    assert main(["dlq", "move", "events-dead", "--status"]) == 0
    assert "cancelled" in capsys.readouterr().out


def test_an_export_comes_back_by_an_import_once(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "export", "events-dead", "-o", "letters.jsonl"]) == 0
    # Others on the machine have no business with what is in it.
    assert Path("letters.jsonl").stat().st_mode & 0o077 == 0
    assert len(Path("letters.jsonl").read_text().splitlines()) == 12
    client.purge_queue(QueueUrl=dead)
    assert said(capsys, "dlq", "import", "events-dead", "letters.jsonl")["sent"] == 12
    again = said(capsys, "dlq", "import", "events-dead", "letters.jsonl")
    assert (again["sent"], again["known"]) == (0, 12)
    Path("letters.jsonl").write_text("nonsense\n")
    assert main(["dlq", "import", "events-dead", "letters.jsonl"]) == 1
    assert "line 1 is no exported letter" in capsys.readouterr().err


def test_a_body_is_repaired_from_a_file_or_in_an_editor(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = said(capsys, "dlq", "show", "events-dead", "--where", "job=report")
    one, two = (letter["message_id"] for letter in shown["letters"])
    Path("fixed.json").write_text('{"id": 8}\n')
    assert main(["dlq", "edit", "events-dead", one, "--file", "fixed.json", "--reason", "JOB-7"]) == 0
    monkeypatch.setattr(click, "edit", lambda text, **_: text.replace("7", "9") + "\n")
    assert main(["dlq", "edit", "events-dead", two, "--reason", "JOB-7"]) == 0
    shown = said(capsys, "dlq", "show", "events-dead", "--where", "job=report", "--bodies")
    assert sorted(letter["body"] for letter in shown["letters"]) == ['{"id": 8}', '{"id": 9}']
    lines = Path("dead-letters-audit.jsonl").read_text().splitlines()
    assert {json.loads(line)["message_id"] for line in lines} == {one, two}


def test_letters_are_discarded_with_a_reason_and_after_a_question(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    discard = ["dlq", "discard", "events-dead", "--where", "job=report"]
    assert main(discard) == 2
    assert "--reason" in capsys.readouterr().err
    assert main(["dlq", "discard", "events-dead", "--reason", "r"]) == 2
    assert "--all" in capsys.readouterr().err
    monkeypatch.setattr(click, "confirm", lambda text, **_: "Delete 2 message(s)" not in text)
    assert main([*discard, "--reason", "gone"]) == 0
    assert counts(client, dead) == (12, 0)
    assert said(capsys, *discard, "--reason", "gone", "--yes")["left"] == []
    assert counts(client, dead) == (10, 0)
    assert len(Path("dead-letters-audit.jsonl").read_text().splitlines()) == 2


def test_without_a_place_for_the_audit_log_nothing_is_discarded(
    dead: str, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["dlq", "discard", "events-dead", "--all", "--yes", "--reason", "r"]
    assert main([*arguments, "--audit", "absent/audit"]) == 2
    assert "absent/audit cannot be written" in capsys.readouterr().err
    assert counts(client, dead) == (12, 0)


def test_every_command_below_dlq_shows_an_example() -> None:
    group = cli.get_command(click.Context(cli), "dlq")
    assert isinstance(group, click.Group)
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert f"sqs-workers dlq {name}" in (command.help or "")
