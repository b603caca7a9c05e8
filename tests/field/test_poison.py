"""Foreign and poisonous messages: none stalls the loop, none disappears unsaid."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from sqs_workers import DeadLetter, Discard, Leave, current_job
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.hooks import JobFailed, JobRetried, JobSucceeded, MessageSettled
from sqs_workers.messages import string_attribute
from tests.field.kit import Place, Watch, running, until
from tests.worlds import World, counts

JOB = {"JobName": string_attribute("work"), "ContentType": string_attribute("json")}
PICKLED = {**JOB, "ContentType": string_attribute("pickle")}

FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "a word": ("hello", JOB),
    "an empty object": ("{}", JOB),
    "a number": ("17", JOB),
    "nothing to read in base64": ("%%%", PICKLED),
    "a cut pickle": (base64.b64encode(b"\x80\x04\x95").decode(), PICKLED),
    "another producer's JSON": ('{"body": "x", "task": "celery", "headers": {}}', JOB),
    "deeply nested JSON": ("[" * 100_000, JOB),
    "a binary attribute for a codec": (
        '{"value": 1}',
        {**JOB, "ContentType": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}},
    ),
    "a binary context": ("hello", {**JOB, "JobContext": {"DataType": "Binary", "BinaryValue": b"\x00"}}),
}
NAMELESS: dict[str, tuple[str, dict[str, Any]]] = {
    "no attributes at all": ("hello", {}),
    "a name in bytes": ('{"value": 1}', {"JobName": {"DataType": "Binary", "BinaryValue": b"work"}}),
    "a name nobody knows": ('{"value": 1}', {"JobName": string_attribute("Work")}),
}


def put(env: Any, name: str, body: str, attributes: dict[str, Any]) -> str:
    url = env.queue(name).url
    answer = env.sqs_client.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    message_id: str = answer["MessageId"]
    return message_id


def policy_of(kind: str) -> Any:
    return {"leave": Leave(), "dead letter": DeadLetter("dead"), "discard": Discard()}[kind]


@pytest.mark.parametrize("policy", ["leave", "dead letter", "discard"])
def test_f27_unreadable_bodies_go_to_the_policy_and_stall_nobody(
    any_place: Place, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = any_place.env(accept=["json", "pickle"])
    watch = Watch(env)
    any_place.standard(env, "dead")
    name = any_place.standard(env, visibility_timeout=600)
    done: list[int] = []
    queue = env.queue(name, failure_policy=policy_of(policy))

    @queue.processor("work")
    def work(value: int) -> None:
        done.append(value)

    ids = [put(env, name, body, attributes) for body, attributes in FOREIGN.values()]
    work.delay(1)
    with running(env, name):
        watch.wait_for(MessageSettled, len(FOREIGN) + 1)
        work.delay(2)
        watch.wait_for(JobSucceeded, 2)
        until(lambda: len(watch.of(MessageSettled)) == len(FOREIGN) + 2, "everything settled")
    assert sorted(done) == [1, 2]
    failed = {event.message_id: event.permanent for event in watch.of(JobFailed)}
    assert failed == dict.fromkeys(ids, True)
    said = " ".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert [message_id for message_id in ids if message_id not in said] == []
    left, dead = sum(counts(env, name)), sum(counts(env, "dead"))
    expected = {"leave": (len(ids), 0), "dead letter": (0, len(ids)), "discard": (0, 0)}
    assert (left, dead) == expected[policy]
    # What bodies hold is nobody's business.
    assert "celery" not in caplog.text


@pytest.mark.parametrize("kind", NAMELESS)
def test_f28_a_message_without_a_known_job_is_kept_and_not_tried_hot(place: Place, kind: str) -> None:
    env = place.env(backoff_policy=ConstantBackoff(30))
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=600)
    env.queue(name).connect_processor("work", lambda value: None)
    put(env, name, *NAMELESS[kind])
    with running(env, name):
        watch.wait_for(JobRetried)
        until(lambda: counts(env, name) == (0, 1), "the message hidden")
        assert [event.delay for event in watch.of(JobRetried)] == [30]
        assert env.transport.calls["delete_batch"] == 0


def test_f28_an_unknown_job_is_left_to_the_redrive_policy(place: Place) -> None:
    env = place.env(backoff_policy=ConstantBackoff(1))
    watch = Watch(env)
    place.standard(env, "dead")
    name = place.standard(env, visibility_timeout=600, redrive_policy=env.redrive_policy("dead", 3))
    env.queue(name).connect_processor("work", lambda value: None)
    message_id = env.queue(name).add_job("unheard_of", value=1)
    with running(env, name) as worker:
        for attempt in (1, 2, 3):
            watch.wait_for(JobRetried, attempt)
            until(lambda: counts(env, name) == (0, 1), "the message hidden")
            place.after(1.1)
        until(lambda: counts(env, "dead") == (1, 0), "the message in the dead-letter queue")
        assert worker.worker.stats().sources[name].failed == 3
    assert [event.receive_count for event in watch.of(JobFailed)] == [1, 2, 3]
    assert {event.message_id for event in watch.of(JobFailed)} == {message_id}


def test_f30_a_job_that_always_fails_runs_as_often_as_the_redrive_policy_says(any_place: Place) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(0))
    any_place.standard(env, "dead")
    name = any_place.standard(env, redrive_policy=env.redrive_policy("dead", 3))
    seen: list[int] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        seen.append(job.receive_count)
        raise ValueError("always")

    with env.context(request="r1"):
        env.queue(name).connect_processor("work", work).delay(1)
    with running(env, name):
        until(lambda: counts(env, "dead") == (1, 0), "the message in the dead-letter queue")
    assert seen == [1, 2, 3]
    (dead,) = env.queue("dead").get_raw_messages(1)
    assert dead.body == '{"value": 1}'
    assert {name: value["StringValue"] for name, value in dead.message_attributes.items()} == {
        "JobName": "work",
        "ContentType": "json",
        "JobContext": '{"request": "r1"}',
    }
    assert counts(env, name) == (0, 0)


def test_f30_attempts_of_one_message_do_not_count_for_another(any_place: World) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(0))
    any_place.standard(env, "dead")
    name = any_place.standard(env, redrive_policy=env.redrive_policy("dead", 2))
    seen: list[tuple[int, int]] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        seen.append((value, job.receive_count))
        raise ValueError("always")

    task = env.queue(name).connect_processor("work", work)
    for number in range(3):
        task.delay(number)
    with running(env, name, concurrency=3):
        until(lambda: counts(env, "dead") == (3, 0), "all in the dead-letter queue")
    assert sorted(seen) == [(number, attempt) for number in range(3) for attempt in (1, 2)]
