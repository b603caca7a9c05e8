"""Processors, contexts, codecs and policies of a user's own."""

from __future__ import annotations

import base64
import logging
import threading
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from unittest import mock

import pytest

from sqs_workers import (
    DEFAULT_BACKOFF,
    IMMEDIATE_RETURN,
    ConstantBackoff,
    ExponentialBackoff,
    MemorySession,
    ProcessingResult,
    RetryJob,
    SQSEnv,
    codecs,
    create_standard_queue,
)
from sqs_workers.backoff_policies import BackoffPolicy
from sqs_workers.batching import BatchMessages
from sqs_workers.config import Config
from sqs_workers.context import SQSContext
from sqs_workers.processors import Processor, call_handler, get_job_content_type, get_job_context
from sqs_workers.shutdown_policies import (
    AndShutdown,
    IdleShutdown,
    MaxTasksShutdown,
    NeverShutdown,
    OrShutdown,
)
from sqs_workers.utils import batcher, bind_arguments, ensure_string, validate_arguments


def env_with(session: Any, **options: Any) -> SQSEnv:
    env = SQSEnv(session, backoff_policy=IMMEDIATE_RETURN, **options)
    create_standard_queue(env, "emails")
    return env


def run(env: SQSEnv, fn: Any = None, **kwargs: Any) -> Any:
    queue = env.queue("emails")
    queue.processor("job")(fn or (lambda **kw: None))
    queue.add_job("job", **kwargs)
    return queue.process_batch()


def test_a_processor_wraps_process(session: Any) -> None:
    seen = []

    class Custom(Processor):
        def process(self, job_kwargs: Any, job_context: Any) -> Any:
            seen.append((self.queue.name, self.job_name, dict(job_kwargs), job_context["user"]))
            return super().process(job_kwargs, job_context)

    env = env_with(session, processor_maker=Custom)
    with env.context(user="ann"):
        assert run(env, n=1).succeeded_count() == 1
    assert seen == [("emails", "job", {"n": 1}, "ann")]


def test_a_dataclass_processor_takes_options_from_its_maker(session: Any) -> None:
    @dataclass
    class Custom(Processor):
        prefix: str = ""

        def process(self, job_kwargs: Any, job_context: Any) -> Any:
            seen.append(self.prefix)
            return super().process(job_kwargs, job_context)

    seen: list[str] = []
    assert run(env_with(session, processor_maker=Custom.maker(prefix="a"))).succeeded_count() == 1
    assert run(env_with(MemorySession(), processor_maker=partial(Custom, prefix="b"))).succeeded_count() == 1
    assert seen == ["a", "b"]


def test_a_processor_maker_is_any_callable_with_these_keywords(session: Any) -> None:
    seen = {}

    def maker(**kwargs: Any) -> Processor:
        seen.update(kwargs)
        return Processor(**kwargs)

    env = env_with(session, processor_maker=maker)
    run(env)
    assert seen.keys() == {"queue", "fn", "pass_context", "context_var", "job_name"}


@pytest.mark.parametrize(
    "answer", [True, False, ProcessingResult(True), ProcessingResult(False, ConstantBackoff(3))]
)
def test_process_message_of_a_processor_may_answer_itself(session: Any, answer: Any) -> None:
    class Custom(Processor):
        def process_message(self, message: Any) -> Any:
            return answer

    result = run(env_with(session, processor_maker=Custom))
    assert result.succeeded_count() == (answer if isinstance(answer, bool) else answer.success)


def test_process_message_of_a_processor_may_wrap_super(session: Any) -> None:
    answers = []

    class Custom(Processor):
        def process_message(self, message: Any) -> Any:
            answer = super().process_message(message)
            answers.append(answer if isinstance(answer, bool) else answer.success)
            return answer

    def fail() -> None:
        raise ValueError("no")

    assert run(env_with(session, processor_maker=Custom), fail).failed_count() == 1
    assert run(env_with(MemorySession(), processor_maker=Custom)).succeeded_count() == 1
    assert answers == [False, True]


def test_process_message_of_a_subclass_is_falsy_when_it_failed(session: Any) -> None:
    seen = []

    class Custom(Processor):
        def process_message(self, message: Any) -> Any:
            if not super().process_message(message):
                seen.append("failed")
                return True  # swallow
            return True

    def fail() -> None:
        raise ValueError("no")

    assert run(env_with(session, processor_maker=Custom), fail).succeeded_count() == 1
    assert seen == ["failed"]


def test_process_messages_of_a_processor_may_wrap_super(session: Any) -> None:
    sizes = []

    class Custom(Processor):
        def process_messages(self, messages: Any) -> Any:
            sizes.append(len(messages))
            return super().process_messages(messages)

    env = env_with(session, processor_maker=Custom)
    queue = env.queue("emails", batching_policy=BatchMessages(10))
    queue.processor("job")(lambda messages: None)
    queue.add_job("job", n=1)
    assert queue.process_batch().succeeded_count() == 1
    assert sizes == [1]


def test_process_batch_of_a_processor_may_be_replaced(session: Any) -> None:
    seen = []

    class Custom(Processor):
        def process_batch(self, messages: Any) -> Any:
            for message in messages:
                seen.append(self.deserialize_message(message)[1])

    env = env_with(session, processor_maker=Custom)
    queue = env.queue("emails", batching_policy=BatchMessages(10))
    queue.processor("job")(lambda messages: None)
    queue.add_job("job", n=1)
    assert queue.process_batch().succeeded_count() == 1
    assert seen == [{"n": 1}]


def test_deserialize_message_may_be_overridden(session: Any) -> None:
    class Custom(Processor):
        @staticmethod
        def deserialize_message(message: Any) -> Any:
            content_type, kwargs, context = Processor.deserialize_message(message)
            return content_type, {**kwargs, "added": True}, context

    seen = []
    run(env_with(session, processor_maker=Custom), lambda n, added: seen.append((n, added)), n=1)
    assert seen == [(1, True)]


def test_deserialize_message_answers_three_things(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    with sqs.context(user="ann"):
        queue.add_job("job", _content_type="json", n=1)
    (message,) = queue.get_raw_messages(0)
    content_type, kwargs, context = Processor.deserialize_message(message)
    assert (content_type, kwargs, context.to_dict()) == ("json", {"n": 1}, {"user": "ann"})
    assert get_job_content_type(message) == "json"
    assert get_job_context(message, codecs.get_codec("json")).to_dict() == {"user": "ann"}


def test_an_exception_of_process_is_a_failure_and_retryjob_a_retry(session: Any) -> None:
    class Custom(Processor):
        def process(self, job_kwargs: Any, job_context: Any) -> Any:
            raise RetryJob(ConstantBackoff(0))

    assert run(env_with(session, processor_maker=Custom)).failed_count() == 1


def test_a_subclass_of_retryjob_is_a_retry(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    class RateLimited(RetryJob):
        def __init__(self) -> None:
            super().__init__(backoff_policy=ConstantBackoff(0))

    def limited() -> None:
        raise RateLimited

    with caplog.at_level(logging.INFO, "sqs_workers"):
        assert run(env_with(session), limited).failed_count() == 1
    assert [r.levelname for r in caplog.records if "Retrying" in r.message] == ["INFO"]
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_a_failing_job_is_logged_once_with_its_traceback(
    session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("no")

    with caplog.at_level(logging.INFO, "sqs_workers"):
        run(env_with(session), fail)
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.message.startswith("Error while processing emails.job")
    assert record.exc_info
    assert record.exc_info[0] is ValueError
    assert (record.queue_name, record.job_name) == ("emails", "job")  # type: ignore[attr-defined]
    assert record.message_id  # type: ignore[attr-defined]
    assert record.name == "sqs_workers.processors"


def test_an_unknown_job_is_logged_as_before(sqs: SQSEnv, caplog: pytest.LogCaptureFixture) -> None:
    queue = sqs.queue("emails")
    queue.add_job("nobody")
    assert queue.process_batch().failed_count() == 1
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.message.startswith("Could not find an SQS processor for emails.nobody")


def test_pass_context_and_context_var(session: Any) -> None:
    env = env_with(session)
    queue = env.queue("emails")
    seen = []

    @queue.processor("one", True)
    def one(name: Any = None, context: Any = None) -> None:
        seen.append((name, context["addr"], context.get("none"), context.to_dict()))

    @queue.processor("two", pass_context=True, context_var="ctx")
    def two(ctx: Any) -> None:
        seen.append(ctx["addr"])

    env.context["addr"] = "127.0.0.1"
    one.delay(name="Foo")
    queue.add_job("two")
    env.context.clear()
    while len(seen) < 2:
        assert queue.process_batch().succeeded_count()
    assert sorted(map(str, seen)) == sorted(
        map(str, [("Foo", "127.0.0.1", None, {"addr": "127.0.0.1"}), "127.0.0.1"])
    )


def test_pass_context_with_a_batch_puts_it_into_each_message(session: Any) -> None:
    env = env_with(session)
    queue = env.queue("emails", batching_policy=BatchMessages(10))
    seen = []

    @queue.processor("job", pass_context=True)
    def job(messages: Any) -> None:
        seen.extend((message["n"], message["context"]["addr"]) for message in messages)

    with env.context(addr="x"):
        job.delay(n=1)
    queue.process_batch()
    assert seen == [(1, "x")]


def test_a_context_class_of_a_users_own(session: Any) -> None:
    class Own(SQSContext):
        def to_dict(self) -> Any:
            return {**super().to_dict(), "always": 1}

    env = env_with(session, context_maker=Own)
    assert isinstance(env.context, Own)
    seen = []
    queue = env.queue("emails")
    queue.processor("job", pass_context=True)(lambda context: seen.append(context.to_dict()))
    queue.add_job("job")
    queue.process_batch()
    assert seen == [{"always": 1}]


def test_a_context_maker_is_any_callable(session: Any) -> None:
    env = env_with(session, context_maker=partial(SQSContext, app="shop"))
    assert env.context["app"] == "shop"


def test_the_context_behaves_like_a_small_dict() -> None:
    context = SQSContext(a=1)
    context.update(b=2)
    with context(c=3) as inner:
        assert inner is context
        assert context.to_dict() == {"a": 1, "b": 2, "c": 3}
    assert repr(context) == "SQSContext({'a': 1, 'b': 2})"
    context.set(z=0)
    assert context.to_dict() == {"z": 0}
    with pytest.raises(KeyError):
        context["a"]
    assert SQSContext.from_dict({"q": 1})["q"] == 1
    with pytest.raises(ValueError, match="boom"), context(x=1):
        raise ValueError("boom")
    assert context.get("x") is None


def test_the_context_is_the_threads_own() -> None:
    context = SQSContext()
    context["a"] = 1
    seen = []
    thread = threading.Thread(target=lambda: seen.append(context.to_dict()))
    thread.start()
    thread.join()
    assert seen == [{}]


def test_a_codec_of_a_users_own(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reversed(codecs.JSONCodec):
        @classmethod
        def serialize(cls, message: Any) -> str:
            return base64.b64encode(super().serialize(message).encode()).decode()

        @classmethod
        def deserialize(cls, serialized: str) -> Any:
            return super().deserialize(base64.b64decode(serialized).decode())

    monkeypatch.setitem(codecs.CONTENT_TYPES_CODECS, "reversed", Reversed)
    assert codecs.get_codec("reversed") is Reversed
    seen = []
    assert run(env_with(session, codec="reversed"), lambda n: seen.append(n), n=1).succeeded_count() == 1
    assert seen == [1]


def test_a_codec_may_be_replaced_in_the_registry(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Default(codecs.JSONCodec):
        @classmethod
        def serialize(cls, message: Any) -> str:
            import json

            return json.dumps(message, default=str)

    monkeypatch.setitem(codecs.CONTENT_TYPES_CODECS, "json", Default)
    import uuid

    value = uuid.uuid4()
    seen = []
    run(env_with(session, codec="json"), lambda n: seen.append(n), n=value)
    assert seen == [str(value)]


@pytest.mark.parametrize("name", ["json", "pickle", "pickle_compat"])
def test_codecs_are_called_on_their_classes(name: str) -> None:
    codec = codecs.get_codec(name)
    assert codec is codecs.CONTENT_TYPES_CODECS[name]
    assert codec.deserialize(codec.serialize({"a": [1]})) == {"a": [1]}
    with pytest.raises(KeyError):
        codecs.get_codec("none")


def test_backoff_policies_of_a_users_own_need_no_base_class(session: Any) -> None:
    asked = []

    class Own:
        def get_visibility_timeout(self, message: Any) -> float:
            asked.append(int(message.attributes["ApproximateReceiveCount"]))
            return 0

    def fail() -> None:
        raise ValueError

    env = SQSEnv(session, backoff_policy=Own())
    create_standard_queue(env, "emails")
    run(env, fail)
    assert asked == [1]


def test_backoff_policies_keep_their_arguments() -> None:
    message = mock.Mock(attributes={"ApproximateReceiveCount": "3"})
    assert ConstantBackoff(5).get_visibility_timeout(message) == 5
    assert ConstantBackoff(backoff_value=5).backoff_value == 5
    policy = ExponentialBackoff(3, 1, 100, 2)
    assert (policy.base, policy.min_visibility_timeout, policy.max_visibility_timeout, policy.multiplier) == (
        3,
        1,
        100,
        2,
    )
    assert ExponentialBackoff(max_visbility_timeout=7).max_visibility_timeout == 7
    assert 1 <= policy.get_visibility_timeout(message) <= 100
    assert isinstance(DEFAULT_BACKOFF, BackoffPolicy)


def test_a_shutdown_policy_of_a_users_own(sqs: SQSEnv) -> None:
    states = []

    class Once:
        done = False

        def update_state(self, result: Any) -> None:
            states.append((result.queue_name, result.total_count(), [m.body for m in result.succeeded]))
            self.done = self.done or result.succeeded_count() > 0

        def need_shutdown(self) -> bool:
            return self.done

    queue = sqs.queue("emails")
    queue.processor("job")(lambda: None)
    queue.add_job("job", _content_type="json")
    queue.process_queue(Once(), 0)
    assert ("emails", 1, ["{}"]) in states


def test_shutdown_policies_keep_their_attributes() -> None:
    policy = OrShutdown(IdleShutdown(5), AndShutdown(MaxTasksShutdown(2), NeverShutdown()))
    assert repr(policy) == "OrShutdown(IdleShutdown(5), AndShutdown(MaxTasksShutdown(2), NeverShutdown()))"
    assert policy.policies[0].idle_seconds == 5
    assert policy.policies[1].policies[0].max_tasks == 2
    result = mock.Mock(**{"total_count.return_value": 2})
    maximum = MaxTasksShutdown(max_tasks=2)
    maximum.update_state(result)
    assert maximum.need_shutdown()
    idle = IdleShutdown(idle_seconds=0)
    assert not idle.need_shutdown()
    idle.update_state(mock.Mock(**{"total_count.return_value": 0}))
    assert idle.need_shutdown()


def test_a_subclass_of_a_shutdown_policy_may_extend_it(sqs: SQSEnv) -> None:
    class Counting(MaxTasksShutdown):
        updates = 0

        def update_state(self, batch_processing_result: Any) -> None:
            self.updates += 1
            super().update_state(batch_processing_result)

    queue = sqs.queue("emails")
    queue.processor("job")(lambda: None)
    queue.add_job("job")
    policy = Counting(1)
    queue.process_queue(shutdown_policy=policy, wait_second=0)
    assert policy.updates >= 1


def test_the_utilities_keep_their_behaviour() -> None:
    def fn(a: int, b: int = 2) -> int:
        return a + b

    assert validate_arguments(fn, [1, 2, 3], {"c": 3}) == ((1, 2), {})
    with pytest.raises(TypeError):
        validate_arguments(fn, [1], {"c": 3}, drop_extra=False)
    assert bind_arguments(fn, [1], {"b": 3}) == {"a": 1, "b": 3}
    assert (ensure_string(b"x"), ensure_string("x"), ensure_string(1)) == ("x", "x", "1")
    assert list(batcher(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert call_handler(fn, [], {"a": 1, "z": 3}) == 3
    assert call_handler(mock.Mock(return_value=9), [], {"a": 1}) == 9


def test_the_config_makes_objects_from_names() -> None:
    config = Config(options={"maker": "sqs_workers.backoff_policies.ConstantBackoff"})
    child = config.make_child(
        {"own": {"maker": "sqs_workers.backoff_policies.ConstantBackoff", "backoff_value": 4}}
    )
    assert child.get_object("maker") is ConstantBackoff
    assert child.get_instance("own").backoff_value == 4
    assert child.get_instance("maker", backoff_value=1).backoff_value == 1
    assert child.get("none", 5) == 5
    child["x"] = 1
    assert child["x"] == 1
    with pytest.raises(KeyError):
        config["x"]
    with pytest.raises(RuntimeError):
        Config(options={"a": "nodots"}).get_object("a")


def test_decorated_and_partial_functions_are_processors(sqs: SQSEnv) -> None:
    seen = []

    def logged(fn: Any) -> Any:
        @wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            seen.append("before")
            return fn(*args, **kwargs)

        return inner

    queue = sqs.queue("emails")

    @queue.processor("job")
    @logged
    def job(n: int) -> None:
        seen.append(n)

    job.delay(5)
    queue.process_batch()
    assert seen == ["before", 5]


def test_methods_are_processors(sqs: SQSEnv) -> None:
    class Service:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def handle(self, n: int) -> None:
            self.seen.append(n)

    service = Service()
    task = sqs.queue("emails").connect_processor("job", service.handle)
    task.delay(n=4)
    sqs.queue("emails").process_batch()
    assert service.seen == [4]


def test_extra_arguments_are_dropped_and_kwargs_take_all(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    seen = []
    queue.processor("small")(lambda a: seen.append(a))
    queue.processor("all")(lambda **kwargs: seen.append(kwargs))
    queue.add_job("small", a=1, b=2)
    queue.process_batch()
    queue.add_job("all", a=1, b=2)
    queue.process_batch()
    assert seen == [1, {"a": 1, "b": 2}]
