"""What a message becomes: decoded, run, and an outcome."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from sqs_workers import (
    BatchMessages,
    BatchOutcome,
    ConstantBackoff,
    DeadLetter,
    Discard,
    GenericQueue,
    JobQueue,
    PartialBatchError,
    PermanentError,
    ProcessingResult,
    Processor,
    RawQueue,
    RetryJob,
    SQSEnv,
    current_job,
)
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.job import BatchJob
from sqs_workers.middleware import Both
from sqs_workers.outcome import Failed, Rejected, RetryRequested, Succeeded
from sqs_workers.testing import sent_jobs


def _waiting(queue: Any, clock: Any) -> list[float]:
    """Seconds until each message of the queue is visible."""
    from sqs_workers.memory_sqs.peeking import peek

    return [message.due_in for message in peek(queue.env.session.aws, queue.url)]


def _outcome(queue: Any) -> Any:
    (message,) = queue.get_raw_messages()
    return queue.handler.run(message)


def test_a_job_that_returns_is_deleted_whatever_it_returns(queue: Any) -> None:
    queue.connect_processor("send", lambda: False)
    queue.add_job("send")
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (1, 0)
    assert queue.drain_queue() == 0


def test_a_job_that_raises_is_hidden_by_the_backoff_policy(make_queue: Any, clock: Any) -> None:
    queue = make_queue("slow", backoff_policy=ConstantBackoff(77))

    @queue.processor("send")
    def send() -> None:
        raise ValueError("no")

    send.delay()
    assert queue.process_batch().failed_count() == 1
    assert _waiting(queue, clock) == [77]


def test_a_retry_is_hidden_by_its_own_backoff_and_is_no_error(queue: Any, clock: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)

    @queue.processor("send")
    def send() -> None:
        raise RetryJob(ConstantBackoff(55))

    send.delay()
    queue.process_batch()
    assert _waiting(queue, clock) == [55]
    assert [r.levelname for r in caplog.records if r.name == "sqs_workers.processors"] == ["INFO"]


def test_policies_of_a_job_go_before_those_of_its_queue(make_queue: Any, clock: Any) -> None:
    queue = make_queue("q", backoff_policy=ConstantBackoff(50))

    @queue.processor("one", backoff_policy=ConstantBackoff(5))
    def one() -> None:
        raise ValueError

    one.delay()
    queue.process_batch()
    assert _waiting(queue, clock) == [5]


@pytest.mark.parametrize("scope", ["env", "queue", "job"])
def test_permanent_errors_are_not_retried(session: Any, scope: str) -> None:
    from sqs_workers import create_standard_queue

    settings: dict[str, Any] = {"permanent_errors": [KeyError], "failure_policy": Discard()}
    env = SQSEnv(session, codec="json", **settings if scope == "env" else {})
    create_standard_queue(env, "q")
    queue = env.queue("q", **settings if scope == "queue" else {})

    @queue.processor("send", **settings if scope == "job" else {})
    def send() -> None:
        raise KeyError("x")

    send.delay()
    assert queue.process_batch().failed_count() == 1
    assert queue.get_raw_messages() == []
    from sqs_workers.memory_sqs.peeking import peek

    assert peek(session.aws, queue.url) == []


def test_a_permanent_error_goes_to_the_dead_letter_queue_of_the_policy(make_queue: Any) -> None:
    dead = make_queue("dead")
    queue = make_queue("q", failure_policy=DeadLetter("dead"))

    @queue.processor("send")
    def send(to: str) -> None:
        raise PermanentError("never")

    send.delay("a")
    queue.process_batch()
    (job,) = sent_jobs(dead)
    assert (job.name, job.kwargs) == ("send", {"to": "a"})


@pytest.mark.parametrize(
    ("body", "content_type"),
    [("hello", "json"), ("!!", "pickle"), ("[1]", "json"), ("{}", "yaml"), ("{}", None)],
)
def test_f27_what_cannot_be_decoded_is_rejected_and_the_others_run(
    queue: Any, env: Any, caplog: Any, body: str, content_type: str | None
) -> None:
    env.accept = frozenset({"json", "pickle", "yaml"})
    seen = []
    queue.connect_processor("send", lambda **kwargs: seen.append(kwargs))
    attributes = {"JobName": {"DataType": "String", "StringValue": "send"}}
    if content_type:
        attributes["ContentType"] = {"DataType": "String", "StringValue": content_type}
    attributes["Extra"] = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}
    message_id = env.sqs_client.send_message(
        QueueUrl=queue.url, MessageBody=body, MessageAttributes=attributes
    )["MessageId"]
    queue.add_job("send", good=1)
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (1, 1)
    assert seen == [{"good": 1}]
    assert message_id in caplog.text
    assert body not in [record.getMessage() for record in caplog.records]


def test_f27_a_codec_that_is_not_accepted_is_not_decoded(queue: Any) -> None:
    queue.connect_processor("send", lambda **kwargs: None)
    queue.add_job("send", _content_type="pickle", a=1)
    outcome = _outcome(queue)
    assert isinstance(outcome, Rejected)
    assert "accepts json only" in str(outcome.error)


def test_f28_an_unknown_job_is_backed_off_and_not_deleted(queue: Any, clock: Any, caplog: Any) -> None:
    queue.backoff_policy = ConstantBackoff(30)
    queue.add_job("who", a=1)
    assert queue.process_batch().failed_count() == 1
    assert _waiting(queue, clock) == [30]
    assert "emails.who" in caplog.text
    assert [r.levelname for r in caplog.records] == ["ERROR"]


def test_unknown_arguments_are_dropped_and_named_once(queue: Any, caplog: Any) -> None:
    seen = []
    queue.connect_processor("send", lambda to: seen.append(to))
    for _ in range(3):
        queue.add_job("send", to="a", newer=1)
    assert queue.process_batch().succeeded_count() == 3
    assert seen == ["a"] * 3
    assert [r.getMessage() for r in caplog.records if "newer" in r.getMessage()] == [
        caplog.records[0].getMessage()
    ]


def test_a_missing_argument_is_permanent(queue: Any) -> None:
    queue.connect_processor("send", lambda to: None)
    queue.add_job("send")
    outcome = _outcome(queue)
    assert isinstance(outcome, Rejected)
    assert "to" in str(outcome.error)


def test_the_current_job_is_known_inside_and_not_outside(queue: Any) -> None:
    seen: list[Any] = []

    @queue.processor("send")
    def send(to: str) -> None:
        job = current_job()
        assert job is not None
        seen.append((job.name, job.queue_name, job.kwargs, job.receive_count))

    send.delay("a")
    queue.process_batch()
    assert seen == [("send", "emails", {"to": "a"}, 1)]
    assert current_job() is None


def test_async_jobs_run_beside_plain_ones(queue: Any) -> None:
    seen: list[Any] = []

    @queue.processor("later")
    async def later(to: str) -> None:
        await asyncio.sleep(0)
        job = current_job()
        seen.append((to, job and job.name))

    @queue.processor("now")
    def now(to: str) -> None:
        seen.append((to, "now"))

    later.delay("a")
    now.delay("b")
    assert queue.process_batch().succeeded_count() == 2
    assert sorted(seen) == [("a", "later"), ("b", "now")]


def test_processors_that_wrap_plainly_are_refused_for_async_jobs(session: Any) -> None:
    class Plain(Processor):
        def process(self, job_kwargs: Any, job_context: Any = None) -> Any:
            return super().process(job_kwargs, job_context)

    class Async(Processor):
        async def aprocess(self, job_kwargs: Any, job_context: Any = None) -> Any:
            seen.append("before")
            return await super().aprocess(job_kwargs, job_context)

    async def job() -> None:
        seen.append("job")

    seen: list[str] = []
    with pytest.raises(ConfigurationError, match="aprocess"):
        SQSEnv(session, processor_maker=Plain).queue("q").connect_processor("job", job)
    from sqs_workers import create_standard_queue

    env = SQSEnv(session, "p-", "json", processor_maker=Async)
    create_standard_queue(env, "q")
    env.queue("q").connect_processor("job", job).delay()
    env.process_batch("q")
    assert seen == ["before", "job"]


def test_an_async_job_under_an_own_process_message_is_awaited(session: Any) -> None:
    from sqs_workers import create_standard_queue

    class Own(Processor):
        def process_message(self, message: Any) -> Any:
            return super().process_message(message)

    seen = []

    async def job() -> None:
        await asyncio.sleep(0)
        seen.append(1)

    env = SQSEnv(session, codec="json", processor_maker=Own)
    create_standard_queue(env, "q")
    queue = env.queue("q")
    queue.connect_processor("job", job)
    queue.add_job("job")
    queue.add_job("job")
    assert queue.process_batch().succeeded_count() == 2

    async def main() -> None:
        queue.add_job("job")
        assert queue.process_batch().succeeded_count() == 1

    asyncio.run(main())
    assert len(seen) == 3


@pytest.mark.parametrize("method", ["get_processor", "process_message_fallback"])
def test_a_method_of_a_subclass_that_raises_fails_its_message_alone(make_queue: Any, method: str) -> None:
    def broken(self: Any, job_name: Any) -> Any:
        if job_name == "bad":
            raise ZeroDivisionError
        return JobQueue.get_processor(self, job_name)

    queue = make_queue("q", type("Own", (JobQueue,), {method: broken}))
    queue.connect_processor("good", lambda: None)
    queue.add_job("bad")
    queue.add_job("good")
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (1, 1)


def test_middleware_wraps_in_order_sees_arguments_and_may_skip(session: Any) -> None:
    from sqs_workers import create_standard_queue

    seen: list[Any] = []

    def outer(job: Any, call_next: Any) -> Any:
        seen.append(("outer", job.kwargs))
        try:
            return call_next(job)
        finally:
            seen.append("after")

    def skip(job: Any, call_next: Any) -> Any:
        return None if job.kwargs.get("skip") else call_next(job)

    env = SQSEnv(session, codec="json", middleware=[outer])
    create_standard_queue(env, "q")
    queue = env.queue("q", middleware=[skip])
    queue.connect_processor("send", lambda **kwargs: seen.append("run"))
    queue.add_job("send", skip=True)
    queue.add_job("send", n=1)
    assert queue.process_batch().succeeded_count() == 2
    assert seen == [("outer", {"skip": True}), "after", ("outer", {"n": 1}), "run", "after"]


def test_middleware_of_one_form_is_refused_for_jobs_of_the_other(session: Any) -> None:
    from sqs_workers import create_standard_queue

    seen = []

    def plain(job: Any, call_next: Any) -> Any:
        seen.append("plain")
        return call_next(job)

    async def asynchronous(job: Any, call_next: Any) -> Any:
        seen.append("async")
        return await call_next(job)

    async def job() -> None: ...

    env = SQSEnv(session, codec="json", middleware=[plain])
    create_standard_queue(env, "q")
    queue = env.queue("q")
    queue.connect_processor("job", job).delay()
    with pytest.raises(ConfigurationError, match="Both"):
        queue.process_batch()
    env.middleware = (Both(plain, asynchronous),)
    assert queue.process_batch().succeeded_count() == 1
    assert seen == ["async"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, Succeeded),
        (False, Failed),
        (None, Failed),
        (ProcessingResult(True), Succeeded),
        (ProcessingResult(False, ConstantBackoff(9)), Failed),
        (RetryRequested(3), RetryRequested),
    ],
)
@pytest.mark.parametrize("level", ["queue", "processor"])
def test_overrides_of_process_message_are_honoured(
    session: Any, answer: Any, expected: type, level: str
) -> None:
    from sqs_workers import create_standard_queue

    class OwnQueue(JobQueue):
        def process_message(self, message: Any) -> Any:
            return answer

    class OwnProcessor(Processor):
        def process_message(self, message: Any) -> Any:
            return answer

    env = SQSEnv(session, codec="json", processor_maker=OwnProcessor if level == "processor" else Processor)
    create_standard_queue(env, "q")
    queue: Any = env.queue("q", OwnQueue if level == "queue" else None)
    queue.connect_processor("send", lambda: None)
    queue.add_job("send")
    outcome = _outcome(queue)
    assert isinstance(outcome, expected)
    if isinstance(outcome, Failed) and isinstance(answer, ProcessingResult):
        assert outcome.delay == 9


def test_an_override_that_calls_the_original_keeps_its_outcome(make_queue: Any) -> None:
    class Own(JobQueue):
        def process_message(self, message: Any) -> Any:
            result = super().process_message(message)
            assert not result
            return result

    queue = make_queue("q", Own)

    @queue.processor("send")
    def send() -> None:
        raise PermanentError("never")

    send.delay()
    assert isinstance(_outcome(queue), Rejected)


def test_a_queue_class_of_the_users_own_runs_its_messages(make_queue: Any, env: Any) -> None:
    seen = []

    class Own(GenericQueue):
        def process_message(self, message: Any) -> bool:
            seen.append(message.body)
            return True

    queue = make_queue("own", Own)
    env.sqs_client.send_message(QueueUrl=queue.url, MessageBody="hello")
    assert queue.process_batch().succeeded_count() == 1
    assert seen == ["hello"]


def test_process_message_answers_as_ever(queue: Any) -> None:
    queue.connect_processor("good", lambda: None)

    @queue.processor("bad")
    def bad() -> None:
        raise ValueError

    queue.add_job("good")
    queue.add_job("bad")
    good, failed = queue.get_raw_messages()
    assert queue.process_message(good) is True
    result = queue.process_message(failed)
    assert not result
    assert result.success is False


# Batches


def test_a_batch_that_fails_for_one_job_name_leaves_the_other_alone(make_queue: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))
    seen = []
    queue.connect_processor("good", lambda jobs: seen.append(len(jobs)))

    @queue.processor("bad")
    def bad(jobs: Any) -> None:
        raise RetryJob

    for n in range(3):
        queue.add_job("good", n=n)
        queue.add_job("bad", n=n)
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count(), seen) == (3, 3, [3])


def test_an_unreadable_body_fails_alone(make_queue: Any, env: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))
    seen: list[Any] = []
    queue.connect_processor("job", lambda jobs: seen.extend(jobs))
    queue.add_job("job", n=1)
    attributes = {
        name: {"DataType": "String", "StringValue": value}
        for name, value in (("JobName", "job"), ("ContentType", "json"))
    }
    env.sqs_client.send_message(QueueUrl=queue.url, MessageBody="oops", MessageAttributes=attributes)
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (1, 1)
    assert seen == [{"n": 1}]


@pytest.mark.parametrize("way", ["return", "raise", "items"])
def test_a_batch_handler_names_the_items_that_failed(make_queue: Any, clock: Any, way: str) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))

    @queue.processor("job")
    def job(jobs: Any) -> Any:
        assert isinstance(current_job(), BatchJob)
        if way == "raise":
            raise PartialBatchError({1: 33})
        outcome = BatchOutcome()
        outcome.fail(jobs[1] if way == "items" else 1, delay=33)
        return outcome

    for n in range(3):
        job.delay(n=n)
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (2, 1)
    assert _waiting(queue, clock) == [33]


def test_a_batch_handler_that_names_a_stranger_acknowledges_nothing(make_queue: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))
    queue.connect_processor("job", lambda jobs: BatchOutcome([7]))
    queue.add_job("job")
    assert queue.process_batch().failed_count() == 1


def test_the_context_reaches_batch_handlers(make_queue: Any, env: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))
    seen: list[Any] = []
    queue.connect_processor("job", lambda jobs: seen.extend(j["context"]["user"] for j in jobs), True)
    with env.context(user=1):
        queue.add_job("job")
    queue.process_batch()
    assert seen == [1]


def test_async_batch_handlers_are_refused(make_queue: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(10))

    async def job(jobs: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="batches"):
        queue.connect_processor("job", job)


def test_batches_above_ten_come_from_several_receives(make_queue: Any) -> None:
    queue = make_queue("q", batching_policy=BatchMessages(25))
    sizes = []
    queue.connect_processor("job", lambda jobs: sizes.append(len(jobs)))
    for n in range(30):
        queue.add_job("job", n=n)
    queue.process_batch()
    queue.process_batch()
    assert sizes == [25, 5]


# Raw queues


def test_a_raw_processor_stays_a_function_and_gets_messages(make_queue: Any) -> None:
    cron = make_queue("cron", RawQueue)
    seen = []

    @cron.raw_processor()
    def process(message: Any) -> str:
        seen.append(message.body)
        return message.body

    cron.add_raw_job("Hello world", deduplication_id="ignored")
    assert cron.process_batch().succeeded_count() == 1
    assert seen == ["Hello world"]
    assert callable(process)


def test_a_raw_processor_may_be_async_or_get_batches(make_queue: Any) -> None:
    seen: list[Any] = []
    cron = make_queue("cron", RawQueue)

    @cron.raw_processor()
    async def process(message: Any) -> None:
        seen.append(message.body)

    batch = make_queue("batch", RawQueue, BatchMessages(5))
    batch.connect_raw_processor(lambda messages: seen.append([m.body for m in messages]))
    cron.add_raw_job("a")
    batch.add_raw_job("b")
    batch.add_raw_job("c")
    cron.process_batch()
    batch.process_batch()
    assert seen == ["a", ["b", "c"]]


def test_a_raw_queue_without_a_processor_keeps_its_messages(make_queue: Any) -> None:
    cron = make_queue("cron", RawQueue)
    cron.add_raw_job("a")
    assert cron.process_batch().failed_count() == 1
