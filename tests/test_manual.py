"""The manual of sqs-workers, example by example, in its order.

Sessions in memory stand in for AWS; wrong imports and calls in the manual's text are mended, nothing else.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from sqs_workers import (
    DEFAULT_BACKOFF,
    IMMEDIATE_RETURN,
    MemorySession,
    RawQueue,
    SQSEnv,
    create_fifo_queue,
    create_standard_queue,
)
from sqs_workers.batching import BatchMessages
from sqs_workers.deadletter_queue import DeadLetterQueue
from sqs_workers.processors import Processor
from sqs_workers.shutdown_policies import (
    ASAP_SHUTDOWN,
    AndShutdown,
    IdleShutdown,
    MaxTasksShutdown,
    OrShutdown,
)
from sqs_workers.testing import run_until_idle

HELLO = {"to": "user@example.com", "subject": "Hello world", "body": "hello world"}
PRINTED = "Sending email Hello world to user@example.com\n"


@pytest.fixture
def sqs() -> SQSEnv:
    return SQSEnv(MemorySession())


def _emails(sqs: SQSEnv, **options: Any) -> Any:
    create_standard_queue(sqs, "emails")
    queue = sqs.queue("emails", **options)

    @queue.processor("send_email")
    def send_email(to: str, subject: str, body: str) -> None:
        print(f"Sending email {subject} to {to}")

    return queue, send_email


def test_usage_both_ways_to_add_a_job(sqs: SQSEnv, capsys: Any) -> None:
    queue, send_email = _emails(sqs)
    queue.add_job("send_email", to="user@example.com", subject="Hello world", body="hello world")
    send_email.delay(to="user@example.com", subject="Hello world", body="hello world")
    sqs.queue("emails").process_queue(ASAP_SHUTDOWN, wait_second=0)
    assert capsys.readouterr().out == PRINTED * 2


def test_usage_process_all_queues_at_once(sqs: SQSEnv, capsys: Any) -> None:
    _, send_email = _emails(sqs)
    send_email.delay(**HELLO)
    sqs.process_queues(shutdown_policy_maker=lambda: MaxTasksShutdown(1), wait_second=0)
    assert capsys.readouterr().out == PRINTED


def test_baked_tasks(sqs: SQSEnv, capsys: Any) -> None:
    queue, send_email = _emails(sqs)
    task = send_email.bake(to="user@example.com", subject="Hello world", body="hello world")
    task.delay()
    queue.process_batch()
    assert capsys.readouterr().out == PRINTED


def test_batch_writes(sqs: SQSEnv, capsys: Any) -> None:
    queue, send_email = _emails(sqs)
    with queue.add_batch():
        queue.add_job("send_email", to="user1@example.com", subject="Hello world", body="hello world")
        queue.add_job("send_email", to="user2@example.com", subject="Hello world", body="hello world")
    with send_email.batch():
        send_email.delay(to="user1@example.com", subject="Hello world", body="hello world")
        assert send_email.delay(to="user2@example.com", subject="Hello world", body="hello world") is None
    assert queue.process_batch().succeeded_count() == 4
    assert capsys.readouterr().out.count("Sending email Hello world to user2@example.com") == 2


def test_batch_reads(sqs: SQSEnv, capsys: Any) -> None:
    create_standard_queue(sqs, "emails")
    queue = sqs.queue("emails", batching_policy=BatchMessages(batch_size=10))

    @queue.processor("send_email")
    def send_email(messages: list[Any]) -> None:
        for email in messages:
            print(f"Sending email {email['subject']} to {email['to']}")

    send_email.delay(**HELLO)
    send_email.delay(**HELLO)
    queue.process_batch()
    assert capsys.readouterr().out == PRINTED * 2


def test_synchronous_task_execution(sqs: SQSEnv, capsys: Any) -> None:
    _, send_email = _emails(sqs)
    with pytest.raises(RuntimeError, match=r"Async task emails\.send_email called synchronously"):
        send_email(to="user@example.com", subject="Hello world", body="hello world")
    send_email.run(to="user@example.com", subject="Hello world", body="hello world")
    assert capsys.readouterr().out == PRINTED


def test_fifo_queues(sqs: SQSEnv) -> None:
    create_fifo_queue(sqs, "emails_dead.fifo")
    create_fifo_queue(sqs, "emails.fifo", redrive_policy=sqs.redrive_policy("emails_dead.fifo", 3))
    kwargs = {"body": "hello world"}
    for _ in range(2):
        sqs.queue("emails.fifo").add_job(
            "send_email", _deduplication_id="Hello-world", _group_id="user@example.com", **kwargs
        )
    (message,) = sqs.queue("emails.fifo").get_raw_messages(0)
    assert message.attributes["MessageGroupId"] == "user@example.com"


def test_exceptions_return_the_job_to_the_queue(sqs: SQSEnv, caplog: Any) -> None:
    create_standard_queue(sqs, "q")
    queue = sqs.queue("q", backoff_policy=IMMEDIATE_RETURN)
    attempts = []

    @queue.processor("fail")
    def fail() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("boom")

    fail.delay()
    assert queue.process_batch().failed_count() == 1
    assert "boom" in caplog.text
    assert queue.process_batch().succeeded_count() == 1


def test_custom_processors(capsys: Any) -> None:
    class CustomProcessor(Processor):
        def process(self, job_kwargs: Any) -> None:  # type: ignore[override]
            print(f"Processing {self.queue_name}.{self.job_name} with {job_kwargs}")
            super(CustomProcessor, self).process(job_kwargs)  # noqa: UP008 - as in the manual

    sqs = SQSEnv(MemorySession(), processor_maker=CustomProcessor)
    queue, send_email = _emails(sqs)
    send_email.delay(**HELLO)
    queue.process_batch()
    assert capsys.readouterr().out == f"Processing emails.send_email with {HELLO}\n{PRINTED}"


def test_context(sqs: SQSEnv, capsys: Any) -> None:
    create_standard_queue(sqs, "q1")
    queue = sqs.queue("q1")

    @queue.processor("hello_world", pass_context=True)
    def hello_world(username: Any = None, context: Any = None) -> None:
        print(f"Hello {username} from {context['remote_addr']}")

    with sqs.context(remote_addr="127.0.0.1"):
        hello_world.delay(username="Foo")
    queue.process_batch()

    sqs.context["remote_addr"] = "127.0.0.1"
    hello_world.delay(username="Foo")
    sqs.context.clear()
    sqs.process_batch("q1")
    assert capsys.readouterr().out == "Hello Foo from 127.0.0.1\n" * 2
    assert sqs.context.to_dict() == {}


def test_context_for_all_tasks_by_a_processor() -> None:
    class CustomProcessor(Processor):
        def process(self, job_kwargs: Any, job_context: Any) -> None:  # type: ignore[override]
            os.environ["REMOTE_ADDR"] = job_context["remote_addr"]
            super(CustomProcessor, self).process(job_kwargs, job_context)  # noqa: UP008 - as in the manual
            os.environ.pop("REMOTE_ADDR")

    sqs = SQSEnv(MemorySession(), processor_maker=CustomProcessor)
    create_standard_queue(sqs, "q1")
    seen = []

    @sqs.processor("q1", "hello_world")
    def hello_world() -> None:
        seen.append(os.environ["REMOTE_ADDR"])

    with sqs.context(remote_addr="127.0.0.1"):
        hello_world.delay()
    sqs.process_batch("q1")
    assert seen == ["127.0.0.1"]
    assert "REMOTE_ADDR" not in os.environ


def test_raw_queues(sqs: SQSEnv, capsys: Any) -> None:
    create_standard_queue(sqs, "cron")
    cron = sqs.queue("cron", RawQueue)

    @cron.raw_processor()
    def processor(message: Any) -> None:
        print(message.body)

    cron.add_raw_job("Hello world")
    cron.process_queue(ASAP_SHUTDOWN, wait_second=0)
    assert capsys.readouterr().out == "Hello world\n"


def test_raw_queues_show_headers_and_take_any_body(sqs: SQSEnv) -> None:
    create_standard_queue(sqs, "cron")
    cron = sqs.queue("cron", RawQueue)
    seen: list[Any] = []
    cron.connect_raw_processor(seen.append)
    cron.add_raw_job('{ "message": "Hello world" }')
    cron.process_batch()
    assert seen[0].body == '{ "message": "Hello world" }'
    assert {
        "SenderId",
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SentTimestamp",
    } <= set(seen[0].attributes)


def test_dead_letter_queue_after_the_configured_attempts(sqs: SQSEnv) -> None:
    create_standard_queue(sqs, "emails_dead")
    create_standard_queue(sqs, "emails", redrive_policy=sqs.redrive_policy("emails_dead", 3))
    queue = sqs.queue("emails", backoff_policy=IMMEDIATE_RETURN)
    attempts = []

    @queue.processor("send_email")
    def send_email() -> None:
        attempts.append(1)
        raise ValueError("boom")

    send_email.delay()
    run_until_idle(sqs)
    assert len(attempts) == 3
    assert len(sqs.queue("emails_dead").get_raw_messages(0)) == 1


@pytest.mark.parametrize("policy", [DEFAULT_BACKOFF, IMMEDIATE_RETURN])
def test_backoff_policies(sqs: SQSEnv, policy: Any) -> None:
    create_standard_queue(sqs, "emails")
    queue = sqs.queue("emails", backoff_policy=policy)

    @queue.processor("send_email")
    def send_email(to: str, subject: str, body: str) -> None:
        raise ValueError("boom")

    send_email.delay(**HELLO)
    queue.process_batch()
    again = len(queue.get_raw_messages(0))
    assert again == (1 if policy is IMMEDIATE_RETURN else 0)


@pytest.mark.parametrize(
    "policy",
    [
        IdleShutdown(idle_seconds=0),
        MaxTasksShutdown(1),
        OrShutdown(IdleShutdown(300), MaxTasksShutdown(1)),
        AndShutdown(IdleShutdown(0), MaxTasksShutdown(1)),
    ],
    ids=repr,
)
def test_shutdown_policies(sqs: SQSEnv, policy: Any) -> None:
    queue, send_email = _emails(sqs)
    send_email.delay(**HELLO)
    queue.process_queue(shutdown_policy=policy, wait_second=0)
    assert queue.drain_queue() == 0


def test_dead_letters_are_pushed_back(sqs: SQSEnv, capsys: Any) -> None:
    env = sqs
    foo, send_email = _emails(env)
    create_standard_queue(env, "foo_dead")
    foo_dead = env.queue("foo_dead", DeadLetterQueue.maker(foo))
    send_email.delay(**HELLO)
    (message,) = foo.get_raw_messages(0)
    env.sqs_client.send_message(
        QueueUrl=foo_dead.url, MessageBody=message.body, MessageAttributes=message.message_attributes
    )
    message.delete()
    foo_dead.process_queue(shutdown_policy=IdleShutdown(0), wait_second=0)
    assert foo.process_batch().total_count() == 0
    env.session.clock.advance(1)
    assert foo.process_batch().succeeded_count() == 1
    assert capsys.readouterr().out == PRINTED


def test_dead_letters_are_processed_in_place(sqs: SQSEnv, capsys: Any) -> None:
    env = sqs
    foo, _ = _emails(env)
    create_standard_queue(env, "foo_dead")
    foo_dead = env.queue("foo_dead")
    foo.copy_processors(foo_dead)
    foo_dead.add_job("send_email", **HELLO)
    foo_dead.process_queue(shutdown_policy=IdleShutdown(0), wait_second=0)
    assert capsys.readouterr().out == PRINTED


@pytest.mark.parametrize("codec", ["pickle", "pickle_compat", "json"])
def test_codecs(codec: str, capsys: Any) -> None:
    env = SQSEnv(MemorySession(), codec=codec)
    queue, send_email = _emails(env)
    send_email.delay(**HELLO)
    queue.process_batch()
    assert capsys.readouterr().out == PRINTED


def test_unit_tests_with_the_memory_session() -> None:
    env = SQSEnv(MemorySession())
    create_standard_queue(env, "foo")
    effects = []

    @env.processor("foo", "task")
    def task() -> None:
        effects.append(1)

    task.delay()
    env.process_batch("foo")
    assert effects == [1]
