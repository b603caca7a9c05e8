"""An environment on an account in memory whose time stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers import JobQueue, MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(clock: ManualClock) -> MemorySession:
    return MemorySession(clock=clock)


@pytest.fixture
def env(session: MemorySession) -> SQSEnv:
    return SQSEnv(session, codec="json")


@pytest.fixture
def make_queue(env: SQSEnv) -> Callable[..., Any]:
    """Creates a queue on SQS and declares it."""

    def make(name: str = "emails", *args: Any, **settings: Any) -> Any:
        (create_fifo_queue if name.endswith(".fifo") else create_standard_queue)(env, name)
        return env.queue(name, *args, **settings)

    return make


@pytest.fixture
def queue(make_queue: Callable[..., Any]) -> JobQueue:
    return make_queue()


@pytest.fixture
def live_env() -> SQSEnv:
    """An environment in real time, for workers with threads of their own."""
    return SQSEnv(MemorySession(), codec="json")


@pytest.fixture
def live_queue(live_env: SQSEnv) -> JobQueue:
    create_standard_queue(live_env, "emails")
    return live_env.queue("emails")
