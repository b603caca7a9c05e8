"""Fixtures of the tests of the YAML runner."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def imports_are_forgotten() -> Iterator[None]:
    """Handlers of one test are not those of the next, although their modules have the same names."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if "handler" in name and not name.startswith(("sqs_workers", "sqlalchemy", "boto", "logging")):
            del sys.modules[name]
    sys.path[:] = path
