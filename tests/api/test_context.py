"""The context that travels with jobs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sqs_workers.context import JobContext, SQSContext


def test_it_has_the_methods_of_a_mapping_that_it_always_had() -> None:
    context = SQSContext.from_dict({"a": 1})
    context["b"] = 2
    context.update(c=3)
    assert context.to_dict() == {"a": 1, "b": 2, "c": 3}
    assert (context["a"], context.get("x"), context.get("x", 5), "b" in context) == (1, None, 5, True)
    context.set(d=4)
    assert repr(context) == "SQSContext({'d': 4})"
    assert list(context) == ["d"]
    context.clear()
    assert context.to_dict() == {}
    with pytest.raises(KeyError):
        context["a"]


def test_a_block_puts_back_what_was_there_before() -> None:
    context = SQSContext(a=1)
    with context(b=2) as inner:
        assert inner is context
        context["a"] = 5
        assert context.to_dict() == {"a": 5, "b": 2}
    assert context.to_dict() == {"a": 1}


def test_threads_begin_empty_and_do_not_see_each_other() -> None:
    context = SQSContext()
    context["a"] = 1
    seen: list[Any] = []

    def work() -> None:
        seen.append(context.to_dict())
        context["b"] = 2
        seen.append(context.to_dict())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [{}, {"b": 2}]
    assert context.to_dict() == {"a": 1}


def test_tasks_do_not_see_each_other() -> None:
    context = SQSContext()

    async def request(user: int) -> Any:
        with context(user=user):
            await asyncio.sleep(0)
            return context.to_dict()

    async def main() -> Any:
        return await asyncio.gather(*(request(n) for n in range(3)))

    assert asyncio.run(main()) == [{"user": 0}, {"user": 1}, {"user": 2}]


def test_a_context_that_came_with_a_job_is_seen_by_the_threads_of_its_handler() -> None:
    context = JobContext.from_dict({"a": 1})
    context["b"] = 2
    seen = []
    thread = threading.Thread(target=lambda: seen.append(context.to_dict()))
    thread.start()
    thread.join()
    assert seen == [{"a": 1, "b": 2}]
    assert isinstance(context, SQSContext)
