"""Queue classes of a user's own, makers, and what env and queues show."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from sqs_workers import (
    DEFAULT_BACKOFF,
    IMMEDIATE_RETURN,
    ConstantBackoff,
    JobQueue,
    MemorySession,
    RawQueue,
    SQSEnv,
    create_fifo_queue,
    create_standard_queue,
    delete_queue,
)
from sqs_workers.batching import BatchingConfiguration, BatchMessages, NoBatching
from sqs_workers.core import BatchProcessingResult
from sqs_workers.deadletter_queue import DeadLetterQueue, PushBackSender
from sqs_workers.processors import ProcessingResult, Processor
from sqs_workers.queue import GenericQueue
from sqs_workers.shutdown_policies import ASAP_SHUTDOWN, IdleShutdown, MaxTasksShutdown, OrShutdown


def test_a_job_queue_subclass_may_override_process_message(sqs: SQSEnv) -> None:
    seen = []

    class LoggingQueue(JobQueue):
        def process_message(self, message: Any) -> Any:
            seen.append(message.message_attributes["JobName"]["StringValue"])
            return super().process_message(message)

    queue = sqs.queue("emails", LoggingQueue)
    queue.processor("send_email")(lambda to: None)
    queue.add_job("send_email", to="a")
    assert queue.process_batch().succeeded_count() == 1
    assert seen == ["send_email"]


@pytest.mark.parametrize(
    "answer", [True, False, ProcessingResult(True), ProcessingResult(False, ConstantBackoff(0))]
)
def test_a_generic_queue_subclass_answers_for_a_message(sqs: SQSEnv, answer: Any) -> None:
    class Own(GenericQueue):
        def process_message(self, message: Any) -> Any:
            assert message.body == "hello"
            return answer

    queue = sqs.queue("emails", Own)
    queue.get_queue().send_message(MessageBody="hello")
    result = queue.process_batch()
    good = answer if isinstance(answer, bool) else answer.success
    assert (result.succeeded_count(), result.failed_count()) == ((1, 0) if good else (0, 1))


def test_a_generic_queue_subclass_answers_for_a_batch(sqs: SQSEnv) -> None:
    class Own(GenericQueue):
        def process_messages(self, messages: Any) -> bool:
            sizes.append(len(messages))
            return True

    sizes: list[int] = []
    queue = sqs.queue("emails", Own, BatchMessages(10))
    for n in range(3):
        queue.get_queue().send_message(MessageBody=str(n))
    assert queue.process_batch().succeeded_count() == 3
    assert sizes == [3]


def test_a_dataclass_subclass_of_a_queue_takes_fields_of_its_own_from_its_maker(sqs: SQSEnv) -> None:
    @dataclass
    class Tagged(JobQueue):
        tag: str = ""
        seen: list[str] = field(default_factory=list)

        def process_message(self, message: Any) -> Any:
            self.seen.append(self.tag)
            return super().process_message(message)

    queue = sqs.queue("emails", Tagged.maker(tag="blue"))
    queue.processor("job")(lambda: None)
    queue.add_job("job")
    queue.process_batch()
    assert queue.seen == ["blue"]
    assert queue.processors.keys() == {"job"}


def test_a_subclass_with_an_init_of_its_own_works(sqs: SQSEnv) -> None:
    class Own(JobQueue):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.extra = 1

    assert sqs.queue("emails", Own).extra == 1


def test_a_queue_maker_is_any_callable_with_these_keywords(sqs: SQSEnv) -> None:
    seen = {}

    def maker(env: Any, name: str, batching_policy: Any, backoff_policy: Any) -> JobQueue:
        seen.update(env=env, name=name, batching_policy=batching_policy, backoff_policy=backoff_policy)
        return JobQueue(env=env, name=name, batching_policy=batching_policy, backoff_policy=backoff_policy)

    queue = sqs.queue("emails", queue_maker=maker)
    assert seen["env"] is sqs
    assert seen["name"] == "emails"
    assert seen["backoff_policy"] is IMMEDIATE_RETURN
    assert isinstance(seen["batching_policy"], NoBatching)
    assert sqs.queue("emails") is queue


def test_positional_arguments_of_env_queue_keep_their_order(sqs: SQSEnv) -> None:
    policy = ConstantBackoff(7)
    queue = sqs.queue("emails", JobQueue, BatchMessages(5), policy)
    assert queue.batching_policy.batch_size == 5
    assert queue.backoff_policy is policy


def test_positional_arguments_of_the_queue_classes_keep_their_order(sqs: SQSEnv) -> None:
    policy = ConstantBackoff(7)
    assert JobQueue(sqs, "emails", policy).backoff_policy is policy
    assert RawQueue(sqs, "emails", policy, NoBatching(), None, print).processor is print
    assert JobQueue(sqs, "emails", policy, NoBatching(), None, {"a": 1}).processors == {"a": 1}
    assert JobQueue(sqs, "emails").backoff_policy is DEFAULT_BACKOFF


def test_positional_arguments_of_the_environment_keep_their_order() -> None:
    session = MemorySession()
    env = SQSEnv(session, "prefix_", "json", 5, "adaptive", IMMEDIATE_RETURN, Processor)
    assert env.session is session
    assert (env.queue_prefix, env.codec, env.retry_max_attempts, env.retry_mode) == (
        "prefix_",
        "json",
        5,
        "adaptive",
    )
    assert env.backoff_policy is IMMEDIATE_RETURN
    assert env.processor_maker is Processor
    assert env.get_sqs_queue_name("emails") == "prefix_emails"


def test_env_queues_holds_the_queues_by_name(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    assert sqs.queues == {"emails": queue}
    other = JobQueue(env=sqs, name="other")
    sqs.queues["other"] = other
    assert sqs.queue("other") is other
    sqs.queues.clear()
    assert sqs.queue("emails") is not queue


def test_processors_of_a_queue_are_a_dict_that_may_be_changed(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    calls = []
    queue.processor("a")(lambda: calls.append("a"))
    assert isinstance(queue.processors["a"], Processor)
    queue.processors["b"] = queue.processors["a"].copy(job_name="b", fn=lambda: calls.append("b"))
    queue.add_job("b")
    queue.process_batch()
    assert calls == ["b"]
    del queue.processors["b"]
    assert queue.get_processor("b") is None


def test_the_environment_is_a_dataclass(sqs: SQSEnv) -> None:
    assert [item.name for item in dataclasses.fields(sqs)][:12] == [
        "session",
        "queue_prefix",
        "codec",
        "retry_max_attempts",
        "retry_mode",
        "backoff_policy",
        "processor_maker",
        "context_maker",
        "context",
        "sqs_client",
        "sqs_resource",
        "queues",
    ]


def test_dataclasses_replace_makes_another_environment_with_the_same_clients(sqs: SQSEnv) -> None:
    other = dataclasses.replace(sqs, codec="json", queues={})
    assert other.codec == "json"
    assert other.queues == {}
    assert other.sqs_client is sqs.sqs_client
    assert other.get_all_known_queues() == ["emails"]


def test_a_dataclass_subclass_of_the_environment_takes_fields_of_its_own(session: Any) -> None:
    @dataclass
    class AppEnv(SQSEnv):
        stage: str = "dev"

        def __post_init__(self) -> None:
            super().__post_init__()
            self.queue_prefix = f"{self.stage}_"

        def get_sqs_queue_name(self, queue_name: str) -> str:
            return super().get_sqs_queue_name(queue_name.lower())

    env = AppEnv(session, codec="json", stage="test")
    create_standard_queue(env, "Emails")
    queue = env.queue("Emails")
    queue.processor("job")(lambda: None)
    queue.add_job("job")
    assert queue.process_batch().succeeded_count() == 1
    assert queue.get_queue().url.endswith("test_emails")


def test_a_plain_subclass_of_the_environment_with_its_own_init_works(session: Any) -> None:
    class AppEnv(SQSEnv):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(session=session, **kwargs)
            self.extra = 1

    assert AppEnv(codec="json").codec == "json"


def test_attributes_of_the_environment_may_be_set_later(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    queue.processor("job")(lambda: None)
    sqs.codec = "json"
    queue.add_job("job")
    message = queue.get_raw_messages(0)[0]
    assert message.message_attributes["ContentType"]["StringValue"] == "json"
    assert message.body == "{}"


def test_the_repr_of_a_queue_names_it(sqs: SQSEnv) -> None:
    assert repr(sqs.queue("emails")).startswith("JobQueue(name='emails', backoff_policy=")
    assert repr(sqs.queue("raw", RawQueue)).endswith("processor=None)")


def test_dataclasses_replace_works_on_queues(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    queue.processor("job")(lambda: None)
    other = dataclasses.replace(queue, name="emails2")
    assert other.name == "emails2"
    assert other.processors is queue.processors


def test_a_raw_queue_gets_the_message_itself(sqs: SQSEnv) -> None:
    cron = sqs.queue("emails", RawQueue)
    seen = []

    @cron.raw_processor()
    def process(message: Any) -> None:
        seen.append((message.body, message.attributes["ApproximateReceiveCount"], message.message_id))

    message_id = cron.add_raw_job("Hello world")
    cron.process_batch()
    assert [(body, str(count), id_) for body, count, id_ in seen] == [("Hello world", "1", message_id)]
    assert callable(cron.processor)


def test_a_raw_queue_takes_its_processor_from_the_maker(sqs: SQSEnv) -> None:
    seen = []
    cron = sqs.queue("emails", RawQueue.maker(processor=lambda message: seen.append(message.body)))
    cron.add_raw_job("x", 0)
    assert cron.process_batch().total_count() == 1
    assert seen == ["x"]


def test_env_raw_processor_makes_the_raw_queue(sqs: SQSEnv) -> None:
    seen = []

    @sqs.raw_processor("emails")
    def process(message: Any) -> None:
        seen.append(message.body)

    sqs.queue("emails").add_raw_job("x")
    sqs.queue("emails").process_batch()
    assert seen == ["x"]


def test_batch_raw_handlers_get_a_list(sqs: SQSEnv) -> None:
    cron = sqs.queue("emails", RawQueue, BatchMessages(10))
    seen = []

    def process(messages: Any) -> None:
        seen.append(sorted(m.body for m in messages))

    cron.connect_raw_processor(process)
    for body in "abc":
        cron.add_raw_job(body)
    assert cron.process_batch().succeeded_count() == 3
    assert seen == [["a", "b", "c"]]


def test_a_dead_letter_queue_pushes_back(sqs: SQSEnv) -> None:
    create_standard_queue(sqs, "emails_dead")
    emails = sqs.queue("emails")
    emails.processor("job")(lambda n: None)
    dead = sqs.queue("emails_dead", DeadLetterQueue.maker(emails))
    assert isinstance(dead, DeadLetterQueue)
    assert dead.upstream_queue is emails
    assert isinstance(dead.processor, PushBackSender)
    copy = JobQueue(env=sqs, name="emails_dead")
    copy.add_job("job", n=1)
    dead.process_queue(shutdown_policy=ASAP_SHUTDOWN, wait_second=0)
    assert emails.process_batch(wait_seconds=2).succeeded_count() == 1


def test_a_dead_letter_queue_subclass_with_a_sender_of_its_own(sqs: SQSEnv) -> None:
    sent = []

    @dataclass
    class Sender(PushBackSender):
        def __call__(self, message: Any) -> None:
            sent.append((self.upstream_queue.name, message.body))  # type: ignore[union-attr]

    upstream = sqs.queue("upstream")
    maker = partial(DeadLetterQueue, processor=Sender(upstream), upstream_queue=upstream)
    dead = sqs.queue("emails", maker)
    dead.add_raw_job("x")
    dead.process_batch()
    assert sent == [("upstream", "x")]


def test_copy_processors_runs_dead_letters_in_place(sqs: SQSEnv) -> None:
    create_standard_queue(sqs, "emails_dead")
    foo, dead = sqs.queue("emails"), sqs.queue("emails_dead")
    seen = []
    foo.processor("job")(lambda n: seen.append(n))
    foo.copy_processors(dead)
    assert dead.processors["job"].queue is dead
    assert foo.processors["job"].queue is foo
    dead.add_job("job", n=3)
    dead.process_queue(shutdown_policy=OrShutdown(MaxTasksShutdown(1), IdleShutdown(5)), wait_second=0)
    assert seen == [3]


def test_results_of_a_batch_list_the_messages(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")

    @queue.processor("job")
    def job(ok: bool) -> None:
        if not ok:
            raise ValueError

    ids = [job.delay(ok=True), job.delay(ok=False)]
    result = queue.process_batch()
    while result.total_count() < 2:
        more = queue.process_batch()
        result.succeeded += more.succeeded
        result.failed += more.failed
    assert isinstance(result, BatchProcessingResult)
    assert [m.message_id for m in result.succeeded] == [ids[0]]
    assert ids[1] in [m.message_id for m in result.failed]
    assert repr(BatchProcessingResult("q", [1], [2, 3])) == "<BatchProcessingResult/q/1/2>"


def test_a_batching_policy_of_a_users_own_is_asked(sqs: SQSEnv) -> None:
    class Three(BatchingConfiguration):
        @property
        def batching_enabled(self) -> bool:
            return True

        @property
        def batch_size(self) -> int:
            return 3

    queue = sqs.queue("emails", batching_policy=Three())
    seen = []
    queue.processor("job")(lambda messages: seen.extend(messages))
    for n in range(3):
        queue.add_job("job", n=n)
    while len(seen) < 3:
        assert queue.process_batch().total_count()
    assert sorted(item["n"] for item in seen) == [0, 1, 2]


def test_get_raw_messages_and_drain_queue(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    for n in range(3):
        queue.add_job("job", n=n)
    (message, *rest) = queue.get_raw_messages(0, 1)
    assert rest == []
    message.delete() if hasattr(message, "delete") else None
    assert queue.drain_queue(wait_seconds=0) == 2


def test_raw_messages_have_the_methods_of_boto3s_resource(aws: Any) -> None:
    env = SQSEnv(aws)
    create_standard_queue(env, "emails")
    queue = env.queue("emails")
    queue.add_job("job")
    message = queue.get_raw_messages(wait_seconds=0, max_messages=1)[0]
    assert message.queue_url == queue.get_queue().url
    message.change_visibility(VisibilityTimeout=0)
    message = queue.get_raw_messages(0)[0]
    assert message.md5_of_body
    message.delete()
    assert queue.get_raw_messages(0) == []


def test_the_resource_of_a_queue_is_used_directly(session: Any) -> None:
    env = SQSEnv(session)
    create_standard_queue(env, "emails")
    resource = env.queue("emails").get_queue()
    resource.send_messages(Entries=[{"Id": "1", "MessageBody": "x"}])
    (message,) = resource.receive_messages(WaitTimeSeconds=0, MaxNumberOfMessages=10)
    assert message.body == "x"
    answer = resource.delete_messages(
        Entries=[{"Id": message.message_id, "ReceiptHandle": message.receipt_handle}]
    )
    assert len(answer["Successful"]) == 1
    assert "QueueArn" in resource.attributes


def test_a_queue_may_be_addressed_by_its_url(session: Any) -> None:
    env = SQSEnv(session)
    url = create_standard_queue(env, "emails")
    url = url if isinstance(url, str) else url["QueueUrl"]
    queue = env.queue("by-url", queue_url=url)
    assert queue.queue_url == url
    queue.processor("job")(lambda: None)
    queue.add_job("job")
    assert queue.process_batch().succeeded_count() == 1
    assert env.queue("by-url", queue_url=url) is queue
    with pytest.raises(ValueError, match=r"different URL|another queue_url"):
        env.queue("by-url", queue_url="https://sqs.us-east-1.amazonaws.com/123456789012/other")


def test_fifo_queues_take_group_and_deduplication_id(session: Any) -> None:
    env = SQSEnv(session)
    create_fifo_queue(env, "emails.fifo", True, 600, 30)
    queue = env.queue("emails.fifo")
    queue.processor("job")(lambda n: None)
    queue.add_job("job", _deduplication_id=5, _group_id="a", n=1)
    queue.add_job("job", None, None, "6", None, n=2)
    attributes = [m.attributes for m in queue.get_raw_messages(0)]
    assert [(a["MessageGroupId"], a["MessageDeduplicationId"]) for a in attributes] == [
        ("a", "5"),
        ("default", "6"),
    ]


def test_known_queues_are_listed_without_the_prefix(session: Any) -> None:
    env = SQSEnv(session, queue_prefix="dev-")
    assert env.get_all_known_queues() == []
    create_standard_queue(env, "a", 600, 30)
    create_standard_queue(env, "b", message_retention_period="600", visibility_timeout="30")
    assert sorted(env.get_all_known_queues()) == ["a", "b"]
    delete_queue(env, "a")
    assert env.get_all_known_queues() == ["b"]


def test_redrive_policies_are_json_twice(aws: Any) -> None:
    env = SQSEnv(aws)
    create_standard_queue(env, "dead")
    policy = env.redrive_policy("dead", 3)
    assert (policy.dead_letter_queue_name, policy.max_receive_count, policy.sqs_env) == ("dead", 3, env)
    assert '"maxReceiveCount": "3"' in policy.__json__()
    create_standard_queue(env, "emails", redrive_policy=policy)
