"""The environment: clients, queues and settings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import pytest

from sqs_workers import (
    BatchMessages,
    ConstantBackoff,
    DeadLetterQueue,
    Discard,
    IdleShutdown,
    JobQueue,
    Leave,
    MaxTasksShutdown,
    MemorySession,
    RawQueue,
    SQSEnv,
    create_standard_queue,
    delete_queue,
)
from sqs_workers.exceptions import (
    ConfigurationError,
    InvalidQueueNameError,
    QueueConflictError,
    QueueNotFoundError,
)
from sqs_workers.hooks import JobSucceeded
from sqs_workers.shutdown_policies import ASAP_SHUTDOWN
from sqs_workers.testing import sent_jobs


class CountingSession:
    """Counts the clients that it makes."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.options: list[Any] = []

    def client(self, name: str, **options: Any) -> Any:
        self.made.append(object())
        self.options.append(options)
        return self.made[-1]

    def resource(self, name: str, **options: Any) -> Any:
        return object()


def test_one_client_is_built_at_first_use_for_all_threads() -> None:
    session = CountingSession()
    env = SQSEnv(session)
    assert session.made == []
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(env.sqs_client)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(session.made) == 1
    assert set(map(id, seen)) == {id(session.made[0])}
    config = session.options[0]["config"]
    assert (config.retries["mode"], config.parameter_validation) == ("standard", False)
    assert config.read_timeout > 20
    assert config.max_pool_connections >= 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_f39_a_forked_process_has_a_client_of_its_own_unless_it_was_given() -> None:
    env = SQSEnv(CountingSession())
    given = SQSEnv(CountingSession(), sqs_client=object())
    before, kept = env.sqs_client, given.sqs_client
    child = os.fork()
    if child == 0:
        os._exit(0 if env.sqs_client is not before and given.sqs_client is kept else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert env.sqs_client is before


def test_a_given_resource_stands_for_the_client_too() -> None:
    class Resource:
        class meta:
            client = object()

    assert SQSEnv(CountingSession(), sqs_resource=Resource()).sqs_client is Resource.meta.client


def test_importing_the_package_loads_no_boto3_and_no_asyncio() -> None:
    code = (
        "import sys, sqs_workers; from sqs_workers import *; import sqs_workers.testing.plugin as p; "
        "sqs_workers.SQSEnv(); "
        "bad = {'boto3', 'botocore', 'asyncio', 'sqlalchemy', 'yaml'} & set(sys.modules) - set(BEFORE); "
        "sys.exit(str(sorted(bad)) if bad else 0)"
    )
    code = "import sys, pytest; BEFORE = list(sys.modules); " + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_default_session_is_the_boto3_module() -> None:
    import boto3

    env = SQSEnv()
    assert env.session is boto3


def test_a_memory_session_gives_its_clock(session: Any, clock: Any) -> None:
    assert SQSEnv(session).clock is clock


@pytest.mark.parametrize("name", ["", "has space", "x" * 81, "dot.ted", "a/b", "é", ".fifo"])
def test_queue_names_that_sqs_refuses_are_refused(env: Any, name: str) -> None:
    with pytest.raises(InvalidQueueNameError, match="80"):
        env.queue(name)
    assert env.queues == {}


def test_the_prefix_counts_for_the_length(session: Any) -> None:
    with pytest.raises(InvalidQueueNameError):
        SQSEnv(session, "p" * 10).queue("x" * 75)


def test_the_same_queue_is_asked_for_by_name_or_with_the_same_settings(env: Any) -> None:
    queue = env.queue("q", JobQueue, BatchMessages(5), ConstantBackoff(3), failure_policy=Discard())
    assert env.queue("q") is queue
    again = env.queue("q", JobQueue, BatchMessages(5), ConstantBackoff(3), failure_policy=Discard())
    assert again is queue
    raw = env.queue("raw", RawQueue)
    assert env.queue("raw") is raw
    dead = env.queue("dead", DeadLetterQueue.maker(queue))
    assert env.queue("dead", DeadLetterQueue.maker(queue)) is dead


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"queue_maker": RawQueue}, "queue_maker"),
        ({"batching_policy": BatchMessages(6)}, "batching_policy"),
        ({"backoff_policy": ConstantBackoff(4)}, "backoff_policy"),
        ({"queue_url": "https://elsewhere/q"}, "queue_url"),
        ({"failure_policy": Leave()}, "failure_policy"),
        ({"max_attempts": 3}, "max_attempts"),
    ],
)
def test_other_settings_for_the_same_queue_are_an_error_that_names_them(
    env: Any, arguments: Any, named: str
) -> None:
    env.queue("q", JobQueue, BatchMessages(5), ConstantBackoff(3), failure_policy=Discard())
    with pytest.raises(QueueConflictError, match=named):
        env.queue("q", **arguments)
    with pytest.raises(ValueError, match=named):
        env.queue("q", **arguments)


def test_unknown_and_impossible_settings_are_refused(env: Any) -> None:
    for settings in ({"nonsense": 1}, {"max_attempts": 0}, {"timeout": -1}, {"permanent_errors": [1]}):
        with pytest.raises(ConfigurationError):
            env.queue("q", **settings)


def test_a_job_on_a_raw_queue_is_a_conflict(env: Any) -> None:
    env.queue("q", RawQueue)
    with pytest.raises(QueueConflictError):
        env.processor("q", "job")


def test_makers_of_ones_own_get_what_they_always_got(env: Any) -> None:
    class Own(JobQueue):
        pass

    queue = env.queue("q", partial(Own))
    assert isinstance(queue, Own)
    assert queue.env is env
    assert hash(queue) == hash(queue)
    assert env.queue("r", lambda **kwargs: RawQueue(**kwargs)).name == "r"


def test_f38_a_queue_is_used_by_its_url_without_looking_for_it(env: Any, session: Any) -> None:
    url = create_standard_queue(SQSEnv(session, "other-"), "real")
    queue = env.queue("alias", queue_url=url)
    queue.connect_processor("job", lambda: None)
    env.transport = Denying(env.transport, "get_queue_url")
    queue.add_job("job")
    assert queue.process_batch().succeeded_count() == 1
    assert queue.get_queue().url == url


class Denying:
    def __init__(self, transport: Any, *names: str) -> None:
        self._transport = transport
        self._names = names

    def __getattr__(self, name: str) -> Any:
        assert name not in self._names, f"{name} was called"
        return getattr(self._transport, name)


def test_f38_a_missing_queue_is_one_clear_error(env: Any) -> None:
    queue = env.queue("nope")
    for call in (lambda: queue.add_job("x"), queue.process_batch, queue.process_queue, queue.get_queue):
        with pytest.raises(QueueNotFoundError, match="'nope' does not exist") as raised:
            call()
        assert raised.value.queue_name == "nope"


def test_f38_a_missing_queue_is_created_if_told_to(env: Any) -> None:
    queue = env.queue("new.fifo")
    with pytest.raises(ConfigurationError, match="missing"):
        queue.process_queue(missing="perhaps")
    queue.process_queue(ASAP_SHUTDOWN, wait_second=0, missing="create")
    assert env.get_all_known_queues() == ["new.fifo"]


def test_f38_a_missing_queue_is_waited_for_if_told_to(env: Any, clock: Any) -> None:
    queue = env.queue("late")
    thread = threading.Thread(
        target=lambda: queue.process_queue(ASAP_SHUTDOWN, wait_second=0, missing="wait", handle_signals=False)
    )
    thread.start()
    clock.wait_for_waiters(1)
    create_standard_queue(env, "late")
    clock.advance(5)
    thread.join(10)
    assert not thread.is_alive()


def test_a_queue_created_after_it_was_missed_is_found(env: Any) -> None:
    queue = env.queue("q")
    with pytest.raises(QueueNotFoundError):
        queue.add_job("x")
    create_standard_queue(env, "q")
    assert queue.add_job("x")
    delete_queue(env, "q")
    with pytest.raises(QueueNotFoundError):
        queue.add_job("x")


def test_all_known_queues_are_listed_page_by_page_without_the_prefix(session: Any) -> None:
    env = SQSEnv(session, "p-")
    for n in range(1003):
        create_standard_queue(env, f"q{n}")
    create_standard_queue(SQSEnv(session), "stranger")
    assert sorted(env.get_all_known_queues()) == sorted(f"q{n}" for n in range(1003))


def test_add_job_of_the_environment_is_deprecated_and_works(env: Any, queue: Any) -> None:
    with pytest.warns(DeprecationWarning, match=r"sqs\.queue"):
        assert env.add_job("emails", "send", to="a")
    assert sent_jobs(queue)[0].kwargs == {"to": "a"}


def test_process_queues_works_all_with_a_processor_and_leaves_dead_letters_alone(live_env: Any) -> None:
    env, seen = live_env, []
    create_standard_queue(env, "dead")
    create_standard_queue(env, "one", redrive_policy=env.redrive_policy("dead", 3))
    create_standard_queue(env, "two")
    create_standard_queue(env, "nobody")
    for name in ("one", "two", "dead"):
        env.processor(name, "job")(lambda n, name=name: seen.append(name))
        env.queue(name).add_job("job", n=1)
    create_standard_queue(env, "two-dead")
    env.queue("two-dead", DeadLetterQueue.maker(env.queue("two")))
    result = env.process_queues(shutdown_policy_maker=lambda: MaxTasksShutdown(2), wait_second=0)
    assert sorted(seen) == ["one", "two"]
    assert sorted(result.counts) == ["one", "two"]


def test_a_worker_takes_queues_by_weight_and_refuses_nonsense(live_env: Any) -> None:
    env = live_env
    for name in ("mail", "empty"):
        create_standard_queue(env, name)
    env.queue("mail").connect_processor("job", lambda: None)
    worker = env.worker(["mail:3"], concurrency=2, wait_second=0, shutdown_policy=MaxTasksShutdown(1))
    env.queue("mail").add_job("job")
    assert worker.run().succeeded == 1
    for queues in (["mail:x"], ["mail:0"], ["empty"], [], ["mail", "mail"]):
        with pytest.raises(ConfigurationError):
            env.worker(queues)


def test_hooks_are_added_by_a_decorator(env: Any, queue: Any) -> None:
    seen = []

    @env.on(JobSucceeded)
    def watch(event: JobSucceeded) -> None:
        seen.append(event.job_name)

    queue.connect_processor("job", lambda: None)
    queue.add_job("job")
    queue.process_batch()
    assert seen == ["job"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"wait_second": 21}, "20"),
        ({"heartbeat": 30}, "third"),
        ({"heartbeat": 60, "visibility_timeout": 40}, "third"),
        ({"visibility_timeout": 50_000}, "43200"),
        ({"executor": "rocket"}, "executor"),
        ({"executor": "inline", "concurrency": 4}, "inline"),
        ({"executor": "inline"}, "async"),
        ({"processes": 0}, "processes"),
        ({"processes": 2}, "env_path"),
        ({"processes": 2, "env_path": "nonsense"}, "env_path"),
        ({"processes": 2, "env_path": "os:nonsense"}, "leads nowhere"),
    ],
)
def test_options_that_cannot_work_are_refused_at_the_call(queue: Any, options: Any, says: str) -> None:
    async def job() -> None: ...

    queue.connect_processor("job", job)
    with pytest.raises(ConfigurationError, match=says):
        queue.process_queue(ASAP_SHUTDOWN, **options)


def test_process_queue_runs_until_the_policy_says_stop(live_queue: Any) -> None:
    queue, seen = live_queue, []
    queue.connect_processor("job", lambda n: seen.append(n))
    for n in range(12):
        queue.add_job("job", n=n)
    result = queue.process_queue(ASAP_SHUTDOWN, wait_second=0)
    assert sorted(seen) == list(range(12))
    assert result.succeeded == 12
    assert queue.process_queue(ASAP_SHUTDOWN, 0).succeeded == 0


def test_a_subclass_that_overrides_process_batch_is_worked_through_it(make_queue: Any) -> None:
    calls = []

    class Own(JobQueue):
        def process_batch(self, wait_seconds: int = 0) -> Any:
            calls.append(wait_seconds)
            return super().process_batch(0)

    make_queue("own", Own).process_queue(IdleShutdown(0), wait_second=3)
    assert calls == [3]


def test_aprocess_queue_leaves_the_loop_free_and_stops_when_cancelled() -> None:
    import asyncio

    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "q")
    queue = env.queue("q")

    async def main() -> None:
        ran = asyncio.Event()
        loop = asyncio.get_running_loop()
        queue.connect_processor("job", lambda: loop.call_soon_threadsafe(ran.set))
        worker = asyncio.create_task(queue.aprocess_queue(wait_second=1))
        await queue.processors["job"].queue.aenqueue("job", {})
        await asyncio.wait_for(ran.wait(), 10)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        result = await queue.aprocess_queue(ASAP_SHUTDOWN, 0, concurrency=2)
        assert result.exit_code == 0

    asyncio.run(main())


def test_get_raw_messages_fills_from_several_receives_and_messages_can_be_settled(queue: Any) -> None:
    for n in range(25):
        queue.add_job("job", n=n)
    messages = queue.get_raw_messages(0, 23)
    assert len({message.message_id for message in messages}) == 23
    messages[0].delete()
    messages[1].change_visibility(VisibilityTimeout=0)
    assert len(queue.get_raw_messages(0, 10)) == 3
    assert queue.drain_queue() == 0


def test_drain_queue_deletes_everything(queue: Any) -> None:
    for n in range(23):
        queue.add_job("job", n=n)
    assert queue.drain_queue() == 23
    assert sent_jobs(queue) == []


@pytest.mark.wire
def test_a_given_client_serves_the_resource_too(local_endpoint: str) -> None:
    import boto3

    client = boto3.Session("key", "secret", region_name="us-east-1").client(
        "sqs", endpoint_url=local_endpoint
    )
    env = SQSEnv(boto3.Session(region_name="eu-west-1"), "given-", codec="json", sqs_client=client)
    create_standard_queue(env, "q")
    queue = env.queue("q")
    assert queue.get_queue().send_message(MessageBody="hello")["MessageId"]
    assert queue.get_queue().meta.client is client
    assert [message.body for message in queue.get_raw_messages(1)] == ["hello"]
