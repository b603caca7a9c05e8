"""The account, region and queue that a command is about."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sqs_workers.app.connections import open_sqs
from sqs_workers.app.spec_resources import Sqs
from sqs_workers.cli.needs import click
from sqs_workers.exceptions import QueueNotFoundError
from sqs_workers.transport import ErrorKind, classify

__all__ = ["Account", "account_options", "queue_name"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOCAL_START_SECONDS = 10.0

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Account:
    """What the options of a command say."""

    region: str | None
    endpoint_url: str | None
    profile: str | None

    def client(self) -> Any:
        """A boto3 client of SQS."""
        if self.endpoint_url is not None:
            _await_local(self.endpoint_url)
        spec = Sqs(region_name=self.region, endpoint_url=self.endpoint_url, profile_name=self.profile)
        return open_sqs("--region, --profile", spec)

    def client_of(self, service: str, region: str | None = None) -> Any:
        """A boto3 client of another service, for a look.

        :param region: instead of that of the options.
        """
        import boto3
        from botocore.config import Config

        # What stands for SQS alone is not for others.
        own = self.endpoint_url != os.environ.get("AWS_ENDPOINT_URL_SQS")
        config = Config(
            connect_timeout=10, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3}
        )
        session: Any = boto3.Session(profile_name=self.profile, region_name=region or self.region)
        return session.client(service, endpoint_url=self.endpoint_url if own else None, config=config)


def _await_local(endpoint_url: str) -> None:
    """Give an endpoint on this machine, started a moment ago, time to listen."""
    address = urlsplit(endpoint_url)
    if address.hostname not in _LOOPBACK or address.port is None:
        return
    pause, deadline = threading.Event(), time.monotonic() + _LOCAL_START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address.hostname, address.port), timeout=1).close()
        except OSError:
            pause.wait(0.1)
        else:
            return


def account_options(function: F) -> F:
    """``--region``, ``--endpoint-url`` and ``--profile``; the command gets them as three arguments."""
    for option in (
        click.option("--profile", help="Profile of ~/.aws/config."),
        click.option(
            "--endpoint-url",
            envvar=["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"],
            help="Another endpoint than AWS's.",
        ),
        click.option("--region", envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], help="AWS region."),
    ):
        function = option(function)
    return function


def url_of(client: Any, queue: str) -> str:
    """URL of a queue that is named, or given by its URL.

    :raises QueueNotFoundError: there is no such queue, or these credentials may not see it.
    """
    if queue.startswith(("http://", "https://")):
        return queue
    try:
        url: str = client.get_queue_url(QueueName=queue)["QueueUrl"]
    except Exception as error:
        if classify(error) is ErrorKind.MISSING:
            raise QueueNotFoundError(
                f"there is no queue {queue!r} in this account and region: `sqs-workers queues` lists them, "
                f"`sqs-workers create {queue}` makes it",
                queue_name=queue,
            ) from None
        raise
    return url


def queue_name(url: str) -> str:
    """Name of a queue by its URL."""
    return url.rstrip("/").rpartition("/")[2]
