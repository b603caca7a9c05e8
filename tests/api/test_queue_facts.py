"""What ``process_batch`` asks of SQS besides its messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqs_workers import MemorySession, SQSEnv, create_standard_queue


def test_process_batch_reads_the_attributes_of_its_queue_once_a_minute() -> None:
    session = MemorySession()
    env = SQSEnv(session, codec="json")
    create_standard_queue(env, "jobs")
    calls: Counter[str] = Counter()
    transport: Any = env.transport
    read = transport.get_queue_attributes

    def counted(*args: Any) -> Any:
        calls["read"] += 1
        return read(*args)

    transport.get_queue_attributes = counted
    for _ in range(5):
        env.queue("jobs").process_batch()
    assert calls["read"] == 1
    session.clock.advance(61)
    env.queue("jobs").process_batch()
    assert calls["read"] == 2
