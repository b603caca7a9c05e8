"""Runs each case on every backend; what an emulator is known to get wrong is an expected failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from tests.conformance.backend import Sqs
from tests.conformance.known_errors import KNOWN_ERRORS, NOT_RUN
from tests.servers import wire_client

HERE = Path(__file__).parent
BACKENDS = ("memory", "moto", "ministack")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sqs" not in metafunc.fixturenames:
        return
    if not any(marker.args for marker in metafunc.definition.iter_markers("documented")):
        raise pytest.UsageError(f"{metafunc.definition.nodeid} names no AWS page: add @documented(...)")
    alone = metafunc.definition.get_closest_marker("memory_only") is not None
    backends = [
        pytest.param(name, marks=() if name == "memory" else (pytest.mark.wire,))
        for name in (BACKENDS[:1] if alone else BACKENDS)
    ]
    metafunc.parametrize("sqs", backends, indirect=True, scope="function")


def case_name(item: pytest.Function) -> tuple[str, str]:
    """The case and the backend of a collected test."""
    backend = str(item.callspec.params["sqs"])
    ids = item.callspec.id
    others = (
        ids.removeprefix(backend).removeprefix("-")
        if ids.startswith(backend)
        else ids.removesuffix(f"-{backend}")
    )
    return f"{item.originalname}[{others}]" if others else item.originalname, backend


def listed(table: Mapping[str, Mapping[str, str]], backend: str, case: str) -> str | None:
    """The reason listed for a case, or for all cases of its function."""
    reasons = table.get(backend, {})
    return reasons.get(case) or reasons.get(case.partition("[")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        if "sqs" not in getattr(getattr(item, "callspec", None), "params", {}):
            continue
        case, backend = case_name(item)
        if reason := listed(NOT_RUN, backend, case):
            item.add_marker(pytest.mark.xfail(reason=reason, run=False, strict=True))
        elif reason := listed(KNOWN_ERRORS, backend, case):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(scope="session")
def wire_clients() -> dict[str, Any]:
    """The clients already made, by backend: making one takes longer than most cases."""
    return {}


@pytest.fixture
def sqs(request: pytest.FixtureRequest, wire_clients: dict[str, Any]) -> Iterator[Sqs]:
    backend: str = request.param
    if backend == "memory":
        from sqs_workers.memory_sqs import MemorySession

        clock = ManualClock()
        view = Sqs(backend, MemorySession(clock=clock).client("sqs"), clock)
    else:
        endpoint: str = request.getfixturevalue(f"{backend}_endpoint")
        if backend not in wire_clients:
            wire_clients[backend] = wire_client(endpoint)
        view = Sqs(backend, wire_clients[backend], None)
    yield view
    view.close()
