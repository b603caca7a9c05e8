"""What cannot work is refused where it is written, by one tree of errors, and says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sqs_workers import (
    ConfigurationError,
    ConstantBackoff,
    DeadLetter,
    IdleShutdown,
    InvalidMessageError,
    Leave,
    MaxTasksShutdown,
    MemorySession,
    QueueNotFoundError,
    RetryJob,
    SQSEnv,
    SQSError,
    create_fifo_queue,
    create_standard_queue,
    delete_queue,
)
from sqs_workers.batching import BatchMessages
from sqs_workers.exceptions import QueueAttributesConflictError, SendError
from sqs_workers.hooks import JobFailed


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "emails")
    return env


REFUSED: list[tuple[str, Callable[[SQSEnv], Any], str]] = [
    ("a queue name that is no text", lambda env: env.queue(None), "must be text"),  # type: ignore[call-overload]
    ("a URL that is no text", lambda env: env.queue("emails", queue_url=5), "queue_url of queue 'emails'"),
    ("a maker that makes nothing", lambda env: env.queue("emails", 5), "queue_maker of queue 'emails'"),
    ("a number as backoff", lambda env: env.queue("emails", backoff_policy=5), "get_visibility_timeout"),
    (
        "a class as backoff",
        lambda env: env.queue("emails", backoff_policy=ConstantBackoff),
        r"ConstantBackoff\(",
    ),
    ("a class as batching", lambda env: env.queue("emails", None, BatchMessages), r"BatchMessages\("),
    ("a class as failure policy", lambda env: env.queue("emails", failure_policy=Leave), r"Leave\("),
    ("middleware that is no list", lambda env: env.queue("emails", middleware=5), "middleware of queue"),
    ("an unknown codec to accept", lambda env: env.queue("emails", accept=["yaml"]), "no codec 'yaml'"),
    ("a timeout that is text", lambda env: env.queue("emails", timeout="1"), "timeout of queue 'emails'"),
    ("a job without a name", lambda env: env.queue("emails").processor(print), "takes the job's name"),
    ("a job named by a number", lambda env: env.queue("emails").processor(5)(print), "name of a job"),
    ("a hook on a text", lambda env: env.on("JobFailed")(print), "class of its events"),
    ("a redrive count that is text", lambda env: env.redrive_policy("emails", "x"), "max_receive_count"),
    (
        "a wait that is text",
        lambda env: env.queue("emails").process_batch("x"),
        "wait_second of queue 'emails'",
    ),
    ("a number as stop policy", lambda env: env.queue("emails").process_queue(5), "update_state"),
    (
        "a class as stop policy",
        lambda env: env.queue("emails").process_queue(IdleShutdown),
        r"IdleShutdown\(",
    ),
    ("a number as circuit", lambda env: env.queue("emails").process_queue(circuit=5), "circuit of queue"),
    ("idle seconds that are text", lambda env: IdleShutdown("1"), "idle_seconds"),
    ("a number of tasks that is text", lambda env: MaxTasksShutdown("1"), "max_tasks"),
    ("no dead-letter queue", lambda env: DeadLetter(""), "name of a queue"),
    ("a text as backoff of a retry", lambda env: RetryJob("soon"), "backoff policy or a number"),
    (
        "a dead-letter queue of the other kind",
        lambda env: create_fifo_queue(env, "a.fifo", redrive_policy=env.redrive_policy("emails", 3)),
        "both to be FIFO queues",
    ),
]


@pytest.mark.parametrize(
    ("attempt", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_cannot_work_is_refused_where_it_is_declared(env: SQSEnv, attempt: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        attempt(env)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queue_prefix": None}, "queue_prefix"),
        ({"timeout": "x"}, "timeout"),
        ({"transport": 5}, "transport"),
        ({"transport": "leen"}, "transport"),
        ({"middleware": [5]}, "middleware"),
        ({"backoff_policy": 5}, "backoff_policy"),
        ({"failure_policy": Leave}, "failure_policy"),
        ({"processor_maker": 5}, "processor_maker"),
        ({"context_maker": 5}, "context_maker"),
    ],
)
def test_an_environment_refuses_what_cannot_work(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        SQSEnv(MemorySession(), **options)


def test_a_class_is_a_policy_if_it_needs_no_instance(env: SQSEnv) -> None:
    class Static:
        @staticmethod
        def get_visibility_timeout(message: Any) -> int:
            return 0

    queue = env.queue("emails", backoff_policy=Static)
    queue.processor("job")(lambda: 1 / 0)
    queue.add_job("job")
    assert queue.process_batch().failed_count() == 1
    assert queue.process_batch().failed_count() == 1


def test_a_retry_that_is_none_is_told_in_the_hook(env: SQSEnv) -> None:
    errors = []
    env.on(JobFailed)(lambda event: errors.append(event.error))

    @env.queue("emails").processor("job")
    def job() -> None:
        raise RetryJob("soon")

    job.delay()
    env.queue("emails").process_batch()
    assert isinstance(errors[0], ConfigurationError)


def test_a_missing_queue_is_named_and_botocores_class_still_catches_it(env: SQSEnv) -> None:
    with pytest.raises(QueueNotFoundError, match="queue 'nowhere'") as caught:
        env.queue("nowhere").add_job("job")
    error: Any = caught.value
    assert isinstance(error, ClientError)
    assert isinstance(error, env.sqs_client.exceptions.QueueDoesNotExist)
    assert error.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert error.operation_name == "GetQueueUrl"
    assert error.queue_name == "nowhere"


def test_an_error_of_both_kinds_travels_to_other_processes(env: SQSEnv) -> None:
    with pytest.raises(QueueNotFoundError) as caught:
        env.queue("nowhere").add_job("job")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, QueueNotFoundError)
    assert str(copy) == str(caught.value)
    assert copy.queue_name == "nowhere"


def test_a_queue_that_is_gone_is_named_when_something_is_sent(env: SQSEnv) -> None:
    queue = env.queue("emails")
    queue.add_job("job")
    env.sqs_client.delete_queue(QueueUrl=queue.url)
    with pytest.raises(QueueNotFoundError, match="queue 'emails' does not exist any more"):
        queue.add_job("job")
    with pytest.raises(QueueNotFoundError):
        delete_queue(env, "nowhere")


def test_what_sqs_refuses_names_queue_and_job(env: SQSEnv) -> None:
    create_fifo_queue(env, "orders.fifo")
    with pytest.raises(
        InvalidMessageError, match=r"job 'book' for queue 'orders\.fifo'.*Deduplication"
    ) as caught:
        env.queue("orders.fifo").add_job("book", n="secret")
    assert isinstance(caught.value, SQSError)
    assert isinstance(caught.value, ClientError)
    assert "secret" not in str(caught.value)


def test_a_queue_with_other_attributes_is_an_error_of_botocores_too(env: SQSEnv) -> None:
    with pytest.raises(QueueAttributesConflictError) as caught:
        create_standard_queue(env, "emails", visibility_timeout=77)
    assert isinstance(caught.value, env.sqs_client.exceptions.QueueNameExists)


class Denied:
    """A client whose calls are denied, or whose answers cannot be read."""

    def __init__(self, client: Any, answer: Any) -> None:
        self._client, self._answer = client, answer

    def send_message(self, **request: Any) -> Any:
        if self._answer is not None:
            return self._answer
        raise ClientError(
            {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}},
            "SendMessage",
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_what_may_not_be_sent_names_queue_job_and_permission(env: SQSEnv) -> None:
    env.sqs_client = Denied(env.sqs_client, None)
    with pytest.raises(SendError, match=r"job 'book' to queue 'emails'.*sqs:SendMessage") as caught:
        env.queue("emails").add_job("book", n="secret")
    assert isinstance(caught.value, ClientError)
    assert "secret" not in str(caught.value)


def test_an_answer_that_cannot_be_read_is_said_to_be_one(env: SQSEnv) -> None:
    env.sqs_client = Denied(env.sqs_client, {"ResponseMetadata": {}})
    with pytest.raises(SendError, match="queue 'emails' cannot be read"):
        env.queue("emails").add_job("book")
