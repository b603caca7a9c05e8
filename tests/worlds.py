"""Where a behaviour is tested: in memory with a clock that the test moves, or over the wire in real time.

Over the wire by either transport: ``local_endpoint`` and ``ministack_endpoint`` are asked through boto3,
``lean:local_endpoint`` and so on by the lean transport.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.clock import SteppableClock
from sqs_workers.transport import Mode
from tests.servers import boto_session


@dataclass
class World:
    """An SQS to test against.

    :ivar clock: moved by the test; ``None`` in real time.
    :ivar transport: that of environments, unless they are given one.
    """

    session: Any
    clock: SteppableClock | None
    transport: Mode = "boto3"
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:10]}-")

    def env(self, **options: Any) -> SQSEnv:
        options = {"codec": "json", "transport": self.transport, **options}
        return SQSEnv(self.session, queue_prefix=self.prefix, **options)

    def after(self, seconds: float) -> int:
        """How long a receive must wait for what becomes visible in ``seconds``: no time at all in memory."""
        if self.clock is not None:
            self.clock.advance(seconds)
            return 0
        return math.ceil(seconds) + 3

    def standard(self, env: SQSEnv, name: str = "jobs", **attributes: Any) -> str:
        create_standard_queue(env, name, **attributes)
        return name

    def fifo(self, env: SQSEnv, name: str = "jobs.fifo", **attributes: Any) -> str:
        create_fifo_queue(env, name, content_based_deduplication=True, **attributes)
        return name


def counts(env: SQSEnv, name: str) -> tuple[int, int]:
    """Messages that are visible, and messages that are hidden, on the queue ``name``."""
    wanted = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = env.queue(name).get_queue().url
    answer = env.sqs_client.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)
    visible, hidden = (int(answer["Attributes"][key]) for key in wanted)
    return visible, hidden


def by_transport(kind: str) -> tuple[Mode, str]:
    """The transport of a kind of world, and what it leads to."""
    bare = kind.removeprefix("lean:")
    return ("boto3", bare) if bare == kind else ("lean", bare)


@contextmanager
def open_world(kind: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """``memory``, or the name of a fixture that yields an endpoint's URL, behind ``lean:`` or not."""
    if kind == "memory":
        clock = SteppableClock()
        yield World(MemorySession(clock=clock), clock)
    else:
        transport, server = by_transport(kind)
        yield World(boto_session(request.getfixturevalue(server)), None, transport)
