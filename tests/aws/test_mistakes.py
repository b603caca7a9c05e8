"""What is easily written wrong is refused where it is written, with a word about what is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.aws import EventBus, OutgoingEvent, Topic, lambda_handler, publish, put_events
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError
from sqs_workers.redrive import DeadLetters
from sqs_workers.s3_payload import S3Payload
from sqs_workers.schedules import Beat
from tests.aws.fakes import Bus, Sns

ARN = "arn:aws:sns:eu-west-1:123456789012:orders"


class World:
    def __init__(self) -> None:
        self.env = SQSEnv(MemorySession(), codec="json")
        create_standard_queue(self.env, "jobs")
        self.queue = self.env.queue("jobs", envelope="auto")
        self.task = self.queue.connect_processor("work", lambda value=1: None)
        self.events: Any = self.queue.events()
        self.sns, self.bus = Sns(), Bus()
        self.topic = Topic(ARN, client=self.sns)


def handler(event: Any) -> None:
    """Takes an event."""


def both(tx: Any, event: Any) -> None:
    """Takes a transaction, too."""


MISTAKES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("on without a call", lambda w: w.events.on(handler), r"@events\.on\("),
    ("a type that is no text", lambda w: w.events.on(5)(handler), "is a text, or several, not 5"),
    ("a processor without an event", lambda w: w.events.on("a")(lambda: None), "called with event"),
    ("a processor that lacks the inbox", lambda w: w.events.on("a")(both), "called with event"),
    ("an inbox that is none", lambda w: w.events.on("a", inbox="x")(both), "inbox of"),
    (
        "a payload that is no store",
        lambda w: w.env.queue("other", payload="bucket"),
        "payload of queue 'other'",
    ),
    ("a scheduler that is none", lambda w: SQSEnv(MemorySession(), scheduler="x"), "scheduler of"),  # type: ignore[arg-type]
    ("a threshold as text", lambda w: S3Payload("b", "1"), "threshold must be"),  # type: ignore[arg-type]
    ("a threshold between bytes", lambda w: S3Payload("b", 1.5), "threshold must be"),  # type: ignore[arg-type]
    ("a size as text", lambda w: S3Payload("b", max_bytes="1"), "max_bytes must be"),  # type: ignore[arg-type]
    ("a bucket that is none", lambda w: S3Payload(None), "name of a bucket"),  # type: ignore[arg-type]
    ("a lease by name", lambda w: Beat(w.env, "shop"), "lease of a beat"),  # type: ignore[arg-type]
    ("a poll as text", lambda w: Beat(w.env, poll="5"), "poll is above 0"),  # type: ignore[arg-type]
    ("arguments as a list", lambda w: w.queue.periodic(every=60, args=[1])(w.task), "by name, not"),
    (
        "a zone as an object",
        lambda w: w.queue.periodic(cron="* * * * *", timezone=timezone.utc)(w.task),
        "Europe/Berlin",
    ),
    ("a function for an environment", lambda w: lambda_handler(w.env), "takes a queue"),
    ("a function for a name", lambda w: lambda_handler("jobs"), "takes a queue"),
    ("a margin as text", lambda w: lambda_handler(w.queue, stop_before="5"), "stop_before must be"),  # type: ignore[arg-type]
    ("publishing a dict", lambda w: w.topic.publish({"a": 1}), "takes an OutgoingEvent"),
    ("publishing dicts", lambda w: w.topic.publish_all([{"a": 1}]), "takes an OutgoingEvent"),
    ("putting a dict", lambda w: EventBus("x", client=w.bus).put({"a": 1}), "takes an OutgoingEvent"),  # type: ignore[arg-type]
    ("a function through a topic", lambda w: w.topic.task(handler), "takes a job"),
    ("a subject that is no text", lambda w: OutgoingEvent("a", 1, source="s", subject=7), "subject of event"),  # type: ignore[arg-type]
    ("a time as text", lambda w: OutgoingEvent("a", 1, source="s", time="now"), "must be a datetime"),  # type: ignore[arg-type]
    ("letters of a name", lambda w: DeadLetters.of("jobs"), "takes a queue"),
    ("a condition as text", lambda w: DeadLetters.of(w.queue).redrive(where="job=x"), r"Where\(job="),
    ("a rate as text", lambda w: DeadLetters.of(w.queue).redrive(rate="10/s"), "are numbers"),
]


@pytest.mark.parametrize(("mistake", "words"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_said_where_it_is_made(mistake: Callable[[Any], Any], words: str) -> None:
    world = World()
    with pytest.raises((ConfigurationError, InvalidMessageError), match=words):
        mistake(world)
    assert world.sns.calls == world.bus.calls == []


def test_functions_of_every_kind_may_process_events() -> None:
    events = World().events

    class Callable_:
        def __call__(self, event: Any) -> None:
            """Takes an event."""

        def method(self, event: Any, more: int = 1) -> None:
            """Takes an event."""

    async def later(event: Any) -> None:
        """Takes an event."""

    functions = [handler, later, Callable_(), Callable_().method, lambda *events: None, print, dict]
    for number, function in enumerate(functions):
        events.on(f"type-{number}")(function)
    assert len(events.routes) == len(functions)


def test_one_event_may_be_given_where_several_are_taken() -> None:
    world = World()
    event = OutgoingEvent("a", 1, source="s")
    world.topic.publish_all(event)
    EventBus("x", client=world.bus).put_all(event)
    publish(ARN, event, client=world.sns)
    put_events(event, client=world.bus)
    assert (len(world.sns.taken), len(world.bus.taken)) == (2, 2)
