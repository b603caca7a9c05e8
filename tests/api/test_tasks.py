"""Tasks: what they check, what they send, and how they look to tools."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from sqs_workers import AsyncTask, BatchMessages, JobQueue, RetryJob
from sqs_workers.exceptions import InvalidMessageError
from sqs_workers.testing import sent_jobs


def test_a_task_sends_its_arguments_by_name_in_the_order_of_the_signature(queue: Any) -> None:
    @queue.processor("send")
    def send(to: str, subject: str = "none", *, body: str = "") -> None: ...

    assert send.delay("a", body="c", subject="b")
    (job,) = sent_jobs(queue)
    assert (job.name, list(job.kwargs.items())) == ("send", [("to", "a"), ("subject", "b"), ("body", "c")])


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "missing a required argument: 'to'"),
        (("a", "b", "c"), {}, "too many positional"),
        (("a",), {"to": "b"}, "multiple values"),
        (("a",), {"unknown": 1}, "unknown"),
    ],
)
def test_wrong_arguments_are_a_type_error_where_they_are_written(
    queue: Any, args: Any, kwargs: Any, says: str
) -> None:
    @queue.processor("send")
    def send(to: str, subject: str = "") -> None: ...

    for call in (send.delay, send.bake, send.options(delay=1).delay):
        with pytest.raises(TypeError, match=says):
            call(*args, **kwargs)
    assert sent_jobs(queue) == []


def test_a_required_context_is_not_asked_of_the_sender(queue: Any, env: Any) -> None:
    seen = []

    @queue.processor("send", pass_context=True)
    def send(to: str, context: Any) -> None:
        seen.append((to, context["user"]))

    with env.context(user=7):
        send.delay("a")
    queue.process_batch()
    assert seen == [("a", 7)]


def test_arguments_may_have_any_name(queue: Any) -> None:
    seen = []

    @queue.processor("send")
    def send(job_name: str, self: str, queue: str) -> None:
        seen.append((job_name, self, queue))

    send.delay(job_name="a", self="b", queue="c")
    queue.process_batch()
    assert seen == [("a", "b", "c")]


def test_var_keywords_are_flat_and_options_never_reach_the_job(queue: Any) -> None:
    seen: list[Any] = []

    @queue.processor("send")
    def send(to: str, **others: Any) -> None:
        seen.append((to, others))

    send.delay("a", color="red", _delay_seconds=0, _content_type="json")
    queue.process_batch()
    assert seen == [("a", {"color": "red"})]


def test_positional_only_parameters_arrive_as_such(queue: Any) -> None:
    seen = []

    @queue.processor("send")
    def send(to: str, /, subject: str = "x") -> None:
        seen.append((to, subject))

    send.delay("a")
    with pytest.raises(TypeError, match="positional"):
        send.delay(to="a")
    queue.process_batch()
    assert seen == [("a", "x")]


def test_what_only_var_positional_would_take_is_refused(queue: Any) -> None:
    @queue.processor("send")
    def send(*names: str) -> None: ...

    with pytest.raises(TypeError, match="named arguments"):
        send.delay("a")


def test_options_are_set_in_both_ways(queue: Any, make_queue: Any) -> None:
    fifo = make_queue("jobs.fifo")

    @queue.processor("send")
    def send() -> None: ...

    @fifo.processor("send")
    def send_fifo() -> None: ...

    send.delay(_delay_seconds=1.2)
    send.options(delay=timedelta(minutes=1), codec="pickle").delay()
    send_fifo.delay(_group_id="g", _deduplication_id="1")
    send_fifo.options(group_id="g", deduplication_id=2).delay()  # type: ignore[arg-type]
    send_fifo.options(deduplication_id="3").delay()
    assert [(job.delay, job.content_type) for job in sent_jobs(queue)] == [(2, "json"), (60, "pickle")]
    assert [(job.group_id, job.deduplication_id) for job in sent_jobs(fifo)] == [
        ("g", "1"),
        ("g", "2"),
        ("default", "3"),
    ]
    with pytest.raises(InvalidMessageError):
        send.options(delay=timedelta(days=367)).delay()


def test_calling_a_task_is_an_error_that_says_what_to_do(queue: Any) -> None:
    @queue.processor("send")
    def send(to: str) -> str:
        return to.upper()

    message = (
        "Async task emails.send called synchronously (probably, by mistake). Use either AsyncTask.run(...) "
        "to run the "
        "task synchronously or AsyncTask.delay(...) to add it to the queue"
    )
    with pytest.raises(RuntimeError) as raised:
        send("a")
    assert str(raised.value) == message
    with pytest.raises(RuntimeError):
        send.bake("a")()
    assert send.run("a") == "A"
    assert send.run(to="a") == "A"


def test_a_baked_task_answers_with_the_message_id(queue: Any) -> None:
    @queue.processor("send")
    def send(to: str) -> None: ...

    baked = send.bake(to="secret", _delay_seconds=3)
    message_id = baked.delay()
    (job,) = sent_jobs(queue)
    assert (message_id, job.kwargs, job.delay) == (job.message_id, {"to": "secret"}, 3)
    assert "secret" not in repr(baked)


def test_a_task_looks_like_its_function(queue: Any) -> None:
    @queue.processor("send")
    def send(to: str, subject: str = "x") -> None:
        """Send it."""

    assert send.__name__ == "send"
    assert send.__doc__ == "Send it."
    assert send.__module__ == __name__
    assert send.__qualname__.endswith("send")
    assert inspect.signature(send) == inspect.signature(send.__wrapped__)
    assert repr(send) == "<AsyncTask emails.send>"
    assert send.processor is send.__wrapped__
    assert AsyncTask[[str], None]
    assert AsyncTask[[str]]


def test_batches_of_a_task_are_those_of_its_queue(queue: Any) -> None:
    @queue.processor("send")
    def send(to: str) -> None: ...

    with send.batch():
        assert send.delay("a") is None
        assert send.bake("b").delay() is None
    assert [job.kwargs["to"] for job in sent_jobs(queue)] == ["a", "b"]


def test_a_batch_handler_gets_dictionaries_and_takes_keywords_only(make_queue: Any) -> None:
    queue = make_queue("index", batching_policy=BatchMessages(10))
    seen: list[Any] = []

    @queue.processor("index")
    def index(jobs: list[Any]) -> int:
        seen.append(jobs)
        return len(jobs)

    index.delay(a=1)
    index.delay(a=2)
    for call in (index.delay, index.run, index.bake):
        with pytest.raises(TypeError, match="keyword arguments only"):
            call([1])
    queue.process_batch()
    assert seen == [[{"a": 1}, {"a": 2}]]
    assert index.run(a=3) == 1


def test_adelay_does_not_run_in_the_thread_of_the_loop(queue: Any, env: Any) -> None:
    import threading

    threads = []

    @queue.processor("send")
    def send(to: str) -> None: ...

    original = env.transport.send

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(transport, name)

        def send(self, url: str, message: Any) -> str:
            threads.append(threading.current_thread())
            return original(url, message)

    transport, env.transport = env.transport, Watching()

    async def main() -> None:
        with env.context(user=1):
            assert await send.adelay("a")
            assert await send.options(delay=1).adelay("b")
            with send.batch():
                assert await send.adelay("c") is None

    asyncio.run(main())
    assert threading.main_thread() not in threads
    assert [(job.kwargs["to"], job.context) for job in sent_jobs(queue)] == [
        ("a", {"user": 1}),
        ("b", {"user": 1}),
        ("c", {"user": 1}),
    ]


def test_subclasses_that_override_add_job_see_every_job(env: Any, make_queue: Any) -> None:
    class Tagging(JobQueue):
        def add_job(self, job_name: str, **kwargs: Any) -> Any:
            return super().add_job(job_name, **kwargs, tag="t")

    queue = make_queue("tagged", Tagging)

    @queue.processor("send")
    def send(to: str) -> None: ...

    send.delay("a")
    assert sent_jobs(queue)[0].kwargs == {"to": "a", "tag": "t"}


def test_a_retry_may_be_given_as_seconds() -> None:
    assert RetryJob(5).backoff_policy.get_visibility_timeout(None) == 5
