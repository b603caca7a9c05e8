from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sqs_workers.local import LocalServer

MakeClient = Callable[..., Any]


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """Makes boto3 clients that do not retry, and closes them."""
    clients = []

    def make(url: str, **config: Any) -> Any:
        options: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "read_timeout": 30, **config}
        client = boto3.session.Session().client(
            "sqs",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="anything",
            aws_secret_access_key="anything",
            config=Config(**options),
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture
def sqs(server: LocalServer, make_client: MakeClient) -> Any:
    return make_client(server.url)


@pytest.fixture
def url(sqs: Any) -> str:
    created: str = sqs.create_queue(QueueName="mail")["QueueUrl"]
    return created
