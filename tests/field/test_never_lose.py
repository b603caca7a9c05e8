"""Nothing is lost: copies before deletes, kills in the middle, sends that fail in part."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from sqs_workers import DeadLetter, PermanentError, SQSBatchError, current_job
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.hooks import JobDeadLettered, JobFailed, JobStarted
from sqs_workers.transport import EntryError
from sqs_workers.transport.protocol import SendResult
from tests.field.kit import Place, Watch, running, until
from tests.field.processes import start
from tests.worlds import counts


def bodies(env: Any, name: str) -> list[Any]:
    """Values of the jobs in a queue, in the order in which SQS hands them out; they are deleted."""
    found: list[Any] = []
    while messages := env.queue(name).get_raw_messages():
        for message in messages:
            found.append(json.loads(message.body)["value"])
            message.delete()
    return found


@pytest.mark.parametrize("fault", ["throttle", "error500", "denied", "reset"])
def test_f22_the_original_stays_until_its_copy_is_taken(place: Place, fault: str) -> None:
    env = place.env()
    watch = Watch(env)
    place.standard(env, "dead")
    name = place.standard(env, visibility_timeout=600)

    def work(value: int) -> None:
        raise PermanentError("bad")

    task = env.queue(name, failure_policy=DeadLetter("dead")).connect_processor("work", work)
    task.delay(1)
    place.faults.set([f"SendMessage:{fault}:1:count=2"])
    with running(env, name):
        until(lambda: place.requests["SendMessage"] >= 2, "a copy that failed")
        assert place.requests["DeleteMessageBatch"] == 0
        assert counts(env, name) == (0, 1)
        watch.wait_for(JobDeadLettered)
        until(lambda: counts(env, name) == (0, 0), "the original deleted")
    assert bodies(env, "dead") == [1]
    assert len(watch.of(JobStarted)) == 1


def test_f22_a_copy_that_is_never_taken_leaves_the_original(place: Place) -> None:
    env = place.env()
    watch = Watch(env)
    place.standard(env, "dead")
    name = place.standard(env, visibility_timeout=600)

    def work(value: int) -> None:
        raise PermanentError("bad")

    task = env.queue(name, failure_policy=DeadLetter("dead")).connect_processor("work", work)
    task.delay(1)
    place.faults.set(["SendMessage:denied"])
    with running(env, name, shutdown_timeout=0.5) as worker:
        watch.wait_for(JobFailed)
        until(lambda: place.requests["SendMessage"] >= 2, "a copy that failed")
        worker.worker.stop()
        result = worker.join()
    assert result.exit_code == 3
    place.advance(601)
    # The worker's last poll may have it for a moment, and gives it back.
    until(lambda: bodies(env, name) == [1], "the original")
    assert counts(env, "dead") == (0, 0)


def test_f23_a_job_that_raises_is_still_in_the_queue(any_place: Place) -> None:
    env = any_place.env(backoff_policy=ConstantBackoff(1))
    name = any_place.standard(env, visibility_timeout=600)
    seen: list[int] = []

    def work(value: int) -> None:
        job = current_job()
        assert job is not None
        seen.append(job.receive_count)
        if job.receive_count == 1:
            raise ValueError("once")

    task = env.queue(name).connect_processor("work", work)
    task.delay(1)
    env.queue(name).process_batch(1)
    assert sum(counts(env, name)) == 1
    env.queue(name).process_batch(any_place.after(1))
    assert seen == [1, 2]
    assert counts(env, name) == (0, 0)


@pytest.mark.wire
def test_f23_a_job_whose_process_is_killed_is_still_in_the_queue(wire: Place) -> None:
    env = wire.env()
    name = wire.standard(env, visibility_timeout=2)
    task = env.queue(name).connect_processor("work", lambda value: None)
    message_id = task.delay(1)
    with start(wire, name) as program:
        program.expect("running 1")
        program.send_signal(signal.SIGKILL)
        assert program.exit_code() == -signal.SIGKILL
    assert sum(counts(env, name)) == 1
    (message,) = env.queue(name).get_raw_messages(wire.after(2.5))
    assert (message.message_id, message.receive_count) == (message_id, 2)


def sent_batches(env: Any) -> list[list[Any]]:
    """Values of each ``SendMessageBatch`` call."""
    return [
        [json.loads(message.body)["value"] for message in args[1]]
        for method, args in env.transport.log
        if method == "send_batch"
    ]


def test_f24_only_the_failed_entries_of_a_batch_are_sent_again(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    task = env.queue(name).connect_processor("work", lambda value: None)
    place.faults.set(["SendMessageBatch:partial:1:entries=3+7,count=1"])
    with env.queue(name).add_batch():
        for number in range(1, 11):
            task.delay(number)
    assert sent_batches(env) == [list(range(1, 11)), [3, 7]]
    assert sorted(bodies(env, name)) == list(range(1, 11))


def test_f24_the_order_of_a_group_survives_a_failed_entry(place: Place) -> None:
    env = place.env()
    name = place.fifo(env)
    task = env.queue(name).connect_processor("work", lambda value: None)
    place.faults.set(["SendMessageBatch:partial:1:entries=1,count=2"])
    with env.queue(name).add_batch():
        for number in range(8):
            task.options(group_id="ab"[number % 2]).delay(number)
    values = bodies(env, name)
    assert [value for value in values if value % 2 == 0] == [0, 2, 4, 6]
    assert [value for value in values if value % 2 == 1] == [1, 3, 5, 7]


@pytest.mark.parametrize("fault", ["throttle", "error503", "reset", "lost"])
def test_f24_a_call_that_raises_once_is_repeated_with_the_same_deduplication_ids(
    place: Place, fault: str
) -> None:
    env = place.env()
    name = place.fifo(env)
    task = env.queue(name).connect_processor("work", lambda value: None)
    place.faults.set([f"SendMessageBatch:{fault}:1:count=1"])
    with env.queue(name).add_batch():
        for number in range(5):
            task.options(group_id=str(number), deduplication_id=f"d{number}").delay(number)
    ids = [
        [message.deduplication_id for message in args[1]]
        for method, args in env.transport.log
        if method == "send_batch"
    ]
    assert ids == [[f"d{number}" for number in range(5)]] * 2
    # The call whose answer was lost has been carried out: deduplication drops the second.
    assert sorted(bodies(env, name)) == [0, 1, 2, 3, 4]


def test_f24_what_fails_to_the_end_is_raised_with_every_unsent_job(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    queue = env.queue(name)
    task = queue.connect_processor("work", lambda value: None)
    env.transport.before["send_batch"] = lambda url, messages: _send_others(env, url, messages)
    queue.open_add_batch()
    for number in range(1, 11):
        task.delay(number)
    with pytest.raises(SQSBatchError) as caught:
        queue.close_add_batch()
    error = caught.value
    assert [json.loads(message.body)["value"] for message in error.unsent] == [3, 7]
    assert {entry["Code"] for entry in error.errors} == {"ServiceUnavailable"}
    assert name in str(error)
    del env.transport.before["send_batch"]
    queue.send_messages(error.unsent)
    assert sorted(bodies(env, name)) == list(range(1, 11))


def _send_others(env: Any, url: str, messages: list[Any]) -> list[SendResult]:
    """Jobs 3 and 7 fail, however often they are sent; the others are taken."""
    refused = [message for message in messages if message.body[-2] in "37"]
    taken = [message for message in messages if message not in refused]
    results = iter(env.transport._inner.send_batch(url, taken) if taken else ())
    failed = SendResult(None, EntryError("ServiceUnavailable"))
    return [failed if message in refused else next(results) for message in messages]
