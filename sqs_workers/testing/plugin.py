"""The pytest plugin: fixtures for tests on a ``MemorySession``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sqs_workers.clock import SteppableClock
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["sqs_clock", "sqs_env"]


@pytest.fixture
def sqs_clock() -> SteppableClock:
    """The clock of :func:`sqs_env`: real time, which a test moves on with ``sqs_clock.advance(60)``."""
    from sqs_workers.clock import SteppableClock

    return SteppableClock()


@pytest.fixture
def sqs_env(sqs_clock: SteppableClock) -> SQSEnv:
    """An environment on an empty account in memory, with the codec ``json`` and the clock ``sqs_clock``."""
    from sqs_workers.memory_sqs import MemorySession
    from sqs_workers.sqs_env import SQSEnv

    return SQSEnv(MemorySession(clock=sqs_clock), codec="json")
