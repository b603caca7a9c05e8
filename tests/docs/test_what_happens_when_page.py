"""The rows of ``docs/what-happens-when.md`` name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "what-happens-when.md"
CITED = re.compile(r"\[(test_\w+)\]\(([\w./]+)\)")


def test_every_cited_test_is_where_its_link_leads() -> None:
    cited = CITED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(cited) > 40
    missing = [
        name
        for name, target in cited
        if f"def {name}(" not in (PAGE.parent / target).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_row_of_a_failure_cites_a_test() -> None:
    without: list[str] = []
    table_has_tests = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        if line.startswith(("| When", "| Failure", "| Code")):
            table_has_tests = line.rstrip().endswith("Test |")
        elif table_has_tests and not line.startswith("| ---") and not CITED.search(line):
            without.append(line)
    assert without == []
