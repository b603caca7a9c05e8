"""The pytest plugin: fixtures for tests on a ``MemorySession``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sqs_workers.clock import ManualClock
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["sqs_clock", "sqs_env"]


@pytest.fixture
def sqs_clock() -> ManualClock:
    """A clock that stands still; whoever waits for it moves it: a long poll on an empty queue takes no
    time."""
    from sqs_workers.clock import ManualClock

    return ManualClock(auto_advance=True)


@pytest.fixture
def sqs_env(sqs_clock: ManualClock) -> SQSEnv:
    """An environment on an empty account in memory, with the codec ``json`` and the clock ``sqs_clock``."""
    from sqs_workers.memory_sqs import MemorySession
    from sqs_workers.sqs_env import SQSEnv

    return SQSEnv(MemorySession(clock=sqs_clock), codec="json")
