"""User code that type checkers accept. Checked, never run."""

# pyright: strict

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack, assert_type

from sqs_workers import Job, JobQueue, MemorySession, Processor, SQSEnv
from sqs_workers.async_task import AsyncTaskDelayArgs, BakedAsyncTask
from sqs_workers.aws import OutgoingEvent, Topic, lambda_handler
from sqs_workers.aws.lambda_event import BatchResponse, SQSEvent
from sqs_workers.batching import BatchMessages
from sqs_workers.clock import ManualClock
from sqs_workers.envelopes import IncomingEvent, SNSEnvelope
from sqs_workers.middleware import Both
from sqs_workers.transport import Boto3Transport, Transport

env = SQSEnv(codec="json")
queue = env.queue("emails")
events = env.queue("orders", envelope=SNSEnvelope(raw=False)).events(unmatched="discard")


@dataclass
class OrderPaid:
    order_id: int


@events.on("order.paid", source="shop", attributes={"kind": ["a", {"prefix": "b"}]}, model=OrderPaid)
def paid(event: IncomingEvent[OrderPaid]) -> int:
    return event.data.order_id


class OwnInbox:
    def run(self, event_id: str, payload: object, handler: Callable[[Any], Any]) -> Any: ...
    def arun(self, event_id: str, payload: object, handler: Callable[[Any], Any]) -> Any: ...


@events.on("order.sent", model=OrderPaid, inbox=OwnInbox(), event_id="order_id", timeout=5)
def sent(tx: Any, event: IncomingEvent[OrderPaid]) -> None:
    tx.execute(event.data.order_id)


@events.on(max_attempts=3)
async def rest(event: IncomingEvent[Any]) -> None:
    print(event.type, event.eventbridge)


def publishes() -> None:
    topic = Topic("arn:aws:sns:eu-west-1:123456789012:orders")
    assert_type(topic.publish(OutgoingEvent("order.paid", {"order_id": 7}, source="shop")), "str | None")
    topic.task(send_email).delay(to="x", subject="y")


def answers(event: SQSEvent) -> BatchResponse:
    handler = lambda_handler(queue)
    return handler(event)


@queue.processor("send_email")
def send_email(to: str, subject: str, body: str = "") -> int:
    return len(to) + len(subject) + len(body)


@queue.processor("with_options")
def with_options(to: str, **_options: Unpack[AsyncTaskDelayArgs]) -> None:
    """A function that declares the underscore options, so that ``delay`` takes them."""


@env.processor("emails", "fetch")
async def fetch(url: str) -> bytes:
    return url.encode()


bulk = env.queue("bulk", batching_policy=BatchMessages(50, wait_seconds=2))


@bulk.processor("store")
def store(messages: list[dict[str, Any]]) -> int:
    return len(messages)


class OwnQueue(JobQueue):
    pass


class OwnProcessor(Processor):
    def process(self, job_kwargs: dict[str, Any], job_context: Any) -> Any:
        return super().process(job_kwargs, job_context)


def timed(job: Job, call_next: Callable[[Job], Any]) -> Any:
    return call_next(job)


async def atimed(job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
    return await call_next(job)


def an_environment() -> SQSEnv:
    made = SQSEnv(
        MemorySession(),
        codec="json",
        processor_maker=OwnProcessor,
        accept=["json"],
        transport="auto",
        clock=ManualClock(),
        middleware=[timed, Both(timed, atimed)],
    )
    assert_type(made.accept, frozenset[str])
    assert_type(made.transport, Transport)
    assert_type(made.queue("own", OwnQueue), OwnQueue)
    return made


def sends_to_a_handler_of_lists() -> None:
    store.delay(page=1)


async def sends_a_batch_from_asyncio() -> None:
    async with send_email.batch():
        await send_email.adelay("x", "y")
    async with queue.add_batch():
        await send_email.adelay("x", "y")


def sends() -> None:
    assert_type(send_email.delay(to="x", subject="y"), "str | None")
    send_email.delay("x", "y", "z")
    send_email.delay("x", subject="y", body="z")
    with_options.delay("x", _delay_seconds=5)
    with_options.delay(to="x", _deduplication_id="d", _group_id="g", _content_type="json")
    fetch.delay(url="https://example.com")


def sends_with_options() -> None:
    send_email.options(delay=5).delay(to="x", subject="y")
    send_email.options(delay=5, group_id="g", deduplication_id="d", codec="json").delay("x", "y")


def bakes() -> None:
    baked = send_email.bake("x", subject="y")
    assert_type(baked, BakedAsyncTask)
    assert_type(baked.delay(), "str | None")


def sends_in_a_batch() -> None:
    with send_email.batch():
        send_email.delay(to="x", subject="y")
    with queue.add_batch():
        queue.add_job("send_email", to="x", subject="y")


def runs_here() -> int:
    return send_email.run(to="x", subject="y")


async def runs_here_async() -> bytes:
    return await fetch.run(url="https://example.com")


async def sends_from_asyncio() -> None:
    assert_type(await send_email.adelay(to="x", subject="y"), "str | None")


def calling_a_task_never_returns() -> int:
    # No return statement is missing here only because the call is NoReturn.
    send_email(to="x", subject="y")


def chooses_a_transport() -> list[SQSEnv]:
    own = Boto3Transport(lambda: None)
    return [
        SQSEnv(transport="lean"),
        SQSEnv(transport="auto"),
        SQSEnv(transport="boto3"),
        SQSEnv(transport=own),
    ]
