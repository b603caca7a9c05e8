"""Sessions, clients and transports for the tests of the lean transport."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.config import Config

from sqs_workers.clock import Clock, ManualClock
from sqs_workers.transport import Boto3Transport
from sqs_workers.transport.lean import LeanTransport
from tests.servers import without_moto

__all__ = ["QUEUE", "client_of", "lean", "plain_session", "through_boto3"]

QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/queue"


def plain_session(**options: Any) -> Any:
    """A session with credentials of its own, whatever other tests have imported."""
    given = {
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "region_name": "us-east-1",
        **options,
    }
    session = boto3.session.Session(**given)
    without_moto(session.events)
    return session


@functools.cache
def _shared_session() -> Any:
    # Loading botocore's model of SQS takes longer than most tests; clients have event handlers of their own.
    return plain_session()


def client_of(url: str, *, attempts: int = 1, session: Any = None, **config: Any) -> Any:
    """A client of the server at ``url``.

    :param attempts: all attempts of a call, the first included.
    """
    options: dict[str, Any] = {
        "connect_timeout": 5,
        "read_timeout": 5,
        "retries": {"total_max_attempts": attempts, "mode": "standard"},
        "proxies": {},
        **config,
    }
    return (session or _shared_session()).client("sqs", endpoint_url=url, config=Config(**options))


@contextlib.contextmanager
def lean(client: Any, clock: Clock | None = None, **options: Any) -> Iterator[LeanTransport]:
    """A lean transport in place of ``client``; waiting before a retry takes no time."""
    transport = LeanTransport(lambda: client, clock=clock or ManualClock(auto_advance=True), **options)
    try:
        yield transport
    finally:
        transport.close()
        client.close()


@contextlib.contextmanager
def through_boto3(client: Any) -> Iterator[Boto3Transport]:
    """The transport to compare with."""
    try:
        yield Boto3Transport(lambda: client)
    finally:
        client.close()
