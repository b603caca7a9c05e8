"""The processors of a queue under Lambda: what is answered for each message, and why."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqs_workers import (
    BatchMessages,
    BatchOutcome,
    DeadLetter,
    Discard,
    MemorySession,
    PermanentError,
    RawQueue,
    RetryJob,
    SQSEnv,
    create_fifo_queue,
    create_standard_queue,
    current_job,
)
from sqs_workers.aws import lambda_handler
from sqs_workers.aws.lambda_event import messages_of
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.clock import SteppableClock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import (
    JobDeadLettered,
    JobFailed,
    JobStarted,
    JobSucceeded,
    MessageReceived,
    MessageReleased,
    MessageSettled,
)
from tests.aws.calls import Context, batch, failures, job, record
from tests.aws.fakes import api_error
from tests.worlds import counts

SHAPES = json.loads((Path(__file__).parent / "shapes" / "batches.json").read_text(encoding="utf-8"))
ROOT = Path(__file__).parents[2]


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(clock=SteppableClock()), codec="json")
    create_standard_queue(env, "jobs")
    create_fifo_queue(env, "jobs.fifo")
    create_standard_queue(env, "dead")
    return env


class Work:
    """A queue whose jobs do what their argument says."""

    def __init__(self, env: SQSEnv, name: str = "jobs", **settings: Any) -> None:
        self.ran: list[Any] = []
        self.queue = env.queue(name, **settings)
        self.context = Context()

        @self.queue.processor("work")
        def work(value: Any, takes: float = 0.0) -> None:
            self.ran.append(value)
            self.context.left -= takes
            if value == "bad":
                raise ValueError("bad")
            if value == "again":
                raise RetryJob
            if value == "never":
                raise PermanentError("never")

    def call(self, *records: Any, **options: Any) -> Any:
        return lambda_handler(self.queue, **options)(batch(*records), self.context)


def test_failed_messages_are_named_and_no_others(env: SQSEnv) -> None:
    work = Work(env)
    answer = work.call(
        job("m1", "work", value=1),
        job("m2", "work", value="bad"),
        job("m3", "work", value="again"),
        job("m4", "work", value=4),
        job("m5", "unknown"),
        record("m6", "invalid-json", JobName="work", ContentType="json"),
        record("m7", "{}", JobName="work", ContentType="pickle"),
    )
    assert answer == failures("m2", "m3", "m5", "m6", "m7")
    assert work.ran == [1, "bad", "again", 4]


def test_an_empty_batch_is_answered(env: SQSEnv) -> None:
    assert Work(env).call() == failures()


@pytest.mark.parametrize("name", ["standard", "fifo", "attributes"])
def test_batches_as_aws_documents_them_become_messages(name: str) -> None:
    records = SHAPES[name]["event"]["Records"]
    for (message, arn), raw in zip(messages_of(SHAPES[name]["event"], 1.0), records, strict=True):
        assert (message.message_id, message.body, arn) == (
            raw["messageId"],
            raw["body"],
            raw["eventSourceARN"],
        )
        assert message.receive_count == 1
        assert message.group_id == raw["attributes"].get("MessageGroupId")
        assert message.receipt_handle == raw["receiptHandle"]


def test_attributes_come_in_boto3s_shape() -> None:
    ((message, _),) = messages_of(SHAPES["attributes"]["event"], 0.0)
    assert message.message_attributes == {
        "text": {"DataType": "String", "StringValue": "a"},
        "number": {"DataType": "Number", "StringValue": "9.90"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xff"},
        "custom": {"DataType": "String.kind", "StringValue": "b"},
        "broken": {"DataType": "Binary"},
    }


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"Records": {}},
        {"Records": ["x"]},
        {"Records": [{"eventSource": "aws:s3"}]},
        {"Records": [{"EventSource": "aws:sns"}]},
        {"Records": [{"eventSource": "aws:sqs", "messageId": "", "body": "x"}]},
        {"Records": [{"eventSource": "aws:sqs", "messageId": "m", "body": None}]},
    ],
)
def test_what_is_no_batch_of_sqs_is_an_error_and_so_given_back_whole(env: SQSEnv, event: Any) -> None:
    work = Work(env)
    with pytest.raises(ConfigurationError):
        lambda_handler(work.queue)(event, work.context)


# FIFO


def fifo(env: SQSEnv, *values: tuple[str, str, Any]) -> tuple[Any, Any]:
    work = Work(env, "jobs.fifo")
    answer = work.call(*(job(id_, "work", group, value=value) for id_, group, value in values))
    return answer, work.ran


def test_after_a_failure_the_rest_of_its_group_comes_again_and_other_groups_go_on(env: SQSEnv) -> None:
    answer, ran = fifo(
        env,
        ("a1", "a", "bad"),
        ("b1", "b", "b1"),
        ("a2", "a", "a2"),
        ("b2", "b", "b2"),
        ("a3", "a", "a3"),
    )
    assert answer == failures("a1", "a2", "a3")
    assert ran == ["bad", "b1", "b2"]


@pytest.mark.parametrize("value", ["again", "never"])
def test_a_retry_and_a_permanent_error_that_is_left_hold_their_group_too(env: SQSEnv, value: str) -> None:
    answer, ran = fifo(env, ("a1", "a", 1), ("a2", "a", value), ("a3", "a", 3))
    assert answer == failures("a2", "a3")
    assert ran == [1, value]


def test_a_permanent_error_that_is_isolated_holds_nobody(env: SQSEnv) -> None:
    work = Work(env, "jobs.fifo", failure_policy=DeadLetter("dead"))
    answer = work.call(*(job(f"a{v}", "work", "a", value=v) for v in (1, "never", 3)))
    assert answer == failures()
    assert work.ran == [1, "never", 3]
    assert counts(env, "dead") == (1, 0)


def test_f40_what_failed_before_is_forgotten_at_the_next_call(env: SQSEnv) -> None:
    work = Work(env, "jobs.fifo")
    handler = lambda_handler(work.queue)
    assert handler(batch(job("a1", "work", "a", value="bad")), work.context) == failures("a1")
    assert handler(batch(job("a1", "work", "a", count=2, value=1)), work.context) == failures()


def test_a_fifo_queue_is_known_by_the_batch_too(env: SQSEnv) -> None:
    env.queue("by-url", queue_url="https://sqs.example/1/by-url")
    work = Work(env, "by-url")
    answer = work.call(*(job(f"a{v}", "work", "a", value=v) for v in ("bad", 2)))
    assert answer == failures("abad", "a2")


# The deadline


@pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])
def test_near_the_deadline_nothing_more_is_started_and_the_rest_comes_again(
    env: SQSEnv, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(env, name)
    released: list[tuple[str, str]] = []
    env.hooks.add(MessageReleased, lambda event: released.append((event.message_id, event.reason)))
    work.context = Context(15.0)
    group = "g" if name.endswith(".fifo") else None
    answer = work.call(*(job(f"m{n}", "work", group, value=n, takes=2.0) for n in range(10)))
    # 15, 13, 11, 9, 7: at 5 seconds half of the batch is done.
    assert work.ran == [0, 1, 2, 3, 4]
    assert answer == failures("m5", "m6", "m7", "m8", "m9")
    assert released == [(f"m{n}", "Lambda's deadline is near") for n in range(5, 10)]
    assert "5 message(s) of queue" in caplog.text


def test_the_time_kept_back_may_be_chosen(env: SQSEnv) -> None:
    work = Work(env)
    work.context = Context(15.0)
    records = [job(f"m{n}", "work", value=n, takes=2.0) for n in range(10)]
    assert work.call(*records, stop_before=12.0) == failures(*(f"m{n}" for n in range(2, 10)))
    with pytest.raises(ConfigurationError, match="0 or more seconds"):
        lambda_handler(work.queue, stop_before=-1)


def test_a_function_that_could_never_start_a_job_says_so(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(env)
    work.context = Context(3.0)
    assert work.call(job("m1", "work", value=1)) == failures("m1")
    (said,) = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "give the function a longer timeout" in said.getMessage()


def test_without_a_context_there_is_no_deadline(env: SQSEnv) -> None:
    work = Work(env)
    assert lambda_handler(work.queue)(batch(job("m1", "work", value=1))) == failures()


# Failures for good


@pytest.mark.parametrize(
    ("policy", "expected", "dead"),
    [(DeadLetter("dead"), failures(), 1), (Discard(), failures(), 0), (None, failures("m1"), 0)],
)
def test_the_failure_policy_isolates_what_no_retry_can_help(
    env: SQSEnv, policy: Any, expected: Any, dead: int
) -> None:
    work = Work(env, failure_policy=policy)
    assert work.call(job("m1", "work", value="never"), job("m2", "work", value=2)) == expected
    copies = env.queue("dead").get_raw_messages()
    assert len(copies) == dead
    for copy in copies:
        assert copy.body == '{"value": "never"}'
        assert copy.string_attribute("DeadLetterMessageId") == "m1"
        assert copy.string_attribute("DeadLetterReason") == "permanent error"
        assert copy.string_attribute("JobName") == "work"


def test_f22_a_copy_that_is_not_taken_is_no_success(env: SQSEnv, caplog: pytest.LogCaptureFixture) -> None:
    work = Work(env, failure_policy=DeadLetter("absent"))
    assert work.call(job("m1", "work", value="never")) == failures("m1")
    assert "could not be copied to absent" in caplog.text


def test_attempts_are_counted_by_the_receive_count(env: SQSEnv) -> None:
    work = Work(env, failure_policy=DeadLetter("dead"), max_attempts=3)
    assert work.call(job("m1", "work", count=2, value="bad")) == failures("m1")
    assert work.call(job("m1", "work", count=3, value="bad")) == failures()
    assert counts(env, "dead") == (1, 0)


def test_a_failed_message_may_be_made_visible_as_the_backoff_policy_says(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(env, backoff_policy=ConstantBackoff(77))
    url = work.queue.url
    message_id = work.queue.add_job("work", value="bad")
    (message,) = work.queue.get_raw_messages()
    raw = job(message_id or "", "work", value="bad") | {"receiptHandle": message.receipt_handle}
    assert work.call(raw, backoff=True) == failures(message.message_id)
    assert work.call(job("m2", "work", value="bad"), backoff=True) == failures("m2")
    assert "visibility of message m2 of queue jobs cannot be changed" in caplog.text
    env.clock.advance(76)  # type: ignore[attr-defined]
    assert counts(env, "jobs") == (0, 1)
    env.clock.advance(2)  # type: ignore[attr-defined]
    assert counts(env, "jobs") == (1, 0)
    assert url


# Kinds of processors


def test_async_jobs_share_one_event_loop_from_call_to_call(env: SQSEnv) -> None:
    import asyncio

    loops: list[Any] = []
    queue = env.queue("jobs")

    @queue.processor("work")
    async def work(value: int) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        if value == 2:
            raise ValueError

    handler = lambda_handler(queue)
    assert handler(batch(job("m1", "work", value=1), job("m2", "work", value=2)), Context()) == failures("m2")
    assert handler(batch(job("m3", "work", value=3)), Context()) == failures()
    assert len({id(loop) for loop in loops}) == 1
    handler.close()
    assert loops[0].is_closed()


@pytest.mark.parametrize(
    ("timeout", "left", "words"),
    [(0.01, 60.0, "did not end within 0.01 s"), (None, 6.0 - 4.99, "deadline came before its end")],
)
def test_an_async_job_is_cut_off_at_its_timeout_and_before_the_deadline(
    env: SQSEnv, timeout: Any, left: float, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    import asyncio

    ended: list[str] = []
    queue = env.queue("jobs")

    @queue.processor("work", timeout=timeout)
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    handler = lambda_handler(queue, stop_before=1.0)
    assert handler(batch(job("m1", "work")), Context(left)) == failures("m1")
    handler.close()
    assert ended == ["cancelled"]
    assert words in caplog.text


def test_raw_queues_work_too(env: SQSEnv) -> None:
    create_standard_queue(env, "raw")
    queue = env.queue("raw", RawQueue)
    bodies: list[str] = []
    queue.connect_raw_processor(lambda message: bodies.append(message.body))
    assert lambda_handler(queue)(SHAPES["standard"]["event"], Context()) == failures()
    assert bodies == ["Test message.", "Test message."]


def test_batch_handlers_get_lists_and_may_name_what_failed(env: SQSEnv) -> None:
    queue = env.queue("jobs", batching_policy=BatchMessages(3))
    lists: list[list[int]] = []

    @queue.processor("work")
    def work(messages: list[Any]) -> Any:
        lists.append([message["value"] for message in messages])
        if len(lists) == 1:
            outcome = BatchOutcome()
            outcome.fail(1)
            return outcome
        return None

    answer = lambda_handler(queue)(batch(*(job(f"m{n}", "work", value=n) for n in range(5))), Context())
    assert lists == [[0, 1, 2], [3, 4]]
    assert answer == failures("m1")


def test_a_job_may_act_on_its_message(env: SQSEnv) -> None:
    queue = env.queue("jobs")
    left: list[float] = []

    @queue.processor("work")
    def work() -> None:
        current = current_job()
        assert current is not None
        assert not current.lost
        current.change_visibility(60)
        assert current.message.lease is not None
        left.append(current.message.lease.remaining)

    message_id = work.delay()
    (message,) = queue.get_raw_messages()
    raw = job(message_id or "", "work") | {"receiptHandle": message.receipt_handle}
    assert lambda_handler(queue)(batch(raw), Context()) == failures()
    assert left == [pytest.approx(60.0, abs=0.1)]
    env.clock.advance(50)  # type: ignore[attr-defined]
    assert counts(env, "jobs") == (0, 1)


def test_a_queue_without_processors_is_refused(env: SQSEnv) -> None:
    with pytest.raises(ConfigurationError, match="no processor"):
        lambda_handler(env.queue("jobs"))


def test_middleware_that_does_not_fit_is_refused_before_the_first_batch(env: SQSEnv) -> None:
    async def around(job: Any, call_next: Any) -> Any:
        return await call_next(job)

    with pytest.raises(ConfigurationError, match="is async"):
        lambda_handler(Work(env, middleware=[around]).queue)


def test_hooks_see_what_they_see_of_a_worker(env: SQSEnv) -> None:
    names: list[str] = []
    kinds = (MessageReceived, JobStarted, JobSucceeded, JobFailed, JobDeadLettered, MessageSettled)
    for kind in kinds:
        env.hooks.add(kind, lambda event: names.append(type(event).__name__))
    work = Work(env, failure_policy=DeadLetter("dead"))
    work.call(job("m1", "work", value=1), job("m2", "work", value="never"))
    assert names == [
        *("MessageReceived", "MessageReceived", "JobStarted", "JobSucceeded", "MessageSettled"),
        *("JobStarted", "JobFailed", "JobDeadLettered", "MessageSettled"),
    ]


# The mapping


def many_failures(work: Work, handler: Any, count: int = 5) -> None:
    handler(batch(*(job(f"m{n}", "work", value="bad") for n in range(count))), work.context)


def test_failures_that_never_come_back_raise_the_suspicion_that_nobody_listens(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(env)
    handler = lambda_handler(work.queue)
    many_failures(work, handler)
    for _ in range(3):
        env.clock.advance(500)  # type: ignore[attr-defined]
        handler(batch(job("n", "work", value=1)), work.context)
    said = [entry.getMessage() for entry in caplog.records if "ReportBatchItemFailures" in entry.getMessage()]
    assert len(said) == 1
    assert "5 failed messages of queue jobs" in said[0]


@pytest.mark.parametrize("reason", ["one came back", "too few", "too early"])
def test_a_sound_mapping_is_not_suspected(env: SQSEnv, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    work = Work(env)
    handler = lambda_handler(work.queue)
    many_failures(work, handler, 4 if reason == "too few" else 5)
    if reason == "one came back":
        handler(batch(job("m1", "work", count=2, value=1)), work.context)
    env.clock.advance(60 if reason == "too early" else 2000)  # type: ignore[attr-defined]
    handler(batch(job("n", "work", value=1)), work.context)
    assert "ReportBatchItemFailures" not in caplog.text


class Mappings:
    """The part of Lambda's client that is used."""

    def __init__(self, *response_types: list[str], error: Exception | None = None) -> None:
        self.response_types = response_types
        self.error = error
        self.asked: list[dict[str, str]] = []

    def list_event_source_mappings(self, **request: str) -> Any:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        return {
            "EventSourceMappings": [{"UUID": "u", "FunctionResponseTypes": t} for t in self.response_types]
        }


def test_a_mapping_that_does_not_listen_gets_the_whole_batch_back(env: SQSEnv) -> None:
    work = Work(env)
    handler = lambda_handler(work.queue, check_mapping=True, lambda_client=Mappings([]))
    assert handler(batch(job("m1", "work", value=1)), work.context) == failures()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="the whole batch is given back"):
            handler(batch(job("m1", "work", value="bad")), work.context)


def test_a_mapping_that_listens_is_asked_for_once(env: SQSEnv) -> None:
    work, client = Work(env), Mappings(["ReportBatchItemFailures"])
    handler = lambda_handler(work.queue, check_mapping=True, lambda_client=client)
    for _ in range(3):
        assert handler(batch(job("m1", "work", value="bad")), work.context) == failures("m1")
    arn = "arn:aws:sqs:us-east-1:123456789012:jobs"
    assert client.asked == [{"FunctionName": Context.invoked_function_arn, "EventSourceArn": arn}]


def test_a_mapping_that_may_not_be_read_fails_nothing(env: SQSEnv, caplog: pytest.LogCaptureFixture) -> None:
    work = Work(env)
    client = Mappings(error=api_error("AccessDeniedException", 403))
    handler = lambda_handler(work.queue, check_mapping=True, lambda_client=client)
    assert handler(batch(job("m1", "work", value="bad")), work.context) == failures("m1")
    assert "cannot be read: AccessDeniedException" in caplog.text


def test_no_boto3_is_loaded_where_nothing_is_sent() -> None:
    program = """
import json, sys
from sqs_workers import SQSEnv, PermanentError
from sqs_workers.aws import lambda_handler

env = SQSEnv(codec="json")
queue = env.queue("jobs", envelope="auto")

@queue.processor("work")
def work(value):
    if value == 2:
        raise PermanentError("x")

@queue.events().on("order.paid")
async def paid(event):
    pass

handler = lambda_handler(queue)
from tests.aws.calls import Context, batch, job, record
answer = handler(batch(job("m1", "work", value=1), job("m2", "work", value=2), record("m3", {})), Context())
handler.close()
print(json.dumps([answer, [n for n in ("boto3", "botocore", "sqlalchemy", "cryptography") if n in sys.modules]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    )
    assert json.loads(done.stdout) == [failures("m2", "m3"), []]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, "bad", "again", "never"]), st.floats(0, 3)),
        max_size=10,
    ),
    st.floats(0, 20),
)
@settings(max_examples=60, deadline=None)
def test_a_group_is_done_up_to_its_first_failure_and_comes_again_from_there(
    jobs: list[tuple[str, Any, float]], left: float
) -> None:
    env = SQSEnv(MemorySession(), codec="json")
    work = Work(env, "jobs.fifo")
    work.context = Context(left)
    records = [job(f"m{n}", "work", g, value=v, takes=t) for n, (g, v, t) in enumerate(jobs)]
    failed = [entry["itemIdentifier"] for entry in work.call(*records)["batchItemFailures"]]
    # The same, in the simplest words.
    expected, held, seconds = [], set(), left
    for n, (group, value, takes) in enumerate(jobs):
        if group in held or int(seconds * 1000) / 1000 <= 5.0:
            expected.append(f"m{n}")
            continue
        seconds -= takes
        if isinstance(value, str):
            expected.append(f"m{n}")
            held.add(group)
    assert failed == expected
