"""Batches of asyncio tasks: ``async with task.batch()``."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSBatchError, SQSEnv, create_standard_queue
from sqs_workers.testing import sent_jobs


class Client:
    """A client that tells which threads send, and may refuse every entry."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.threads: list[int] = []
        self.refuse = False

    def send_message_batch(self, QueueUrl: str, Entries: Any) -> Any:
        self.threads.append(threading.get_ident())
        if self.refuse:
            failed = [{"Id": e["Id"], "Code": "InvalidMessageContents", "SenderFault": True} for e in Entries]
            return {"Successful": [], "Failed": failed}
        return self._client.send_message_batch(QueueUrl=QueueUrl, Entries=Entries)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "emails")
    env.sqs_client = Client(env.sqs_client)
    return env


@pytest.fixture
def task(env: SQSEnv) -> Any:
    return env.queue("emails").processor("send")(lambda n: None)


def numbers(env: SQSEnv) -> list[int]:
    return sorted(job.kwargs["n"] for job in sent_jobs(env.queue("emails")))


def test_a_batch_of_a_coroutine_is_sent_beside_the_event_loop(env: SQSEnv, task: Any) -> None:
    async def main() -> None:
        async with task.batch():
            for n in range(12):
                assert await task.adelay(n=n) is None
            task.delay(n=12)

    asyncio.run(main())
    assert numbers(env) == list(range(13))
    assert len(env.sqs_client.threads) == 2
    assert threading.get_ident() not in env.sqs_client.threads


def test_tasks_have_batches_of_their_own_and_blocks_nest(env: SQSEnv, task: Any) -> None:
    async def one(first: int) -> None:
        async with env.queue("emails").add_batch():
            await task.adelay(n=first)
            async with task.batch():
                await task.adelay(n=first + 1)
            assert first not in numbers(env)

    async def main() -> None:
        await asyncio.gather(one(0), one(10))

    asyncio.run(main())
    assert numbers(env) == [0, 1, 10, 11]


def test_a_block_that_raises_sends_nothing_unless_told_to(env: SQSEnv, task: Any) -> None:
    async def main(**options: Any) -> None:
        async with task.batch(**options):
            await task.adelay(n=1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(main())
    assert numbers(env) == []
    with pytest.raises(ValueError, match="no"):
        asyncio.run(main(flush_on_error=True))
    assert numbers(env) == [1]


def test_what_sqs_does_not_take_is_raised_at_the_end_of_the_block(env: SQSEnv, task: Any) -> None:
    env.sqs_client.refuse = True

    async def main(fail: bool) -> None:
        async with task.batch(flush_on_error=True):
            await task.adelay(n=1)
            if fail:
                raise ValueError("no")

    with pytest.raises(SQSBatchError) as caught:
        asyncio.run(main(False))
    assert len(caught.value.unsent) == 1
    with pytest.raises(ValueError, match="no"):
        asyncio.run(main(True))
