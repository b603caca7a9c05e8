"""Fixtures of the tests of the YAML runner."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from sqs_workers.local import LocalServer
from tests.app.world import World


@pytest.fixture(autouse=True)
def imports_are_forgotten() -> Iterator[None]:
    """Handlers of one test are not those of the next, although their modules have the same names."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if "handler" in name and not name.startswith(("sqs_workers", "sqlalchemy", "boto", "logging")):
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("sqs", endpoint_url=server.url)
    yield World(tmp_path, server.url, client)
    client.close()
