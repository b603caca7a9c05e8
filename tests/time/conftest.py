"""A moto server with a bucket and a queue, empty at each test's start."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sqs_workers import SQSEnv, create_standard_queue
from tests.servers import EndpointSession, boto_session


@dataclass
class Cloud:
    """SQS and S3 at one endpoint.

    :ivar name: of the queue and of the bucket; no other test has it.
    """

    session: EndpointSession
    s3: Any
    name: str

    def env(self, **options: Any) -> SQSEnv:
        return SQSEnv(self.session, codec="json", **options)

    def objects(self, bucket: str | None = None) -> list[str]:
        """Keys of the objects of a bucket."""
        answer = self.s3.list_objects_v2(Bucket=bucket or self.name)
        return [entry["Key"] for entry in answer.get("Contents", ())]


@pytest.fixture
def cloud(moto_endpoint: str) -> Iterator[Cloud]:
    session = boto_session(moto_endpoint)
    s3 = session.client("s3")
    name = f"t-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    made = Cloud(session, s3, name)
    create_standard_queue(made.env(), name)
    yield made
    s3.close()
