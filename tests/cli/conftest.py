"""Fixtures of the tests of the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from sqs_workers.local import LocalServer


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture(autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of other tests are not seen."""
    monkeypatch.setenv("SQS_WORKERS_STATE_DIR", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A local endpoint, to which the variables of the process point."""
    with LocalServer() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield server.url


@pytest.fixture
def client(endpoint: str) -> Any:
    return boto3.client("sqs")
