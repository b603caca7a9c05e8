"""What users of sqs-workers 0.7.3 have written. Every test here holds for that version too.

Where 0.7.3 did otherwise, `docs/migrating-from-sqs-workers.md` says so, and the test is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from sqs_workers import IMMEDIATE_RETURN, MemorySession, SQSEnv, create_standard_queue


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """boto3 itself, as `SQSEnv()` finds it in a unit test with moto."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.Session(region_name="us-east-1")


@pytest.fixture(params=["memory", "moto"])
def session(request: pytest.FixtureRequest) -> Any:
    return MemorySession() if request.param == "memory" else request.getfixturevalue("aws")


@pytest.fixture
def sqs(session: Any) -> SQSEnv:
    env = SQSEnv(session, backoff_policy=IMMEDIATE_RETURN)
    create_standard_queue(env, "emails")
    return env
