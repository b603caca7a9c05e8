"""Every file of examples/ runs by itself, without AWS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TIMEOUT = 50


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # An example that forgets the memory backend fails at once instead of calling AWS.
    warnings = "error,ignore:Boto3 will no longer support Python"
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": warnings, "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_to_its_end_and_says_what_it_did(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "an example prints what it did"


def test_there_are_examples() -> None:
    assert EXAMPLES
