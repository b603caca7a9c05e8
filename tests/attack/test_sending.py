"""Many senders of every kind at once, and sending at the very end of a program."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest

from sqs_workers import SQSEnv, create_standard_queue
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.shutdown_policies import IdleShutdown
from tests.worker.kit import PATIENCE


def _queue() -> Any:
    env = SQSEnv(session=MemorySession(), codec="json")
    create_standard_queue(env, "jobs")
    return env.queue("jobs")


def test_threads_and_tasks_that_send_at_once_share_no_batch() -> None:
    queue = _queue()
    done: Counter[int] = Counter()
    lock = threading.Lock()

    @queue.processor("work")
    def work(value: int) -> None:
        with lock:
            done[value] += 1

    barrier = threading.Barrier(33)
    errors: list[BaseException] = []

    def from_a_thread(number: int) -> None:
        try:
            barrier.wait(PATIENCE)
            first = number * 100
            assert work.delay(value=first) is not None
            with queue.add_batch():
                for index in range(1, 15):
                    assert work.delay(value=first + index) is None
            assert work.delay(value=first + 15) is not None
        except BaseException as error:
            errors.append(error)

    async def from_a_task(number: int) -> None:
        first = 10_000 + number * 100
        if number % 2:
            assert await work.adelay(value=first) is not None
            return
        with queue.add_batch():
            for index in range(3):
                assert work.delay(value=first + index) is None
                await asyncio.sleep(0)

    async def all_tasks() -> None:
        await asyncio.gather(*(from_a_task(number) for number in range(200)))

    threads = [threading.Thread(target=from_a_thread, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    barrier.wait(PATIENCE)
    asyncio.run(all_tasks())
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    queue.process_queue(IdleShutdown(0.3), 0, concurrency=8)
    expected = {number * 100 + index for number in range(32) for index in range(16)}
    expected |= {10_000 + number * 100 for number in range(1, 200, 2)}
    expected |= {10_000 + number * 100 + index for number in range(0, 200, 2) for index in range(3)}
    assert set(done) == expected
    assert set(done.values()) == {1}


def test_a_batch_that_no_thread_can_carry_is_sent_by_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = _queue()

    def refuse(*args: Any, **options: Any) -> Any:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    with queue.add_batch():
        for number in range(35):
            queue.add_job("work", value=number)
    assert _count(queue) == 35


_AT_EXIT = """
import atexit, json, sys
from sqs_workers import SQSEnv, create_standard_queue
from sqs_workers.memory_sqs import MemorySession

env = SQSEnv(session=MemorySession(), codec="json")
create_standard_queue(env, "jobs")
queue = env.queue("jobs")

@atexit.register
def last_words():
    with queue.add_batch():
        for number in range(35):
            queue.add_job("work", value=number)
    answer = env.sqs_client.get_queue_attributes(
        QueueUrl=queue.url, AttributeNames=["ApproximateNumberOfMessages"])
    print(json.dumps(answer["Attributes"]))
"""


def test_a_batch_is_sent_although_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_EXIT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"ApproximateNumberOfMessages": "35"}, done.stderr


def _count(queue: Any) -> int:
    client = queue.env.sqs_client
    attributes = client.get_queue_attributes(
        QueueUrl=queue.url, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"])
