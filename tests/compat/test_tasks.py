"""Tasks: sending, baking, batches, subclasses, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sqs_workers import JobQueue, SQSEnv
from sqs_workers.async_task import AsyncTask, AsyncTaskDelayArgs, BakedAsyncTask
from sqs_workers.batching import BatchMessages

try:
    from typing import Unpack
except ImportError:
    from typing_extensions import Unpack


def bodies(env: SQSEnv) -> list[Any]:
    from sqs_workers.processors import Processor

    return [Processor.deserialize_message(m)[1] for m in env.queue("emails").get_raw_messages(0)]


def make(env: SQSEnv) -> Any:
    @env.processor("emails", "send_email")
    def send_email(to: str, subject: str = "Hi", *, body: str = "") -> str:
        """Sends."""
        return f"{to} {subject} {body}"

    return send_email


def test_delay_binds_positional_arguments_to_their_names(sqs: SQSEnv) -> None:
    assert isinstance(make(sqs).delay("a", body="b"), str)
    assert bodies(sqs) == [{"to": "a", "body": "b"}]


def test_delay_refuses_wrong_arguments(sqs: SQSEnv) -> None:
    task = make(sqs)
    with pytest.raises(TypeError):
        task.delay()
    with pytest.raises(TypeError):
        task.delay("a", nothing=1)


def test_a_call_is_an_error_that_says_what_to_do(sqs: SQSEnv) -> None:
    with pytest.raises(
        RuntimeError, match=r"Async task emails.send_email called synchronously .*AsyncTask\.run"
    ):
        make(sqs)(to="a")
    with pytest.raises(RuntimeError):
        make(sqs).bake(to="a")()


def test_run_runs_here(sqs: SQSEnv) -> None:
    assert make(sqs).run("a", body="b") == "a Hi b"


def test_run_of_a_batch_handler_gets_a_list_of_one(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails", batching_policy=BatchMessages(10))
    task = queue.processor("job")(lambda messages: messages)
    assert task.run(n=1) == [{"n": 1}]
    with pytest.raises(TypeError):
        task.run(1)
    with pytest.raises(TypeError):
        task.delay(1)
    assert isinstance(task.delay(anything=1), str)


def test_attributes_and_representations(sqs: SQSEnv) -> None:
    task = make(sqs)
    assert isinstance(task, AsyncTask)
    assert (task.queue, task.job_name, task.__doc__) == (sqs.queue("emails"), "send_email", "Sends.")
    assert task.processor("x") == "x Hi "
    assert repr(task) == "<AsyncTask emails.send_email>"
    baked = task.bake("a", body="b")
    assert isinstance(baked, BakedAsyncTask)
    assert (baked.async_task, baked.args, baked.kwargs) == (task, ("a",), {"body": "b"})
    assert repr(baked) == "BakedAsyncTask(<AsyncTask emails.send_email>, ...)"
    baked.delay()
    assert bodies(sqs) == [{"to": "a", "body": "b"}]


def test_tasks_are_made_by_hand(sqs: SQSEnv) -> None:
    def job(n: int) -> None: ...

    AsyncTask(sqs.queue("emails"), "job", job).delay(3)
    assert bodies(sqs) == [{"n": 3}]
    BakedAsyncTask(AsyncTask(sqs.queue("emails"), "job", job), (4,), {}).delay()
    assert bodies(sqs) == [{"n": 4}]


def test_a_subclass_of_asynctask(sqs: SQSEnv) -> None:
    class Tracked(AsyncTask):
        def __init__(self, queue: Any, job_name: str, processor: Any) -> None:
            super().__init__(queue, job_name, processor)
            self.sent = 0

        def delay(self, *args: Any, **kwargs: Any) -> Any:
            self.sent += 1
            return super().delay(*args, **kwargs)

    class Queue(JobQueue):
        def connect_processor(self, *args: Any, **kwargs: Any) -> Any:
            task = super().connect_processor(*args, **kwargs)
            return Tracked(self, task.job_name, task.processor)

    task = sqs.queue("emails", Queue).processor("job")(lambda n: None)
    assert isinstance(task, Tracked)
    task.delay(1)
    task.bake(2).delay()
    with task.batch():
        task.delay(n=3)
    assert task.sent == 3
    assert repr(task) == "<Tracked emails.job>"


def test_options_with_underscores(sqs: SQSEnv) -> None:
    task = make(sqs)
    task.delay("a", _content_type="json", _delay_seconds=0)
    task.bake("b", _content_type="json").delay()
    messages = sqs.queue("emails").get_raw_messages(0)
    messages += sqs.queue("emails").get_raw_messages(0)
    assert sorted(m.body for m in messages) == ['{"to": "a"}', '{"to": "b"}']


def test_functions_may_declare_the_options_for_type_checkers(sqs: SQSEnv) -> None:
    @sqs.queue("emails").processor("job")
    def job(n: int, **_delay_args: Unpack[AsyncTaskDelayArgs]) -> None:
        seen.append(n)

    seen: list[int] = []
    job.delay(1, _content_type="json")
    assert bodies(sqs)[0]["n"] == 1


def test_batches_by_every_road(sqs: SQSEnv) -> None:
    queue, task = sqs.queue("emails"), make(sqs)
    with queue.add_batch():
        assert queue.add_job("send_email", to="1") is None
        with task.batch():
            assert task.delay(to="2") is None
        assert queue.get_raw_messages(0) == []
    queue.open_add_batch()
    task.bake("3").delay()
    queue.close_add_batch()
    queue.close_add_batch()
    got: list[str] = []
    while len(got) < 3:
        got += [kwargs["to"] for kwargs in bodies(sqs)]
    assert sorted(got) == ["1", "2", "3"]


def test_add_job_of_the_environment_is_deprecated_and_works(sqs: SQSEnv) -> None:
    with pytest.warns(DeprecationWarning, match="add_job"):
        sqs.add_job("emails", "job", "json", n=1)
    assert bodies(sqs) == [{"n": 1}]


def test_add_raw_job_takes_what_was_encoded_elsewhere(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    queue.add_raw_job("job", '{"n": 1}', "{}", "json", None, None, None)
    assert bodies(sqs) == [{"n": 1}]


def test_tasks_are_copied_and_compared_by_identity(sqs: SQSEnv) -> None:
    task = make(sqs)
    other = copy.copy(task)
    assert (other.queue, other.job_name) == (task.queue, task.job_name)
    other.delay("a")
    assert bodies(sqs) == [{"to": "a"}]
    assert {task: 1}[task] == 1


def test_arguments_of_any_class_travel_by_pickle(sqs: SQSEnv) -> None:
    seen: list[Any] = []
    sqs.queue("emails").processor("job")(lambda value: seen.append(value))
    for value in ({1, 2}, complex(1, 2), b"\x00", Exception("x").args, range(3)):
        sqs.queue("emails").add_job("job", value=value)
        sqs.queue("emails").process_batch()
    assert seen == [{1, 2}, complex(1, 2), b"\x00", ("x",), range(3)]
    assert pickle.loads(pickle.dumps(seen)) == seen


def test_env_processor_takes_context_arguments_by_position(sqs: SQSEnv) -> None:
    seen = []

    @sqs.processor("emails", "job", True, "ctx")
    def job(n: int, ctx: Any = None) -> None:
        seen.append((n, ctx.to_dict()))

    with sqs.context(a=1):
        job.delay(2)
    sqs.queue("emails").process_batch()
    assert seen == [(2, {"a": 1})]


def test_a_queue_may_have_an_add_batch_of_its_own(sqs: SQSEnv) -> None:
    class Counting(JobQueue):
        batches = 0

        @contextmanager
        def add_batch(self) -> Iterator[None]:
            self.batches += 1
            with super().add_batch():
                yield

    queue = sqs.queue("emails", Counting)
    task = queue.processor("job")(lambda n: None)
    with task.batch():
        task.delay(n=1)
    assert queue.batches == 1
    assert len(queue.get_raw_messages(0)) == 1


def test_add_batch_decorates_a_function(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")

    @queue.add_batch()
    def send_two() -> None:
        queue.add_job("job", n=1)
        assert queue.add_job("job", n=2) is None

    send_two()
    send_two()
    assert queue.drain_queue() == 4
