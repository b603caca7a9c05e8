"""The commands about queues and messages, against the local endpoint."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.cli import main

ROOT = Path(__file__).parents[2]


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_queue_is_created_once_with_its_dead_letter_queue(
    client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        arguments = ["create", "events", "--dead-letter", "events-dead", "--max-receives", "3"]
        assert main([*arguments, "--visibility-timeout", "5"]) == 0
    url = printed(capsys).split()[-1]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["VisibilityTimeout"] == "5"
    assert json.loads(found["RedrivePolicy"])["maxReceiveCount"] in (3, "3")


def test_a_fifo_queue_asks_for_a_fifo_dead_letter_queue(
    endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["create", "a.fifo", "--dead-letter", "dead"]) == 2
    assert "FIFO" in capsys.readouterr().err
    assert main(["create", "a.fifo", "--dead-letter", "dead.fifo"]) == 0


def test_messages_are_sent_and_looked_at_without_being_taken(
    client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["create", "events"])
    assert main(["send", "events", '{"id": 1}', "two", "-a", "kind=x"]) == 0
    capsys.readouterr()
    assert main(["peek", "events", "--json"]) == 0
    found = json.loads(printed(capsys))
    assert sorted(message["body"] for message in found) == ["two", '{"id": 1}']
    assert found[0]["attributes"] == {"kind": "x"}
    assert {message["receive_count"] for message in found} == {1}
    assert main(["peek", "events"]) == 0
    told = capsys.readouterr()
    assert "receive 2" in told.out
    assert "used up one receive" in told.err


def test_lines_of_a_file_are_messages(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["create", "events"])
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f'{{"id": {n}}}\n' for n in range(25)), encoding="utf-8")
    assert main(["send", "events", "--file", str(path)]) == 0
    assert "Sent 25 message(s)" in printed(capsys)
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n\ntwo\n"))
    assert main(["send", "events", "--file", "-", "--json"]) == 0
    assert len(json.loads(printed(capsys))["sent"]) == 2


def test_a_job_that_is_sent_runs_in_a_worker(endpoint: str, tmp_path: Path) -> None:
    main(["create", "jobs"])
    assert main(["send", "jobs", '{"name": "Ada"}', "--job", "greet"]) == 0
    (tmp_path / "myjobs.py").write_text(
        "from sqs_workers import SQSEnv\n"
        "sqs = SQSEnv(codec='json')\n"
        "@sqs.queue('jobs').processor('greet')\n"
        "def greet(name):\n"
        "    open('greeted', 'a').write(name)\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, "-m", "sqs_workers", "run", "myjobs:sqs", "jobs", "--until-idle", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert (tmp_path / "greeted").read_text() == "Ada"


def test_queues_are_listed_for_people_and_programs(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["create", "events", "--dead-letter", "events-dead"])
    main(["send", "events", "a", "b"])
    main(["send", "events-dead", "c"])
    capsys.readouterr()
    assert main(["queues", "--json"]) == 0
    found = {queue["name"]: queue for queue in json.loads(printed(capsys))}
    assert (found["events"]["visible"], found["events"]["dead_letters"]) == (2, 1)
    assert main(["queues", "events-d"]) == 0
    lines = printed(capsys).splitlines()
    assert lines[0].split("\t")[0] == "queue"
    assert [line.split("\t")[:2] for line in lines[1:]] == [["events-dead", "1"]]


def test_top_looks_as_often_as_it_is_told(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["create", "events"])
    capsys.readouterr()
    assert main(["top", "events", "--count", "2", "--interval", "0.2"]) == 0
    first, second = printed(capsys).splitlines()
    assert first.split("\t")[:3] == ["events", "0", "-"]
    assert second.split("\t")[:3] == ["events", "0", "+0.0/s"]


def test_purge_asks_and_can_be_declined(
    client: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["create", "events"])
    main(["send", "events", "a"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(["purge", "events"]) == 130
    assert "Delete about 1 message(s) of events" in capsys.readouterr().err
    assert main(["purge", "events", "--yes"]) == 0
    main(["peek", "events", "--wait", "0", "--json"])
    assert json.loads(printed(capsys).partition("[")[1] + "]") == []


def test_doctor_finds_what_is_there_and_what_is_not(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["create", "events"])
    capsys.readouterr()
    assert main(["doctor", "events"]) == 0
    assert "has no redrive policy" in printed(capsys)
    assert main(["doctor", "absent", "--json"]) == 1
    told = json.loads(printed(capsys))
    assert any(sign["what"] == "absent" and sign["level"] == "error" for sign in told["signs"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["send", "absent", "x"], 1, "there is no queue 'absent'"),
        (["peek", "absent"], 1, "there is no queue 'absent'"),
        (["purge", "absent", "--yes"], 1, "there is no queue 'absent'"),
        (["send", "absent"], 2, "nothing to send"),
        (["send", "q", "x", "-a", "novalue"], 2, "NAME=TEXT"),
        (["send", "q", "x", "--job", "j"], 2, "JSON object"),
        (["run", "worker.yml", "queue"], 2, "leave QUEUES out"),
        (["run", "absent:env"], 2, "no module `absent`"),
        (["run", "json:loads"], 2, "no SQSEnv"),
        (["run", "worker.yml", "--once", "--until-idle", "1"], 2, "exclude each other"),
        (["sned", "q"], 2, "did you mean `send`?"),
        (["queues", "--jsn"], 2, "--json"),
        (["relay", "--dsn-env", "NO_SUCH_VARIABLE"], 2, "NO_SUCH_VARIABLE holds no DSN"),
        (["queues", "--profile", "no-such-profile"], 1, "no-such-profile"),
    ],
)
def test_a_users_mistake_is_a_line_and_no_traceback(
    endpoint: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert main(arguments) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert words in told.err
    assert "Traceback" not in told.err


def test_an_endpoint_that_does_not_answer_is_a_line(
    endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["queues", "--endpoint-url", "http://127.0.0.1:1"]) == 1
    assert "the endpoint does not answer" in capsys.readouterr().err


def test_without_the_extra_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("sqs_workers.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "click", None)
    assert main(["queues"]) == 2
    assert "pip install 'sqs-workers[cli]'" in capsys.readouterr().err


def on_a_terminal(arguments: list[str], columns: int, **environment: str) -> str:
    """What a command prints on a terminal of its own."""
    outer, inner = pty.openpty()
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
        **environment,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "sqs_workers", *arguments], stdin=inner, stdout=inner, stderr=inner, env=env
    )
    os.close(inner)
    text = b""
    try:
        while True:
            try:
                chunk = os.read(outer, 65_536)
            except OSError:
                break
            if not chunk:
                break
            text += chunk
    finally:
        os.close(outer)
        process.wait(20)
    return text.decode()


@pytest.mark.parametrize("columns", [80, 160])
def test_colours_are_for_terminals_and_not_for_no_color(client: Any, columns: int) -> None:
    main(["create", "a-queue-with-quite-a-long-name-as-they-happen-to-be", "--dead-letter", "dead"])
    coloured = on_a_terminal(["doctor", "dead"], columns)
    assert "\x1b[3" in coloured
    plain = on_a_terminal(["doctor", "dead"], columns, NO_COLOR="1")
    assert "\x1b[3" not in plain
    table = on_a_terminal(["queues"], columns, NO_COLOR="1")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", table).splitlines()
    assert all(len(line) <= columns for line in lines)
    assert "dead letters" in table
