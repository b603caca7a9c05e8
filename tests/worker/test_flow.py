"""Age of the oldest message, success rate, error rate."""

from __future__ import annotations

import pytest

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.clock import ManualClock
from sqs_workers.messages import Message
from sqs_workers.worker import WorkerStats
from sqs_workers.worker.flow import Flow, oldest_age


def test_rates_are_those_of_the_last_minute_when_asked_often() -> None:
    flow = Flow(0.0)
    for second in range(0, 301, 5):
        # Ten a second, one in ten of them fails, until the fifth minute, in which all fail.
        failed = second if second <= 240 else 240 + (second - 240) * 10
        succeeded = min(second, 240) * 9
        rate, errors = flow.rates(succeeded, failed, float(second))
        if second == 240:
            assert (rate, errors) == (pytest.approx(9.0), pytest.approx(0.1))
    assert (rate, errors) == (0.0, 1.0)


def test_rates_are_those_since_the_start_when_asked_for_the_first_time() -> None:
    assert Flow(100.0).rates(500, 500, 350.0) == (2.0, 0.5)


def test_before_anything_has_ended_there_are_no_rates() -> None:
    assert Flow(0.0).rates(0, 0, 0.0) == (0.0, 0.0)
    assert Flow(0.0).rates(0, 0, 5.0) == (0.0, 0.0)


def test_asking_all_the_time_keeps_few_samples() -> None:
    flow = Flow(0.0)
    for tenth in range(10_000):
        flow.rates(tenth, 0, tenth / 10)
    assert len(flow._samples) < 70


def test_the_oldest_message_is_that_which_was_sent_first() -> None:
    messages = [
        Message(str(sent), "r", "b", {} if sent is None else {"SentTimestamp": str(sent)})
        for sent in (5_000, 3_000, None)
    ]
    assert oldest_age(messages, 10.0) == 7.0
    assert oldest_age(messages[2:], 10.0) is None
    assert oldest_age([], 10.0) is None
    # Clocks differ.
    assert oldest_age(messages, 1.0) == 0.0


def test_a_worker_tells_how_its_jobs_end_and_how_old_they_are() -> None:
    clock = ManualClock()
    sqs = SQSEnv(MemorySession(clock=clock), codec="json", backoff_policy=ConstantBackoff(900))
    create_standard_queue(sqs, "jobs")
    queue = sqs.queue("jobs")
    seen: list[WorkerStats] = []

    @queue.processor("work")
    def work(number: int) -> None:
        clock.advance(1)
        seen.append(worker.stats())
        if number == 3:
            worker.stop()
        if number % 2:
            raise ValueError("odd")

    for number in range(4):
        work.delay(number=number)
    clock.advance(40)
    worker = sqs.worker(["jobs"], concurrency=1, prefetch=0)
    worker.run()

    ended = worker.stats()
    assert (ended.error_rate, ended.sources["jobs"].error_rate) == (0.5, 0.5)
    assert ended.success_rate == ended.sources["jobs"].success_rate == pytest.approx(2 / 4)
    assert ended.oldest_message is None
    assert seen[0].oldest_message == seen[0].sources["jobs"].oldest_message == pytest.approx(41)
