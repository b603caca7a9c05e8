"""The pytest plugin, in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

A_TEST = """
from sqs_workers import create_standard_queue
from sqs_workers.testing import run_until_idle, sent_jobs

def test_a_users_own(sqs_env, sqs_clock):
    create_standard_queue(sqs_env, "emails")
    seen = []
    task = sqs_env.queue("emails").processor("send")(lambda to: seen.append(to))
    task.delay("a", _delay_seconds=60)
    assert len(sent_jobs(sqs_env.queue("emails"))) == 1
    assert run_until_idle(sqs_env).total == 0
    sqs_clock.advance(60)
    assert run_until_idle(sqs_env).succeeded == 1
    assert seen == ["a"]

def test_accounts_are_not_shared(sqs_env):
    assert sqs_env.get_all_known_queues() == []
"""


def test_the_fixtures_of_the_plugin_give_an_empty_account_each(tmp_path: Path) -> None:
    (tmp_path / "test_users_own.py").write_text(A_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "sqs_workers.testing.plugin", str(tmp_path)],
        # Where the package is installed, its entry point brings the plugin already.
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
