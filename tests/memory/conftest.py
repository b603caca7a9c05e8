from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.memory_sqs import MemorySession


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(clock: ManualClock) -> MemorySession:
    return MemorySession(clock=clock)


@pytest.fixture
def client(session: MemorySession) -> Any:
    return session.client("sqs")


@pytest.fixture
def make_queue(client: Any) -> Callable[..., str]:
    """Create a queue, FIFO if its name says so, and return its URL."""

    def make(name: str = "jobs", **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes.setdefault("FifoQueue", "true")
            attributes.setdefault("ContentBasedDeduplication", "true")
        url: str = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    return make
