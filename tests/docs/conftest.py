"""boto3 that answers from memory, for code that is written as if it talked to AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.httpsession import URLLib3Session

from sqs_workers.memory_sqs import MemorySession


@pytest.fixture
def aws_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemorySession:
    """Every boto3 session, client and resource made meanwhile belongs to one ``MemorySession``.

    The working directory is a temporary one, and a client that botocore makes all the
    same cannot send anything.
    """
    session = MemorySession()

    def refuse(_self: object, request: Any) -> None:
        raise AssertionError(f"a documented example talked to {request.url}")

    for owner in (boto3, boto3.session):
        monkeypatch.setattr(owner, "Session", lambda *args, **kwargs: session)
    monkeypatch.setattr(boto3, "client", session.client)
    monkeypatch.setattr(boto3, "resource", session.resource)
    monkeypatch.setattr(URLLib3Session, "send", refuse)
    for variable in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return session
