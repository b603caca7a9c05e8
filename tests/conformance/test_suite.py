"""The suite about itself: how many cases it has, and that its list of known errors is about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.conftest import BACKENDS
from tests.conformance.known_errors import KNOWN_ERRORS, NOT_RUN
from tests.conformance.pages import ROOT, api, guide

HERE = Path(__file__).parent
FEWEST_CASES = 150


@pytest.fixture(scope="module")
def cases() -> dict[str, set[str]]:
    """The names of all cases, by backend, as pytest collects them."""
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-n0"]
    files = sorted(str(path) for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    names: dict[str, set[str]] = {backend: set() for backend in BACKENDS}
    for line in found.stdout.splitlines():
        test = line.partition("::")[2]
        function, _, ids = test.rstrip("]").partition("[")
        for backend in BACKENDS:
            if ids == backend or ids.startswith(f"{backend}-"):
                others = ids.removeprefix(backend).removeprefix("-")
                names[backend].add(f"{function}[{others}]" if others else function)
    return names


def test_every_backend_has_its_cases_and_memory_has_all_of_them(cases: dict[str, set[str]]) -> None:
    assert len(cases["memory"]) >= FEWEST_CASES
    assert cases["moto"] == cases["ministack"] < cases["memory"]
    assert cases["lean"] == cases["memory"]
    functions = {case.partition("[")[0] for case in cases["memory"]}
    assert len(functions) >= FEWEST_CASES


@pytest.mark.parametrize("backend", ["lean", "moto", "ministack"])
def test_every_known_error_names_a_case_that_exists(cases: dict[str, set[str]], backend: str) -> None:
    known = cases[backend] | {case.partition("[")[0] for case in cases[backend]}
    listed = {*KNOWN_ERRORS.get(backend, {}), *NOT_RUN[backend]}
    assert not listed - known
    assert all(reason for table in (KNOWN_ERRORS, NOT_RUN) for reason in table.get(backend, {}).values())


def test_the_memory_backend_has_no_known_errors() -> None:
    assert set(KNOWN_ERRORS) == {"moto", "ministack"}
    assert set(NOT_RUN) == {"lean", "moto", "ministack"}


def test_pages_are_pages_of_the_sqs_documentation() -> None:
    assert api("SendMessage") == f"{ROOT}/APIReference/API_SendMessage.html"
    assert guide("quotas-queues") == f"{ROOT}/SQSDeveloperGuide/quotas-queues.html"
