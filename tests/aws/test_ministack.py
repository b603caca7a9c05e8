"""Events through an SNS, an EventBridge, a Scheduler and a Lambda that others wrote."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sqs_workers import MaxTasksShutdown
from sqs_workers.aws import EventBus, OutgoingEvent, Topic
from sqs_workers.envelopes import IncomingEvent, SNSEnvelope
from sqs_workers.messages import OutgoingMessage
from tests.aws.effects import Effects, add, numbers, take_events
from tests.aws.stack import Stack, until
from tests.worlds import counts

pytestmark = pytest.mark.wire


@pytest.fixture
def stack(ministack_endpoint: str) -> Stack:
    return Stack(ministack_endpoint)


@pytest.fixture
def effects(tmp_path: Path) -> Iterator[Effects]:
    effects = Effects(str(tmp_path / "workers.db"))
    yield effects
    effects.engine.dispose()


def drawn(number: int) -> OutgoingEvent:
    return OutgoingEvent("number.drawn", {"number": number}, source="lottery")


def run_workers(stack: Stack, names: list[str], messages: int) -> None:
    with ThreadPoolExecutor(len(names)) as pool:
        for result in [
            pool.submit(
                stack.env.queue(name).process_queue, MaxTasksShutdown(messages), wait_second=1, concurrency=4
            )
            for name in names
        ]:
            assert result.result().reason


def check_fan_out(stack: Stack, effects: Effects, count: int, path: Path) -> None:
    topic_arn = stack.topic()
    for name, raw in (("raw", True), ("wrapped", False)):
        stack.subscribe(topic_arn, stack.queue_arn(name), raw=raw)
        envelope = SNSEnvelope(raw=raw, topics=None if raw else [topic_arn])
        take_events(stack.env.queue(name, envelope=envelope), effects.inbox(name))
    mapped_arn = stack.queue_arn("mapped", visibility_timeout=120)
    stack.subscribe(topic_arn, mapped_arn, raw=False)
    of_function = Effects(str(path))
    events = [drawn(number) for number in range(count)]
    with stack.function("tests.aws.effects.handler", mapped_arn, EFFECTS_DATABASE=str(path)):
        topic = Topic(topic_arn, client=stack.sns)
        topic.publish_all(events)
        topic.publish_all(events[::3])
        stack.env.queue("mapped").send_message(OutgoingMessage("invalid-json"))
        messages = count + len(events[::3])
        run_workers(stack, ["raw", "wrapped"], messages)
        until(lambda: of_function.counts("mapped") >= numbers(count), "all effects of the function")
        until(lambda: counts(stack.env, "mapped") == (0, 1), "what is invalid alone left, and hidden")
    assert effects.counts("raw") == effects.counts("wrapped") == numbers(count)
    assert of_function.counts("mapped") == numbers(count)
    assert counts(stack.env, "raw") == counts(stack.env, "wrapped") == (0, 0)
    of_function.engine.dispose()


def test_a_topic_feeds_two_workers_and_a_function_and_each_effect_happens_once(
    stack: Stack, effects: Effects, tmp_path: Path
) -> None:
    check_fan_out(stack, effects, 30, tmp_path / "function.db")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_five_hundred_events_have_their_effects_once_in_every_consumer(
    stack: Stack, effects: Effects, tmp_path: Path
) -> None:
    check_fan_out(stack, effects, 500, tmp_path / "function.db")


def test_one_delay_runs_the_job_in_every_queue_of_the_topic_once(stack: Stack, effects: Effects) -> None:
    topic_arn = stack.topic()
    tasks: list[Any] = []
    for name, raw in (("raw", True), ("wrapped", False)):
        stack.subscribe(topic_arn, stack.queue_arn(name), raw=raw)
        queue = stack.env.queue(name, envelope="auto")

        @queue.processor("draw", inbox=effects.inbox(name))
        def draw(tx: Any, number: int, consumer: str = name) -> None:
            add(tx, consumer, number)

        tasks.append(draw)
    topic = Topic(topic_arn, client=stack.sns)
    for number in range(5):
        topic.task(tasks[0]).delay(number)
    # What SNS delivers a second time has the id of the first.
    _, again = topic.task(tasks[0]).prepare(number=5)
    topic._send([again, again], [again, again])
    run_workers(stack, ["raw", "wrapped"], 7)
    assert effects.counts("raw") == effects.counts("wrapped") == numbers(6)


@pytest.mark.parametrize("through", ["queue", "topic", "topic with raw delivery"])
def test_a_rule_of_eventbridge_brings_events_to_their_processor(stack: Stack, through: str) -> None:
    queue_arn = stack.queue_arn("events")
    target = queue_arn
    if through != "queue":
        target = stack.topic()
        stack.subscribe(target, queue_arn, raw=through != "topic")
    stack.rule({"source": ["lottery"], "detail-type": ["number.drawn"]}, target)
    queue = stack.env.queue("events", envelope="auto")
    seen: list[IncomingEvent[Any]] = []
    queue.events().on("number.drawn", source="lottery")(seen.append)
    bus = EventBus(client=stack.events)
    event = drawn(7)
    ids = bus.put_all([event, OutgoingEvent("number.lost", {}, source="lottery"), event])
    assert len(set(ids)) == 3
    until(lambda: counts(stack.env, "events")[0] == 2, "both events in the queue")
    assert queue.process_batch().succeeded_count() == 2
    assert [found.event_id for found in seen] == [event.event_id] * 2
    bridges = [found.eventbridge for found in seen]
    # EventBridge's own id is another each time the event is put.
    assert {bridge.id for bridge in bridges if bridge is not None} == {ids[0], ids[2]}
    assert [found.data for found in seen] == [{"number": 7}] * 2
    assert (seen[0].sns is not None) is (through == "topic")


def test_a_schedule_brings_an_event_to_its_processor(stack: Stack) -> None:
    queue_arn = stack.queue_arn("events")
    queue = stack.env.queue("events", envelope="auto")
    seen: list[Any] = []
    called = threading.Event()

    @queue.events().on("number.due", source="lottery")
    def due(event: IncomingEvent[Any]) -> None:
        seen.append(event.data)
        called.set()

    soon = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0, tzinfo=None)
    text = OutgoingEvent("number.due", {"number": 7}, source="lottery").document()
    stack.schedule(f"at({soon.isoformat()})", queue_arn, text)
    queue.process_queue(MaxTasksShutdown(1), wait_second=20)
    assert called.is_set()
    assert seen == [{"number": 7}]


def test_a_filter_policy_of_sns_sees_what_an_event_says_of_itself(stack: Stack) -> None:
    topic_arn, queue_arn = stack.topic(), stack.queue_arn("events")
    stack.sns.subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=queue_arn,
        Attributes={"FilterPolicy": '{"eventType": ["number.drawn"], "kind": [{"prefix": "o"}]}'},
    )
    queue = stack.env.queue("events", envelope="sns")
    seen: list[Any] = []
    queue.events().on()(lambda event: seen.append((event.type, event.attributes["kind"])))
    Topic(topic_arn, client=stack.sns).publish_all(
        OutgoingEvent(type_, {}, source="lottery", attributes={"kind": kind})
        for type_, kind in (("number.drawn", "odd"), ("number.drawn", "even"), ("number.lost", "odd"))
    )
    queue.process_batch()
    assert seen == [("number.drawn", "odd")]
