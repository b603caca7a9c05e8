"""Order within groups, and what fits into a call and into a message."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from sqs_workers import (
    BatchMessages,
    DeadLetter,
    InvalidMessageError,
    MessageTooLargeError,
    RawQueue,
    current_job,
)
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.hooks import JobSucceeded, MessageReleased
from tests.field.kit import Gate, Place, Watch, running, until
from tests.worlds import counts

MEBIBYTE = 1_048_576


def send_groups(env: Any, name: str, task: Any) -> None:
    with env.queue(name).add_batch():
        for group, number in [("A", 1), ("A", 2), ("B", 1), ("A", 3), ("B", 2)]:
            task.options(group_id=group).delay(f"{group}{number}")


def test_f40_a_failed_group_waits_in_order_while_another_runs_through(any_place: Place) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(1))
    watch = Watch(env)
    name = any_place.fifo(env, visibility_timeout=600)
    calls: list[str] = []
    lock = threading.Lock()

    def work(value: str) -> None:
        with lock:
            calls.append(value)
            first = value == "A1" and calls.count("A1") == 1
        if first:
            raise ValueError("once")

    task = env.queue(name).connect_processor("work", work)
    send_groups(env, name, task)
    began = time.monotonic()
    with running(env, name, concurrency=4, prefetch=10):
        watch.wait_for(JobSucceeded, 2)
        assert [call for call in calls if call[0] == "B"] == ["B1", "B2"]
        assert "A2" not in calls
        any_place.after(1.1)
        watch.wait_for(JobSucceeded, 5)
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    # Right after A1: its backoff of a second, and not the 600 of the visibility timeout.
    assert time.monotonic() - began < 15
    assert [call for call in calls if call[0] == "A"] == ["A1", "A1", "A2", "A3"]
    for event in watch.of(MessageReleased):
        assert event.reason == "an earlier job of the group failed"


def test_f40_the_rest_of_a_group_is_released_at_once_and_not_left_hidden(place: Place) -> None:
    env = place.env(backoff_policy=ConstantBackoff(0))
    watch = Watch(env)
    name = place.fifo(env, visibility_timeout=600)
    calls: list[str] = []

    def work(value: str) -> None:
        calls.append(value)
        if len(calls) == 1:
            raise ValueError("once")

    queue = env.queue(name)
    task = queue.connect_processor("work", work)
    for number in (1, 2, 3):
        task.options(group_id="A").delay(f"A{number}")
    queue.process_batch()
    assert calls == ["A1"]
    assert len(watch.of(MessageReleased)) == 2
    assert counts(env, name) == (3, 0)
    # The next receive knows nothing of the failure.
    assert queue.process_batch().succeeded_count() == 3
    assert calls == ["A1", "A1", "A2", "A3"]


def test_f40_a_group_goes_on_when_its_failed_message_has_left_the_queue(any_place: Place) -> None:
    env = any_place.env(
        backoff_policy=ConstantBackoff(0), failure_policy=DeadLetter("dead.fifo"), max_attempts=2
    )
    any_place.fifo(env, "dead.fifo")
    name = any_place.fifo(env, visibility_timeout=600, redrive_policy=env.redrive_policy("dead.fifo", 5))
    calls: list[str] = []
    lock = threading.Lock()

    def work(value: str) -> None:
        with lock:
            calls.append(value)
        if value == "A1":
            raise ValueError("always")

    task = env.queue(name).connect_processor("work", work)
    send_groups(env, name, task)
    with running(env, name, concurrency=4, prefetch=10):
        until(lambda: {"A2", "A3", "B2"} <= set(calls), "the others")
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert [call for call in calls if call[0] == "A"] == ["A1", "A1", "A2", "A3"]
    assert [call for call in calls if call[0] == "B"] == ["B1", "B2"]
    assert counts(env, "dead.fifo") == (1, 0)


def test_f40_a_batch_handler_that_fails_keeps_the_order_of_its_group(place: Place) -> None:
    env = place.env(backoff_policy=ConstantBackoff(0))
    name = place.fifo(env, visibility_timeout=600)
    calls: list[list[int]] = []

    def work(values: list[dict[str, int]]) -> None:
        calls.append([item["value"] for item in values])
        if len(calls) == 1:
            raise ValueError("once")

    queue = env.queue(name, batching_policy=BatchMessages(batch_size=2))
    task = queue.connect_processor("work", work)
    for number in range(4):
        task.options(group_id="A").delay(value=number)
    with running(env, name):
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert [number for call in calls[1:] for number in call] == [0, 1, 2, 3]


def batch_bytes(env: Any) -> list[int]:
    return [
        sum(message.size for message in args[1])
        for method, args in env.transport.log
        if method == "send_batch"
    ]


def test_f41_a_batch_is_packed_by_bytes_of_bodies_and_attributes(any_place: Place) -> None:
    env = any_place.env()
    name = any_place.standard(env)
    lengths: list[int] = []
    queue = env.queue(name, RawQueue)
    queue.connect_raw_processor(lambda message: lengths.append(len(message.body)))
    with queue.add_batch():
        for _ in range(10):
            queue.add_raw_job("x" * 200 * 1024)
        for _ in range(3):
            queue.add_raw_job("漢" * 80_000)
    sizes = batch_bytes(env)
    assert max(sizes) <= MEBIBYTE
    assert len(sizes) >= 3
    with running(env, name):
        until(lambda: len(lengths) == 13, "all jobs")
    assert sorted(lengths) == [80_000] * 3 + [200 * 1024] * 10


def test_f41_jobs_of_a_batch_are_packed_by_their_encoded_size(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    queue = env.queue(name)
    lengths: list[int] = []
    task = queue.connect_processor("work", lambda value: lengths.append(len(value)))
    with queue.add_batch():
        for _ in range(10):
            task.delay("x" * 200 * 1024)
        for _ in range(3):
            task.delay("漢" * 80_000)
    assert max(batch_bytes(env)) <= MEBIBYTE
    with running(env, name):
        until(lambda: len(lengths) == 13, "all jobs")
    assert sorted(lengths) == [80_000] * 3 + [200 * 1024] * 10


def test_f41_attributes_count_too(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    raw = env.queue(name, RawQueue)
    attributes = {"notes": {"DataType": "String", "StringValue": "é" * 20_000}}
    # 500,000 bytes and 40,000 of attributes: two fit into a call by their bodies alone.
    with raw.add_batch():
        for _ in range(2):
            raw.add_raw_job("x" * 500_000, attributes=attributes)
    assert len(batch_bytes(env)) + env.transport.calls["send"] == 2
    assert counts(env, name) == (2, 0)


def test_f41_a_job_that_is_too_large_is_refused_before_anything_of_its_batch_is_lost(
    any_place: Place,
) -> None:
    env = any_place.env()
    name = any_place.standard(env)
    queue = env.queue(name)
    task = queue.connect_processor("work", lambda value: None)
    with queue.add_batch():
        task.delay("first")
        with pytest.raises(MessageTooLargeError) as caught:
            task.delay("漢" * 350_000)
        task.delay("last")
    assert caught.value.size > caught.value.limit == MEBIBYTE
    assert name in str(caught.value)
    assert "work" in str(caught.value)
    values = [json.loads(message.body)["value"] for message in queue.get_raw_messages(1)]
    assert sorted(values) == ["first", "last"]


ODD = ["\x00\x01\x08\x0b\x1f", "\ufffe\uffff", "\ud800", "😀 👩‍👩‍👧‍👦 漢字 \u202e", "\r\n\t", "\x7f\x85"]


@pytest.mark.parametrize("value", ODD, ids=ascii)
@pytest.mark.parametrize("codec", ["json", "pickle", "pickle_compat"])
def test_f43_text_of_every_kind_makes_the_round_trip(any_place: Place, codec: str, value: str) -> None:
    env = any_place.env(accept=["json", "pickle", "pickle_compat"])
    name = any_place.standard(env)
    seen: list[Any] = []

    def work(value: str) -> None:
        job = current_job()
        assert job is not None
        seen.append((value, job.context["who"]))

    task = env.queue(name).connect_processor("work", work)
    with env.context(who=value):
        task.options(codec=codec).delay(value)
    env.queue(name).process_batch(1)
    assert seen == [(value, value)]


@pytest.mark.parametrize("value", ["\x00", "a\x0bb", "\ufffe", "\ud800"], ids=ascii)
def test_f43_a_raw_body_that_sqs_would_refuse_is_refused_where_it_is_sent(place: Place, value: str) -> None:
    env = place.env()
    name = place.standard(env)
    raw = env.queue(name, RawQueue)
    with raw.add_batch():
        raw.add_raw_job("good")
        with pytest.raises(InvalidMessageError, match=name):
            raw.add_raw_job(value)
    assert counts(env, name) == (1, 0)


def test_f43_an_odd_job_name_is_refused_where_it_is_sent(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    with pytest.raises(InvalidMessageError, match="JobName"):
        env.queue(name).add_job("a\x00b")
    assert counts(env, name) == (0, 0)


def test_f44_an_empty_batch_makes_no_call(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    queue = env.queue(name)
    queue.connect_processor("work", lambda value: None)
    before = sum(place.requests.values())
    with queue.add_batch():
        pass
    queue.open_add_batch()
    queue.close_add_batch()
    queue.send_messages([])
    assert sum(place.requests.values()) == before


def test_f44_an_answer_without_messages_is_normal(any_place: Place) -> None:
    env = any_place.env()
    name = any_place.standard(env)
    queue = env.queue(name)
    gate = Gate()
    task = queue.connect_processor("work", lambda value: gate.open())
    assert queue.process_batch().total_count() == 0
    assert queue.get_raw_messages() == []
    assert queue.drain_queue() == 0
    env.transport.before["receive"] = lambda *args: [] if env.transport.calls["receive"] < 6 else None
    with running(env, name, wait_second=0):
        until(lambda: env.transport.calls["receive"] >= 6, "empty answers")
        task.delay(1)
        gate.wait()
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
