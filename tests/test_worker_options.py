"""What a worker refuses to begin: options that cannot work, each with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sqs_workers import BatchMessages, ConfigurationError
from tests.field.kit import Place, open_place


@pytest.fixture(params=["memory", pytest.param("local", marks=pytest.mark.wire)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param, request) as opened:
        yield opened


async def async_job(value: int) -> None:
    """An ``async def`` job."""


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no concurrency": ({"concurrency": 0}, "concurrency.*1 or more, not 0"),
    "a negative concurrency": ({"concurrency": -1}, "concurrency"),
    "half a job": ({"concurrency": 1.5}, "concurrency"),
    "a heartbeat after the visibility timeout": (
        {"heartbeat": 30},
        r"heartbeat.*'jobs'.*30 s.*(third|or less)",
    ),
    "a heartbeat after a visibility timeout of the worker's own": (
        {"heartbeat": 11, "visibility_timeout": 10},
        "heartbeat.*'jobs'.*10 s",
    ),
    "a negative heartbeat": ({"heartbeat": -1}, "heartbeat.*'jobs'"),
    "a long poll too long": ({"wait_second": 21}, "wait_second.*'jobs'.*0 to 20"),
    "a visibility timeout too long": ({"visibility_timeout": 43_201}, "visibility_timeout.*'jobs'.*43200"),
    "an executor that does not exist": ({"executor": "fork"}, "executor.*'fork'"),
    "one thread for many": ({"executor": "inline", "concurrency": 2}, "inline.*'threads'"),
    "no time to stop": ({"shutdown_timeout": 0}, "shutdown_timeout"),
    "no receiver": ({"receivers": 0}, "receivers"),
    "a negative prefetch": ({"prefetch": -1}, "prefetch"),
}


@pytest.mark.parametrize("through", ["process_queue", "worker"])
@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_option_that_cannot_work_is_refused_with_what_to_do(place: Place, case: str, through: str) -> None:
    options, message = BAD_OPTIONS[case]
    env = place.env()
    place.standard(env, visibility_timeout=30)
    env.queue("jobs").connect_processor("work", lambda value: None)
    begin: Callable[..., Any] = (
        env.queue("jobs").process_queue
        if through == "process_queue"
        else lambda **given: env.worker(["jobs"], **given).run()
    )
    with pytest.raises(ConfigurationError, match=message):
        begin(**options)
    assert place.requests["ReceiveMessage"] == 0


@pytest.mark.parametrize("through", ["process_queue", "worker", "process_queues"])
def test_an_unknown_option_is_refused_by_name(place: Place, through: str) -> None:
    env = place.env()
    place.standard(env)
    env.queue("jobs").connect_processor("work", lambda value: None)
    begin: dict[str, Callable[..., Any]] = {
        "process_queue": env.queue("jobs").process_queue,
        "worker": lambda **given: env.worker(["jobs"], **given),
        "process_queues": lambda **given: env.process_queues(["jobs"], **given),
    }
    with pytest.raises(ConfigurationError, match=r"no option concurency; known are .*concurrency"):
        begin[through](concurency=4)
    assert place.requests["ReceiveMessage"] == 0


def test_an_async_job_on_the_inline_executor_is_refused(place: Place) -> None:
    env = place.env()
    place.standard(env)
    env.queue("jobs").connect_processor("work", async_job)
    with pytest.raises(ConfigurationError, match=r"'jobs'.*async.*inline.*'threads'"):
        env.queue("jobs").process_queue(executor="inline")
    with pytest.raises(ConfigurationError, match=r"'jobs'.*async.*inline.*'threads'"):
        env.worker(["jobs"], executor="inline")


def test_an_async_batch_handler_is_refused_where_it_is_declared(place: Place) -> None:
    env = place.env()
    queue = env.queue("jobs", batching_policy=BatchMessages(batch_size=2))
    with pytest.raises(ConfigurationError, match=r"jobs\.work.*async"):
        queue.connect_processor("work", async_job)


@pytest.mark.parametrize(
    ("queues", "message"),
    [([], "at least one queue"), (["jobs", "jobs"], "once"), (["jobs:x"], "weight"), (["jobs:0"], "weight")],
)
def test_queues_that_make_no_sense_are_refused(place: Place, queues: list[str], message: str) -> None:
    env = place.env()
    env.queue("jobs").connect_processor("work", lambda value: None)
    with pytest.raises(ConfigurationError, match=message):
        env.worker(queues)


def test_a_queue_without_a_processor_is_refused(place: Place) -> None:
    env = place.env()
    with pytest.raises(ConfigurationError, match="'mail' has no processor"):
        env.worker(["mail"])
