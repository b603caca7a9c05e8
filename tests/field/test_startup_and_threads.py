"""Starting with few permissions, and sending from many threads and after a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers import QueueNotFoundError, SQSEnv
from sqs_workers.hooks import JobSucceeded, WorkerStarted
from sqs_workers.shutdown_policies import MaxTasksShutdown
from tests.field.kit import PATIENCE, Place, Watch, running, until
from tests.field.processes import ROOT
from tests.worlds import counts


def take(done: list[int]) -> Callable[[int], None]:
    def work(value: int) -> None:
        done.append(value)

    return work


LISTING = ["ListQueues:denied", "CreateQueue:denied"]


@pytest.mark.parametrize("by", ["name", "url"])
def test_f38_a_worker_starts_without_permission_to_list_or_create(place: Place, by: str) -> None:
    setup = place.env()
    name = place.standard(setup)
    url = setup.queue(name).url
    env = place.env()
    queue = env.queue(name, queue_url=url) if by == "url" else env.queue(name)
    done: list[int] = []
    task = queue.connect_processor("work", done.append)
    place.faults.set([*LISTING, "GetQueueUrl:denied"] if by == "url" else LISTING)
    task.delay(1)
    result = queue.process_queue(MaxTasksShutdown(1), 1)
    assert result is not None
    assert result.succeeded == 1
    assert done == [1]
    assert place.requests["ListQueues"] == 0


def test_f38_reading_the_visibility_timeout_may_be_denied(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    env = place.env()
    name = place.standard(env)
    env.queue(name).connect_processor("work", lambda value: None).delay(1)
    place.faults.set(["GetQueueAttributes:denied"])
    result = env.queue(name).process_queue(MaxTasksShutdown(1), 1)
    assert result is not None
    assert result.succeeded == 1
    assert "sqs:GetQueueAttributes" in caplog.text


def test_f38_a_missing_queue_is_one_clear_error(any_place: Place) -> None:
    env = any_place.env()
    queue = env.queue("absent")
    queue.connect_processor("work", lambda value: None)
    with pytest.raises(QueueNotFoundError, match=f"{any_place.prefix}absent"):
        queue.process_queue(MaxTasksShutdown(1), 1)


def test_f38_a_missing_queue_is_waited_for(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    env = place.env()
    watch = Watch(env)
    queue = env.queue("late")
    done: list[int] = []
    task = queue.connect_processor("work", done.append)
    ended: list[Any] = []

    def work() -> None:
        ended.append(queue.process_queue(MaxTasksShutdown(1), 1, missing="wait"))

    thread = threading.Thread(target=work)
    thread.start()
    place.advance_until(lambda: place.requests["GetQueueUrl"] >= 4, 5, "three more looks")
    assert watch.of(WorkerStarted) == []
    place.standard(place.env(), "late")
    place.advance_until(lambda: watch.of(WorkerStarted), 5, "the worker started")
    task.delay(1)
    thread.join(PATIENCE)
    assert ended[0].succeeded == 1
    assert len([record for record in caplog.records if "late does not exist yet" in record.getMessage()]) == 1


@pytest.mark.parametrize("name", ["made", "made.fifo"])
def test_f38_a_missing_queue_is_created(place: Place, name: str) -> None:
    env = place.env()
    queue = env.queue(name)
    done: list[int] = []
    task = queue.connect_processor("work", done.append)
    watch = Watch(env)
    ended: list[Any] = []
    thread = threading.Thread(
        target=lambda: ended.append(queue.process_queue(MaxTasksShutdown(1), 1, missing="create"))
    )
    thread.start()
    try:
        watch.wait_for(WorkerStarted)
    finally:
        # SQS's defaults: no deduplication by content.
        task.options(deduplication_id="d1" if queue.is_fifo else None).delay(1)
        thread.join(PATIENCE)
    assert ended[0].succeeded == 1


def test_f39_thirty_two_threads_send_alone_and_in_batches_and_share_nothing(any_place: Place) -> None:
    setup = any_place.env()
    name = any_place.standard(setup)
    env = any_place.env()
    queue = env.queue(name)
    done: Counter[int] = Counter()
    lock = threading.Lock()

    @queue.processor("work")
    def work(value: int) -> None:
        with lock:
            done[value] += 1

    barrier = threading.Barrier(32)
    errors: list[BaseException] = []

    def send(number: int) -> None:
        try:
            barrier.wait(PATIENCE)
            if number % 2:
                with queue.add_batch():
                    for index in range(12):
                        assert work.delay(number * 100 + index) is None
            else:
                for index in range(3):
                    assert work.delay(number * 100 + index), "no batch of another thread took it"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    expected = 16 * 12 + 16 * 3
    with running(env, name, concurrency=8):
        until(lambda: len(done) == expected, "all jobs")
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert set(done.values()) == {1}


def test_f39_threads_that_come_first_at_once_build_one_client(place: Place) -> None:
    setup = place.env()
    name = place.standard(setup)
    built: list[Any] = []

    class Session:
        def __getattr__(self, attribute: str) -> Any:
            return getattr(place.session, attribute)

        def client(self, *args: Any, **kwargs: Any) -> Any:
            built.append(place.session.client(*args, **kwargs))
            return built[-1]

    env = SQSEnv(Session(), queue_prefix=place.prefix, codec="json", transport=place.transport)
    barrier = threading.Barrier(32)
    task = env.queue(name).connect_processor("work", lambda value: None)

    def send() -> None:
        barrier.wait(PATIENCE)
        task.delay(1)

    threads = [threading.Thread(target=send) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(built) == 1
    assert counts(setup, name) == (32, 0)


FORKING = """
import os, sys
from sqs_workers import SQSEnv
from tests.servers import boto_session

sqs = SQSEnv(boto_session(sys.argv[1]), queue_prefix=sys.argv[2], codec="json", transport=sys.argv[4])
queue = sqs.queue(sys.argv[3])
task = queue.connect_processor("work", lambda value: None)
task.delay(0)
mine = id(sqs.sqs_client)
queue.open_add_batch()
task.delay(1)
children = []
for number in (10, 20, 30):
    pid = os.fork()
    if not pid:
        # The batch that the parent has open stays the parent's.
        assert task.delay(number), "the child's job went into the parent's batch"
        with queue.add_batch():
            task.delay(number + 1)
        os._exit(0 if id(sqs.sqs_client) != mine else 7)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
queue.close_add_batch()
task.delay(2)
assert id(sqs.sqs_client) == mine
print(codes)
"""


@pytest.mark.wire
def test_f39_a_forked_process_has_a_client_of_its_own_and_every_job_arrives_once(local: Place) -> None:
    env = local.env()
    name = local.standard(env)
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, local.endpoint, local.prefix, name, local.transport],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "[0, 0, 0]"), ended.stderr
    done: list[int] = []
    env.queue(name).connect_processor("work", take(done))
    watch = Watch(env)
    with running(env, name):
        watch.wait_for(JobSucceeded, 9)
        until(lambda: counts(env, name) == (0, 0), "an empty queue")
    assert sorted(done) == [0, 1, 2, 10, 11, 20, 21, 30, 31]
