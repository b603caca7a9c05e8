"""The commands that the README gives: the demo works, and the tests are started in one way everywhere."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import marked_command

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
VENV = "python3 -m venv .venv && .venv/bin/pip install "


def test_the_demo_sends_retries_and_dead_letters_and_says_so() -> None:
    command = marked_command(README, "demo-command")
    assert command.startswith(VENV)
    python, *arguments = shlex.split(command.rpartition("&&")[2])
    assert python == ".venv/bin/python"
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("queued", "sent", "retried", "dead-letter"):
        assert word in done.stdout, done.stdout


def test_readme_and_contributing_give_the_same_command_for_the_tests() -> None:
    command = marked_command(README, "test-command")
    assert command.startswith(VENV)
    assert "'.[test]'" in command
    assert command.endswith(" && .venv/bin/python -m pytest")
    assert marked_command(ROOT / "CONTRIBUTING.md", "test-command") == command


def test_ci_takes_its_commands_from_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("test-command", "demo-command"):
        assert f"readme_command {name}" in script
