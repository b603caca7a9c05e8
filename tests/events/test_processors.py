"""Processors of events: who gets what, as what, and what becomes of the rest."""

from __future__ import annotations

import enum
import json
import logging
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import pydantic
import pytest
from typing_extensions import NotRequired

from sqs_workers import (
    BatchMessages,
    DeadLetter,
    Discard,
    MaxTasksShutdown,
    MemorySession,
    PermanentError,
    RawQueue,
    RetryJob,
    SQSEnv,
    create_standard_queue,
    current_job,
)
from sqs_workers.envelopes import AutoEnvelope, IncomingEvent, OutgoingEvent, SNSEnvelope
from sqs_workers.exceptions import ConfigurationError, QueueConflictError
from sqs_workers.hooks import JobDiscarded, JobFailed, JobStarted, JobSucceeded
from sqs_workers.messages import OutgoingMessage, string_attribute
from tests.events.test_hostile import body_of
from tests.worlds import counts

SCHEDULED = "a schedule as the manual of CloudWatch shows it"


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(), codec="json")
    for name in ("events", "dead"):
        create_standard_queue(env, name)
    return env


def put(queue: Any, body: Any, **attributes: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    queue.send_message(
        OutgoingMessage(text, {name: string_attribute(value) for name, value in attributes.items()})
    )


def put_event(queue: Any, type_: str, data: Any = None, **options: Any) -> None:
    put(queue, OutgoingEvent(type_, data, **{"source": "shop", **options}).document())


def work(queue: Any) -> tuple[int, int]:
    result = queue.process_batch()
    return result.succeeded_count(), result.failed_count()


# Who gets it


def test_the_first_processor_whose_conditions_all_hold_gets_the_event(env: SQSEnv) -> None:
    queue = env.queue("events")
    events = queue.events()
    seen: list[tuple[str, str]] = []

    def taker(name: str) -> Any:
        return lambda event: seen.append((name, event.event_id))

    events.on("order.paid", source="shop", subject={"prefix": "order/9"})(taker("nines"))
    events.on("order.paid", source="shop")(taker("paid"))
    events.on("order.*")(taker("orders"))
    events.on(["user.made", "user.gone"], source={"anything-but": "test"})(taker("users"))
    events.on(name="rest")(taker("rest"))
    put_event(queue, "order.paid", event_id="1", subject="order/91")
    put_event(queue, "order.paid", event_id="2", subject="order/1")
    put_event(queue, "order.paid", event_id="3", source="other")
    put_event(queue, "order.sent", event_id="4")
    put_event(queue, "user.gone", event_id="5")
    put_event(queue, "user.gone", event_id="6", source="test")
    assert work(queue) == (6, 0)
    assert sorted(seen) == [
        ("nines", "1"),
        ("orders", "3"),
        ("orders", "4"),
        ("paid", "2"),
        ("rest", "6"),
        ("users", "5"),
    ]


def test_message_attributes_choose_a_processor_for_what_others_send(env: SQSEnv) -> None:
    queue = env.queue("events")
    events = queue.events(unmatched="discard")
    seen: list[str] = []
    dear = {"kind": "sale", "price": {"numeric": [">=", 10]}, "test": {"exists": False}}
    events.on(attributes=dear)(lambda event: seen.append(event.data["id"]))
    put(queue, {"id": "a"}, kind="sale", price="12.50")
    put(queue, {"id": "b"}, kind="sale", price="9.99")
    put(queue, {"id": "c"}, kind="sale", price="12.50", test="yes")
    put(queue, {"id": "d"}, kind="refund", price="12.50")
    assert work(queue) == (4, 0)
    assert seen == ["a"]


def test_the_manuals_message_of_cloudwatch_comes_by_a_raw_queue_and_by_type(env: SQSEnv) -> None:
    create_standard_queue(env, "cron")
    cron = env.queue("cron", RawQueue)
    bodies: list[str] = []

    @cron.raw_processor()
    def processor(message: Any) -> None:
        bodies.append(message.body)

    queue = env.queue("events", envelope="eventbridge")
    seen: list[IncomingEvent[Any]] = []
    queue.events().on("Scheduled Event", source="aws.events")(seen.append)
    for target in (cron, queue):
        put(target, body_of(SCHEDULED))
        assert work(target) == (1, 0)
    assert json.loads(bodies[0]) == body_of(SCHEDULED)
    (event,) = seen
    assert event.eventbridge is not None
    assert event.eventbridge.is_scheduled
    assert event.event_id == "a9a10406-9a1f-0ddc-51ae-08db551fac42"
    assert event.eventbridge.resources == ("arn:aws:events:eu-west-1:NNNNNNNNNN:rule/Playground",)
    assert event.message is not None
    assert event.message.attributes["ApproximateReceiveCount"] == "1"
    assert set(event.message.attributes) >= {
        "SenderId",
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SentTimestamp",
    }


def test_a_schedule_with_an_input_of_ones_own_is_plain_json(env: SQSEnv) -> None:
    queue = env.queue("events", envelope="auto")
    seen: list[Any] = []
    queue.events().on()(lambda event: seen.append(event.data))
    put(queue, {"message": "Hello world"})
    assert work(queue) == (1, 0)
    assert seen == [{"message": "Hello world"}]


F29: dict[str, tuple[Any, str]] = {
    "S3 to SQS": (body_of("an object with blanks and signs in its key is put"), "s3:red flower+1/2.jpg"),
    "S3 to SNS to SQS": (body_of("SNS delivers a notification of S3"), "s3:a b.txt"),
    "SNS to SQS": (body_of("SNS delivers text"), "other:This is a test message."),
    "SNS to SQS, raw": ({"orderId": 7}, "other:{'orderId': 7}"),
    "EventBridge": (body_of("an instance of EC2 changes its state"), "ec2:pending"),
    "EventBridge to SNS": (body_of("SNS delivers an event of EventBridge"), "ec2:pending"),
    "keys of others": ({"body": "x", "task": "work"}, "other:{'body': 'x', 'task': 'work'}"),
    "keys of ours": (
        {"JobName": "work", "ContentType": "json"},
        "other:{'JobName': 'work', 'ContentType': 'json'}",
    ),
}


@pytest.mark.parametrize("name", F29)
def test_f29_the_inner_payload_reaches_its_processor_and_the_envelope_is_at_hand(
    env: SQSEnv, name: str
) -> None:
    body, expected = F29[name]
    queue = env.queue("events", envelope="auto")
    events = queue.events()
    seen: list[str] = []
    envelopes: list[Any] = []

    @queue.processor("work")
    def job(**kwargs: Any) -> None:
        seen.append(f"job:{kwargs}")

    @events.on("ObjectCreated:*", source="aws:s3")
    def s3(event: IncomingEvent[Any]) -> None:
        seen.append(f"s3:{event.data.record.key}")
        envelopes.extend(event.envelopes)

    @events.on("EC2 Instance State-change Notification")
    def ec2(event: IncomingEvent[Any]) -> None:
        seen.append(f"ec2:{event.data['state']}")
        envelopes.extend(event.envelopes)

    @events.on()
    def other(event: IncomingEvent[Any]) -> None:
        seen.append(f"other:{event.data}")
        envelopes.extend(event.envelopes)

    put(queue, body)
    job.delay(body="x", task="y")
    assert work(queue) == (2, 0)
    assert sorted(seen) == sorted([expected, "job:{'body': 'x', 'task': 'y'}"])
    assert len(envelopes) == {"SNS to SQS, raw": 0, "keys of others": 0, "keys of ours": 0}.get(
        name, 2 if "to SNS" in name else 1
    )


def test_s3_trying_out_a_notification_is_acknowledged_and_nobody_is_called(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    queue = env.queue("events", envelope="s3")
    seen: list[Any] = []
    queue.events().on()(seen.append)
    put(queue, body_of("S3 tries a notification out"))
    with caplog.at_level(logging.INFO, "sqs_workers"):
        assert work(queue) == (1, 0)
    assert seen == []
    assert "tries out a notification of bucket amzn-s3-demo-bucket" in caplog.text
    assert counts(env, "events") == (0, 0)


@pytest.mark.parametrize("envelope", ["auto", "sns", SNSEnvelope(raw=False)])
def test_a_job_within_snss_envelope_runs_as_if_it_had_been_sent(env: SQSEnv, envelope: Any) -> None:
    queue = env.queue("events", envelope=envelope)
    seen: list[Any] = []

    @queue.processor("work")
    def job(value: int) -> None:
        current = current_job()
        assert current is not None
        current.change_visibility(60)
        seen.append((value, current.name, current.kwargs, current.lost))

    _, message = job.prepare(7)
    body = body_of("SNS delivers text")
    body["Message"] = message.body
    body["MessageAttributes"] = {
        name: {"Type": "String", "Value": attribute["StringValue"]}
        for name, attribute in message.attributes.items()
    }
    put(queue, body)
    assert work(queue) == (1, 0)
    assert seen == [(7, "work", {"value": 7}, False)]


def test_a_dead_letter_keeps_the_envelope_that_the_message_came_in(env: SQSEnv) -> None:
    queue = env.queue("events", envelope="auto", failure_policy=DeadLetter("dead"))
    body = body_of("SNS delivers attributes")
    body["MessageAttributes"] |= {
        "JobName": {"Type": "String", "Value": "work"},
        "ContentType": {"Type": "String", "Value": "json"},
    }

    @queue.processor("work")
    def job(orderId: int) -> None:
        raise PermanentError("no")

    put(queue, body)
    assert work(queue) == (0, 1)
    (dead,) = env.queue("dead").get_raw_messages()
    assert json.loads(dead.body) == body
    assert dead.string_attribute("JobName") is None


# As what


class Size(enum.Enum):
    SMALL = "s"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    order_id: UUID
    at: datetime
    day: date
    price: Decimal
    weight: float
    size: Size
    state: Literal["new", "paid"]
    lines: list[Line]
    note: str | None = None
    extra: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    parent: Order | None = None


ORDER: dict[str, Any] = {
    "order_id": "0e1c2ba8-5e0a-4d8c-9b0a-8b6b7f5e9a10",
    "at": "2026-01-31T12:00:00Z",
    "day": "2026-01-31",
    "price": "9.90",
    "weight": 2,
    "size": "s",
    "state": "paid",
    "lines": [{"sku": "a", "count": 2, "unknown": True}, {"sku": "b"}],
    "extra": {"x": 1},
    "pair": [1, "y"],
    "newer": "than us",
}


class Paid(TypedDict):
    order_id: str
    note: NotRequired[str]


class Model(pydantic.BaseModel):
    order_id: int


def take(env: SQSEnv, model: Any, data: Any) -> Any:
    queue = env.queue("events", failure_policy=DeadLetter("dead"))
    events = queue.events()
    seen: list[Any] = []
    if not events.routes:
        events.on(model=model)(lambda event: seen.append(event.data))
    put_event(queue, "order", data)
    queue.process_batch()
    return seen[0] if seen else None


def test_a_dataclass_gets_what_its_annotations_say(env: SQSEnv) -> None:
    order = take(env, Order, {**ORDER, "parent": ORDER})
    assert isinstance(order, Order)
    assert order.price == Decimal("9.90")
    assert order.lines == [Line("a", 2), Line("b")]
    assert (order.size, order.state, order.weight, order.pair) == (Size.SMALL, "paid", 2.0, (1, "y"))
    assert order.at.tzinfo is not None
    assert order.day == date(2026, 1, 31)
    assert order.parent is not None
    assert order.parent.extra == {"x": 1}
    assert order.parent.parent is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"order_id": "not-a-uuid"}, "data.order_id"),
        ({"at": "noon"}, "data.at"),
        ({"day": 7}, "data.day"),
        ({"price": "dear"}, "data.price"),
        ({"weight": True}, "data.weight"),
        ({"size": "xxl"}, "data.size"),
        ({"state": "lost"}, "data.state"),
        ({"lines": {}}, "data.lines"),
        ({"lines": [{"count": 1}]}, "data.lines[0].sku"),
        ({"lines": [{"sku": "a", "count": "1"}]}, "data.lines[0].count"),
        ({"pair": [1]}, "data.pair"),
        ({"extra": {"x": "secret"}}, "data.extra[...]"),
        ({"note": 7}, "data.note"),
        ({"parent": {"order_id": 7}}, "data.parent"),
    ],
)
def test_data_that_does_not_fit_is_permanent_and_named_by_its_place(
    env: SQSEnv, change: dict[str, Any], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert take(env, Order, {**ORDER, **change}) is None
    assert f"{place} of the event" in caplog.text
    assert "secret" not in caplog.text
    assert counts(env, "dead") == (1, 0)


def test_a_typed_dict_gets_the_members_that_it_knows(env: SQSEnv) -> None:
    assert take(env, Paid, {"order_id": "7", "other": 1}) == {"order_id": "7"}


def test_a_typed_dict_lacks_nothing_that_it_requires(env: SQSEnv, caplog: pytest.LogCaptureFixture) -> None:
    assert take(env, Paid, {"note": "x"}) is None
    assert "data.order_id of the event is missing" in caplog.text


def test_a_model_of_pydantic_validates_itself(env: SQSEnv) -> None:
    assert take(env, Model, {"order_id": "7"}) == Model(order_id=7)


def test_what_pydantic_refuses_is_permanent_and_not_quoted(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    assert take(env, Model, {"order_id": "secret"}) is None
    assert "the event is no Model: order_id (int_parsing)" in caplog.text
    assert "secret" not in caplog.text
    assert counts(env, "dead") == (1, 0)


@pytest.mark.parametrize("model", [int, "Order", lambda value: value])
def test_what_is_no_model_is_refused_where_it_is_declared(env: SQSEnv, model: Any) -> None:
    with pytest.raises(ConfigurationError, match="a model is a dataclass"):
        env.queue("events").events().on(model=model)


def test_a_model_with_a_member_that_json_cannot_fill_is_refused(env: SQSEnv) -> None:
    @dataclass
    class Odd:
        callback: type

    with pytest.raises(ConfigurationError, match="JSON cannot fill"):
        env.queue("events").events().on(model=Odd)


# What becomes of the rest


def test_an_event_that_nobody_takes_is_left_for_a_newer_deploy(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    queue = env.queue("events", failure_policy=Discard())
    queue.events().on("known")(lambda event: None)
    put_event(queue, "unknown")
    assert work(queue) == (0, 1)
    assert counts(env, "events") == (0, 1)
    assert "takes an event of type 'unknown' from 'shop'" in caplog.text


def test_an_event_that_nobody_takes_may_be_discarded(env: SQSEnv, caplog: pytest.LogCaptureFixture) -> None:
    queue = env.queue("events")
    queue.events("discard").on("known")(lambda event: None)
    put_event(queue, "unknown")
    with caplog.at_level(logging.INFO, "sqs_workers"):
        assert work(queue) == (1, 0)
    assert counts(env, "events") == (0, 0)
    assert "discarded" in caplog.text


def test_an_event_that_nobody_takes_may_fail_for_good(env: SQSEnv) -> None:
    queue = env.queue("events", failure_policy=DeadLetter("dead"))
    queue.events("fail").on("known")(lambda event: None)
    put_event(queue, "unknown")
    assert work(queue) == (0, 1)
    (dead,) = env.queue("dead").get_raw_messages()
    assert dead.string_attribute("DeadLetterReason") == "permanent error"


def test_an_event_that_nobody_takes_may_go_to_a_function(env: SQSEnv) -> None:
    queue = env.queue("events")
    rest: list[str] = []
    queue.events(lambda event: rest.append(event.type)).on("known")(lambda event: None)
    put_event(queue, "unknown")
    assert work(queue) == (1, 0)
    assert rest == ["unknown"]


def test_a_queue_with_an_envelope_and_no_events_says_so_of_an_event(
    env: SQSEnv, caplog: pytest.LogCaptureFixture
) -> None:
    queue = env.queue("events", envelope="auto")
    queue.connect_processor("work", lambda: None)
    put_event(queue, "order.paid")
    assert work(queue) == (0, 1)
    assert "no processor of queue 'events' takes an event" in caplog.text


# How it is run


def test_policies_hooks_and_middleware_are_those_of_jobs(env: SQSEnv) -> None:
    names: list[tuple[str, str]] = []
    wrapped: list[Any] = []
    for kind in (JobStarted, JobSucceeded, JobFailed, JobDiscarded):
        env.hooks.add(kind, lambda event: names.append((type(event).__name__, event.job_name)))

    def watch(job: Any, call_next: Any) -> Any:
        wrapped.append((job.name, type(job.kwargs["event"]).__name__))
        return call_next(job)

    queue = env.queue("events", middleware=[watch])
    events = queue.events()

    @events.on("order.bad", failure_policy=Discard(), permanent_errors=KeyError)
    def bad(event: IncomingEvent[Any]) -> None:
        raise KeyError("x")

    @events.on("order.later", max_attempts=1, failure_policy=Discard())
    def later(event: IncomingEvent[Any]) -> None:
        raise ValueError("x")

    @events.on("order.again")
    def again(event: IncomingEvent[Any]) -> None:
        raise RetryJob

    for type_ in ("order.bad", "order.later", "order.again"):
        put_event(queue, type_)
    assert work(queue) == (0, 3)
    assert sorted(names) == sorted(
        [
            ("JobStarted", "order.bad"),
            ("JobFailed", "order.bad"),
            ("JobDiscarded", "order.bad"),
            ("JobStarted", "order.later"),
            ("JobFailed", "order.later"),
            ("JobDiscarded", "order.later"),
            ("JobStarted", "order.again"),
        ]
    )
    assert counts(env, "events") == (0, 1)
    assert {kind for _, kind in wrapped} == {"IncomingEvent"}


def test_async_processors_run_beside_plain_ones(env: SQSEnv) -> None:
    queue = env.queue("events")
    events = queue.events()
    seen: list[str] = []

    @events.on("a")
    async def first(event: IncomingEvent[Any]) -> None:
        job = current_job()
        assert job is not None
        seen.append(f"async {job.name}")

    @events.on("b")
    def second(event: IncomingEvent[Any]) -> None:
        seen.append("plain")

    put_event(queue, "a")
    put_event(queue, "b")
    queue.process_queue(MaxTasksShutdown(2), wait_second=0, concurrency=2)
    assert sorted(seen) == ["async a", "plain"]


def test_a_batching_queue_gives_events_out_one_by_one_and_jobs_in_lists(env: SQSEnv) -> None:
    queue = env.queue("events", batching_policy=BatchMessages(10), envelope="auto")
    events = queue.events()
    lists: list[Any] = []
    singles: list[Any] = []

    @queue.processor("work")
    def job(messages: list[Any]) -> None:
        lists.append(messages)

    events.on("good")(lambda event: singles.append(event.data))

    @events.on("bad", failure_policy=Discard())
    def bad(event: IncomingEvent[Any]) -> None:
        raise PermanentError("no")

    queue.add_job("work", value=1)
    put_event(queue, "good", 1)
    put_event(queue, "bad", 2)
    queue.add_job("work", value=2)
    put(queue, "invalid-json")
    assert work(queue) == (3, 2)
    assert lists == [[{"value": 1}, {"value": 2}]]
    assert singles == [1]


def test_processors_of_a_queue_may_be_copied_to_its_dead_letter_queue(env: SQSEnv) -> None:
    queue, dead = env.queue("events"), env.queue("dead")
    seen: list[str] = []
    queue.events().on("order.paid")(lambda event: seen.append(event.type))
    queue.events().on(name="rest")(lambda event: seen.append("rest"))
    for _ in range(2):
        queue.copy_processors(dead)
    put_event(dead, "order.paid")
    assert work(dead) == (1, 0)
    assert seen == ["order.paid"]


# Mistakes


def test_a_processor_that_no_event_would_reach_is_refused(env: SQSEnv) -> None:
    events = env.queue("events").events()
    events.on(name="all")(lambda event: None)
    with pytest.raises(ConfigurationError, match="'all', declared before, takes all"):
        events.on("order.paid")(lambda event: None)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {"sources": "shop"}, "no option sources"),
        ((), {"max_attempts": 0}, "max_attempts"),
        ((), {"source": {"suffix": ""}}, "takes a text"),
        ((), {"source": {"around": "x"}}, "no condition"),
        ((), {"attributes": {"a": {"exists": 1}}}, "True or False"),
        ((), {"subject": []}, "empty list"),
        (("",), {}, "the type of an event"),
        (([],), {}, "the type of an event"),
    ],
)
def test_an_option_that_cannot_work_is_refused_where_it_is_declared(
    env: SQSEnv, arguments: Any, options: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        env.queue("events").events().on(*arguments, **options)(lambda event: None)


def test_envelopes_that_are_none_and_queues_that_take_none_are_refused(env: SQSEnv) -> None:
    for wrong in ("snss", AutoEnvelope, object()):
        with pytest.raises(ConfigurationError, match="envelope of queue 'events'"):
            env.queue("events", envelope=wrong)
    with pytest.raises(ConfigurationError, match="hands its messages out as they are"):
        env.queue("events", RawQueue, envelope="auto")
    env.queue("events", envelope="auto")
    assert env.queue("events", envelope=AutoEnvelope())
    with pytest.raises(QueueConflictError, match="envelope"):
        env.queue("events", envelope="sns")
    with pytest.raises(ConfigurationError, match="'leave', 'discard', 'fail' or a function"):
        env.queue("dead").events("drop")  # type: ignore[arg-type]
    env.queue("events").events("discard")
    assert env.queue("events").events() is env.queue("events").events("discard")
    with pytest.raises(QueueConflictError, match="was 'discard' before"):
        env.queue("events").events("fail")


def test_events_declared_after_the_first_message_count_too(env: SQSEnv) -> None:
    queue = env.queue("events")
    queue.connect_processor("work", lambda: None).delay()
    assert work(queue) == (1, 0)
    seen: list[Any] = []
    queue.events().on()(seen.append)
    put_event(queue, "order.paid")
    assert work(queue) == (1, 0)
    assert len(seen) == 1
