from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.field.kit import Place, open_place

LOCAL = pytest.param("local", marks=pytest.mark.wire)
LEAN = pytest.param("lean:local", marks=pytest.mark.wire)
MINISTACK = pytest.param("ministack", marks=pytest.mark.wire)


@pytest.fixture(params=["memory", LOCAL, LEAN])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """In memory and over the wire, with faults and a clock that the test moves."""
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture(params=["memory", LOCAL, LEAN, MINISTACK])
def any_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Also at an emulator that others wrote, in real time and without faults."""
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> Iterator[Place]:
    """In memory alone, for what does not depend on the wire."""
    with open_place("memory", request) as opened:
        yield opened


@pytest.fixture(params=[LOCAL, LEAN])
def local(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The local endpoint, for processes of their own."""
    with open_place(request.param, request) as opened:
        yield opened


@pytest.fixture(params=[LOCAL, LEAN, MINISTACK])
def wire(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Endpoints for processes of their own."""
    with open_place(request.param, request) as opened:
        yield opened
