"""mypy and pyright judge code as a user writes it: what is accepted, what is refused, and where."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SAMPLES = ["accepted.py", "refused.py"]
EXPECTATION = re.compile(r"# E: (?P<codes>[a-z-]+(?:, [a-z-]+)*)$")
MYPY_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


def expected_codes(sample: str) -> dict[int, set[str]]:
    """mypy codes that the comments of a sample ask for, by line; any one of them satisfies the line."""
    lines = (HERE / sample).read_text(encoding="utf-8").splitlines()
    found = ((number, EXPECTATION.search(line)) for number, line in enumerate(lines, start=1))
    return {number: set(match["codes"].split(", ")) for number, match in found if match}


def require(tool: str, present: bool) -> None:
    if present:
        return
    message = f"{tool} is not installed; pip install -e '.[types]'"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def errors_by_mypy(tmp_path: Path) -> dict[tuple[str, int], set[str]]:
    require("mypy", importlib.util.find_spec("mypy") is not None)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    command += ["--show-error-codes", "--no-pretty", "--cache-dir", str(tmp_path / "cache"), "--config-file="]
    command += ["--follow-imports=silent", *(str(HERE / sample) for sample in SAMPLES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors: dict[tuple[str, int], set[str]] = {}
    for line in done.stdout.splitlines():
        if ": note: " in line:
            continue
        match = MYPY_ERROR.match(line)
        assert match, f"a line of mypy's that is no error of a sample: {line}"
        errors.setdefault((Path(match["file"]).name, int(match["line"])), set()).add(match["code"])
    return errors


def lines_by_pyright() -> set[tuple[str, int]]:
    program = shutil.which("pyright", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    require("pyright", program is not None)
    assert program is not None
    command = [program, "--outputjson", "--pythonpath", sys.executable]
    command += [str(HERE / sample) for sample in SAMPLES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(SAMPLES), done.stdout
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        for found in report["generalDiagnostics"]
        if found["severity"] == "error"
    }


@pytest.mark.timeout(300)
def test_mypy_refuses_exactly_the_marked_lines(tmp_path: Path) -> None:
    found = errors_by_mypy(tmp_path)
    expected = {(sample, line): codes for sample in SAMPLES for line, codes in expected_codes(sample).items()}
    assert sorted(found) == sorted(expected)
    wrong = {place: (codes, expected[place]) for place, codes in found.items() if not codes & expected[place]}
    assert not wrong, "errors of another kind than marked: found, expected"


@pytest.mark.timeout(300)
def test_pyright_refuses_exactly_the_marked_lines() -> None:
    found = lines_by_pyright()
    expected = {(sample, line) for sample in SAMPLES for line in expected_codes(sample)}
    assert sorted(found) == sorted(expected)


def test_the_samples_hold_marked_lines_for_every_call() -> None:
    assert expected_codes("accepted.py") == {}
    lines = (HERE / "refused.py").read_text(encoding="utf-8").splitlines()
    marked = "\n".join(lines[number - 1] for number in expected_codes("refused.py"))
    for call in (".delay(", ".bake(", ".run(", ".options(", ".adelay("):
        assert call in marked
