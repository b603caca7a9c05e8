"""``init`` and the commands that it prints, as a new user types them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqs_workers.cli import main
from tests.servers import free_port
from tests.sql.databases import drop_database, open_database

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A kind of database, and the variables that lead to an empty one."""
    if request.param == "sqlite":
        yield "sqlite", {}
        return
    place = open_database("postgresql", tmp_path)
    url = place.url.set(drivername="postgresql", query={"options": f"-csearch_path={place.name}"})
    yield "postgres", {"DEMO_DSN": url.render_as_string(hide_password=False)}
    drop_database(place)


def test_the_commands_that_init_prints_lead_to_rows(
    database: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    kind, variables = database
    tools = tmp_path / "bin"
    tools.mkdir()
    # Scripts and no links: of a link Python would not know to which environment it belongs.
    for name, start in (("sqs-workers", "-m sqs_workers"), ("python", "")):
        command = tools / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    wrote = subprocess.run(
        ["sqs-workers", "init", "demo", "--database", kind, "--port", str(free_port())],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    steps = wrote.stdout[wrote.stdout.index("  cd demo") :]
    script = f"set -e\ntrap 'kill $! && wait' EXIT\n{steps}"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line for line in ran.stdout.splitlines() if line.startswith("('e-")]
    assert len(rows) == 3
    assert "refunded" in rows[0]
    assert "élève" in rows[1]


def test_files_that_are_there_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "handler.py").write_text("mine", encoding="utf-8")
    assert main(["init", str(tmp_path)]) == 1
    assert "handler.py" in capsys.readouterr().err
    assert (tmp_path / "handler.py").read_text() == "mine"
    assert not (tmp_path / "worker.yaml").exists()
    assert main(["init", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "worker.yaml").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_init_writes_is_right(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_DSN", f"{kind}://")
    # Another test may have loaded its own.
    monkeypatch.delitem(sys.modules, "handler", raising=False)
    main(["init", str(tmp_path / "new"), "--database", kind])
    assert main(["check", str(tmp_path / "new" / "worker.yaml")]) == 0
