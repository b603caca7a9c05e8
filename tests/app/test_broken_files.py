"""Files with mistakes: one clear error with its line, exit code 2, and nothing started."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqs_workers.app.building import load_functions
from sqs_workers.app.loading import load
from sqs_workers.app.problems import AppFileError
from sqs_workers.cli import main
from tests.app.broken import BROKEN, RIGHT, Broken

HANDLERS = {
    "right_handler": """
ANSWER = 42
def to_row(ctx, item): return {"event_id": item["id"]}
async def async_row(ctx, item): return {"event_id": item["id"]}
def three(ctx, item, more): return None
def none(): return None
def rows(ctx, item): yield {}
class Rows: pass
""",
    "raising_handler": "import os\n1 / 0\n",
    "unparsable_handler": "def f(:\n",
    "needing_handler": "import not_installed_anywhere\n",
    "exiting_handler": "import sys\nsys.exit(3)\n",
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in HANDLERS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("WORD", "hunter2")
    monkeypatch.delenv("DEMO_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(directory: Path, case: Broken) -> Path:
    text = RIGHT
    for old, new in case.change.items():
        assert old in text, f"{old!r} does not stand in the right file"
        text = text.replace(old, new, 1)
    path = directory / "worker.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_that_the_mistakes_are_made_in_is_right(directory: Path) -> None:
    path = directory / "worker.yaml"
    path.write_text(RIGHT, encoding="utf-8")
    load_functions(load(path), path)
    assert main(["check", "worker.yaml"]) == 0


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name.replace(" ", "_"))
def test_a_mistake_is_told_once_with_its_line(directory: Path, case: Broken) -> None:
    path = written(directory, case)
    with pytest.raises(AppFileError) as caught:
        load_functions(load(path), path)
    text = str(caught.value)
    assert [problem.line for problem in caught.value.problems] == [case.line], text
    for word in case.words:
        assert word in text
    assert "hunter2" not in text


def test_a_file_with_mistakes_ends_with_exit_code_2_before_anything_starts(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("sqs_workers.app.building.build", lambda *_, **__: started.append("built"))
    for case in BROKEN:
        written(directory, case)
        assert main(["run", "worker.yaml"]) == 2, case.name
        told = capsys.readouterr()
        assert told.out == ""
        assert "Traceback" not in told.err
        where = f"worker.yaml:{case.line}: " if case.line else "worker.yaml: "
        assert where in told.err, case.name
    assert started == []


def test_all_mistakes_of_a_file_are_told_at_once(directory: Path) -> None:
    text = RIGHT.replace("concurrency: 4", "concurency: 4").replace("type: sqlite", "type: sqlight")
    text = text.replace("name: demo", "name: ${DEMO_NAME}").replace("on_fail: leave", "on_fail: leaf")
    with pytest.raises(AppFileError) as caught:
        load_text(directory, text)
    assert [problem.line for problem in caught.value.problems] == [4, 17, 19, 32]


def test_problems_are_for_programs_too(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    (directory / "worker.yaml").write_text(RIGHT.replace("on_fail: leave", "on_fail: leaf"), encoding="utf-8")
    assert main(["check", "worker.yaml", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["problems"][0]["line"] == 17
    assert told["problems"][0]["path"] == "resources.events.on_fail"


def test_a_handler_that_has_the_name_of_another_module_is_refused(directory: Path) -> None:
    (directory / "json.py").write_text("def to_row(ctx, item): return None\n", encoding="utf-8")
    with pytest.raises(AppFileError, match=r"rename the file"):
        load_text(directory, RIGHT.replace("right_handler:to_row", "json:to_row"))


def load_text(directory: Path, text: str) -> None:
    path = directory / "worker.yaml"
    path.write_text(text, encoding="utf-8")
    load_functions(load(path), path)
