"""The commands that the README gives: the demo works, and the tests are started in one way everywhere."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from markdown import marked_command

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
VENV = "python3 -m venv .venv && .venv/bin/pip install -e "


def test_the_demo_processes_jobs_retries_a_failing_one_and_reports_the_dead_letter(tmp_path: Path) -> None:
    command = marked_command(README, "demo-command")
    assert command.startswith(VENV)
    python, *arguments = shlex.split(command.rpartition("&&")[2])
    assert python == ".venv/bin/python"
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = done.stdout.lower()
    for word in ("processed", "retried", "dead-letter"):
        assert word in report, done.stdout


def test_readme_and_contributing_give_the_same_command_for_the_tests() -> None:
    command = marked_command(README, "test-command")
    assert command.startswith(VENV)
    assert command.endswith("-m pytest")
    assert marked_command(ROOT / "CONTRIBUTING.md", "test-command") == command


def test_ci_takes_its_commands_from_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("test-command", "demo-command"):
        assert f"readme_command {name}" in script
