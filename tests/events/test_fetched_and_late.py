"""What SNS carries may be large or not due yet: fetched, or sent on, as what was sent to the queue directly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sqs_workers import (
    BatchMessages,
    DeadLetter,
    Discard,
    MemorySession,
    SQSEnv,
    create_standard_queue,
    current_job,
)
from sqs_workers.aws import OutgoingEvent, Topic, lambda_handler
from sqs_workers.clock import ManualClock
from sqs_workers.delays import NOT_BEFORE, STABLE_ID
from sqs_workers.envelopes import IncomingEvent, SNSEnvelope
from sqs_workers.exceptions import PermanentError
from sqs_workers.hooks import JobDeadLettered, JobFailed, JobPostponed, JobStarted
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage
from sqs_workers.s3_payload import S3Payload
from tests.aws.calls import Context
from tests.aws.fakes import Sns, Store, api_error

ARN = "arn:aws:sns:eu-west-1:123456789012:orders"
HOUR = 3600


def in_envelope(body: str, attributes: Any, topic: str = ARN) -> OutgoingMessage:
    """What SNS puts on a queue without raw delivery."""
    return OutgoingMessage(
        json.dumps(
            {
                "Type": "Notification",
                "MessageId": "sns-1",
                "TopicArn": topic,
                "Message": body,
                "Timestamp": "2026-01-31T12:00:00.000Z",
                "MessageAttributes": {
                    name: {"Type": value["DataType"], "Value": value["StringValue"]}
                    for name, value in attributes.items()
                },
            }
        )
    )


class Place:
    def __init__(self, *, by_lambda: bool = False) -> None:
        self.clock = ManualClock()
        self.env = SQSEnv(MemorySession(clock=self.clock), codec="json", clock=self.clock)
        create_standard_queue(self.env, "dead")
        create_standard_queue(self.env, "jobs")
        self.store = Store()
        self.by_lambda = by_lambda
        self.got: list[Any] = []
        self.ids: list[Any] = []

    def queue(self, envelope: Any = "auto", **options: Any) -> Any:
        payload = S3Payload("ours", 1000, client=self.store, **options.pop("store", {}))
        queue = self.env.queue("jobs", envelope=envelope, payload=payload, **options)

        @queue.processor("work")
        def work(value: Any) -> None:
            job = current_job()
            assert job is not None
            self.ids.append(job.message.string_attribute(STABLE_ID))
            self.got.append(value)

        self.task = work
        return queue

    def raw(self) -> list[Any]:
        return self.env.queue("jobs").get_raw_messages()

    def work(self) -> None:
        """One batch, by a worker or as Lambda's event source mapping does it."""
        queue = self.env.queue("jobs")
        if not self.by_lambda:
            queue.process_batch()
            return
        messages = queue.get_raw_messages()
        answer = lambda_handler(queue)({"Records": [as_record(m) for m in messages]}, Context())  # type: ignore[typeddict-item]
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message.message_id not in failed:
                message.delete()


def as_record(message: Any) -> dict[str, Any]:
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": message.attributes,
        "messageAttributes": {
            name: {"dataType": value["DataType"], "stringValue": value["StringValue"]}
            for name, value in message.message_attributes.items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:jobs",
    }


@pytest.fixture(params=[False, True], ids=["worker", "lambda"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(by_lambda=request.param)


LARGE = "x" * 5000


@pytest.mark.parametrize("raw", [True, False])
def test_a_large_job_that_was_published_runs_in_the_queue_of_the_topic(place: Place, raw: bool) -> None:
    queue = place.queue()
    sns = Sns()
    Topic(ARN, client=sns).task(place.task).delay(LARGE)
    [entry] = sns.taken
    body, attributes = entry["Message"], entry["MessageAttributes"]
    queue.send_message(OutgoingMessage(body, attributes) if raw else in_envelope(body, attributes))
    place.work()
    assert place.got == [LARGE]
    # Lambda acknowledges after the function has returned: there the object is left to a lifecycle rule.
    assert len(place.store.objects) == (1 if place.by_lambda else 0)
    place.clock.advance(HOUR)
    assert place.raw() == []


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("size", [5000, 2 * MAX_MESSAGE_BYTES])
def test_a_large_event_reaches_its_processor(place: Place, raw: bool, size: int) -> None:
    queue = place.queue()
    events = queue.events(unmatched="fail")
    seen: list[IncomingEvent[Any]] = []
    events.on("order.paid", source="shop")(seen.append)
    event = OutgoingEvent("order.paid", {"text": "y" * size}, source="shop")
    body, attributes = queue.settings.payload.store(event.document(), {}, "an event")
    queue.send_message(OutgoingMessage(body, attributes) if raw else in_envelope(body, attributes))
    place.work()
    [got] = seen
    assert got.data == event.data
    assert got.event_id == event.event_id
    assert (got.sns is None) is raw


@pytest.mark.parametrize("raw", [True, False])
def test_the_policies_are_those_of_the_processor_that_the_fetched_body_names(place: Place, raw: bool) -> None:
    queue = place.queue(failure_policy=Discard())
    failed: list[tuple[str, bool]] = []
    place.env.hooks.add(JobFailed, lambda event: failed.append((event.job_name, event.permanent)))
    dead: list[str] = []
    place.env.hooks.add(JobDeadLettered, lambda event: dead.append(event.job_name))

    @queue.events().on("order.paid", max_attempts=1, failure_policy=DeadLetter("dead"))
    def paid(event: Any) -> None:
        raise ValueError("no")

    event = OutgoingEvent("order.paid", {"text": LARGE}, source="shop")
    body, attributes = queue.settings.payload.store(event.document(), {}, "an event")
    queue.send_message(OutgoingMessage(body, attributes) if raw else in_envelope(body, attributes))
    place.work()
    assert failed == [("order.paid", False)]
    assert dead == ["order.paid"]
    [letter] = place.env.queue("dead").get_raw_messages()
    # The pointer, and the envelope around it: whoever sends the letter back sends what came.
    assert letter.body == (body if raw else in_envelope(body, attributes).body)
    assert place.store.objects


@pytest.mark.parametrize("envelope", ["auto", "sns", SNSEnvelope(topics=[ARN])])
def test_a_job_that_is_not_due_waits_within_its_envelope(place: Place, envelope: Any) -> None:
    queue = place.queue(envelope)
    _, message = place.task.options(delay=2 * HOUR).prepare("late")
    postponed: list[JobPostponed] = []
    place.env.hooks.add(JobPostponed, postponed.append)
    queue.send_message(in_envelope(message.body, message.attributes))
    due = place.clock.time() + 2 * HOUR
    while place.clock.time() < due - 1:
        place.work()
        assert place.got == []
        place.clock.advance(min(901, due - place.clock.time()))
    place.clock.advance(1)
    place.work()
    place.work()
    assert place.got == ["late"]
    assert place.ids == [message.attributes[STABLE_ID]["StringValue"]]
    assert len(postponed) == 8
    assert postponed[0].until == int(message.attributes[NOT_BEFORE]["StringValue"])


def test_a_large_job_that_is_not_due_is_fetched_when_it_is(place: Place) -> None:
    queue = place.queue()
    _, message = place.task.options(delay=1000).prepare(LARGE)
    queue.send_message(in_envelope(message.body, message.attributes))
    place.work()
    assert place.store.asked == []
    place.clock.advance(1001)
    place.work()
    assert place.got == [LARGE]


def test_a_successor_that_is_not_taken_leaves_the_message(place: Place, monkeypatch: Any) -> None:
    queue = place.queue()
    _, message = place.task.options(delay=HOUR).prepare("late")
    queue.send_message(in_envelope(message.body, message.attributes))

    def refuse(*_: Any) -> Any:
        raise api_error("ServiceUnavailable", 503)

    with monkeypatch.context() as patch:
        patch.setattr(place.env.transport, "send", refuse)
        place.work()
    place.clock.advance(60)
    [still] = place.raw()
    assert still.body == in_envelope(message.body, message.attributes).body


@pytest.mark.parametrize("kind", ["job", "event"])
def test_nothing_is_fetched_for_a_pointer_to_another_bucket(place: Place, kind: str) -> None:
    queue = place.queue(failure_policy=DeadLetter("dead"))
    queue.events(unmatched=lambda event: place.got.append(event))
    forged = S3Payload("theirs", 0, client=place.store)
    attributes = place.task.prepare("x")[1].attributes if kind == "job" else {}
    queue.send_message(in_envelope(*forged.store('{"value": 1}', attributes, "a forged one")))
    place.work()
    assert place.store.asked == place.got == []
    [letter] = place.env.queue("dead").get_raw_messages()
    assert letter.string_attribute("DeadLetterErrorType") == PermanentError.__name__


@pytest.mark.parametrize("kind", ["job", "event"])
def test_nothing_is_fetched_and_nothing_sent_on_before_the_signature_is_checked(
    place: Place, kind: str
) -> None:
    queue = place.queue(SNSEnvelope(topics=[ARN], verify=True), failure_policy=DeadLetter("dead"))
    queue.events()
    late = place.task.options(delay=HOUR).prepare("x")[1].attributes if kind == "job" else {}
    queue.send_message(in_envelope(*queue.settings.payload.store('{"value": 1}', late, "unsigned")))
    place.work()
    assert place.store.asked == []
    [letter] = place.env.queue("dead").get_raw_messages()
    assert letter.string_attribute("DeadLetterErrorType") == "SignatureError"


def test_an_object_that_is_gone_is_permanent(place: Place) -> None:
    queue = place.queue(failure_policy=DeadLetter("dead"))
    _, message = place.task.prepare(LARGE)
    place.store.objects.clear()
    queue.send_message(in_envelope(message.body, message.attributes))
    place.work()
    [letter] = place.env.queue("dead").get_raw_messages()
    assert letter.string_attribute("DeadLetterErrorType") == PermanentError.__name__
    assert place.got == []


def test_a_pointer_that_is_none_is_undecodable(place: Place) -> None:
    queue = place.queue(failure_policy=DeadLetter("dead"))
    queue.events(unmatched=lambda event: place.got.append(event))
    mark = {"ExtendedPayloadSize": {"DataType": "Number", "StringValue": "12"}}
    queue.send_message(in_envelope("[" * 60 + "]" * 60, mark))
    place.work()
    [letter] = place.env.queue("dead").get_raw_messages()
    assert letter.string_attribute("DeadLetterErrorType") == "UndecodableMessageError"
    assert place.got == []


def test_without_a_store_a_pointer_of_others_is_an_event_like_any_other() -> None:
    place = Place()
    queue = place.env.queue("jobs", envelope="auto")
    queue.events(unmatched=lambda event: place.got.append(event.data))
    queue.send_message(in_envelope(*S3Payload("b", 0, client=place.store).store("{}", {}, "a pointer")))
    place.work()
    assert [type(data) for data in place.got] == [list]


def test_a_job_under_lambda_that_acknowledges_itself_takes_its_object_along() -> None:
    place = Place(by_lambda=True)
    queue = place.queue()

    @queue.processor("tidy")
    def tidy(value: str) -> None:
        job = current_job()
        assert job is not None
        job.message.delete()
        place.got.append(value)

    tidy.delay(LARGE)
    [message] = queue.get_raw_messages()
    assert lambda_handler(queue)({"Records": [as_record(message)]}, Context()) == {"batchItemFailures": []}  # type: ignore[typeddict-item]
    assert place.got == [LARGE]
    assert place.store.objects == {}


def test_a_hop_under_lambda_that_fails_is_reported_and_one_that_succeeds_is_not(monkeypatch: Any) -> None:
    place = Place(by_lambda=True)
    queue = place.queue()
    place.task.options(delay=2 * HOUR).delay("late")
    handler = lambda_handler(queue)
    place.clock.advance(901)
    [message] = queue.get_raw_messages()
    event: Any = {"Records": [as_record(message)]}

    def refuse(*_: Any) -> Any:
        raise api_error("AccessDenied", 403)

    with monkeypatch.context() as patch:
        patch.setattr(place.env.transport, "send", refuse)
        assert handler(event, Context()) == {"batchItemFailures": [{"itemIdentifier": message.message_id}]}
    assert handler(event, Context()) == {"batchItemFailures": []}
    # Lambda ended the function before the answer: the message comes again, and its job goes on twice ...
    assert handler(event, Context()) == {"batchItemFailures": []}
    message.delete()
    for _ in range(9):
        place.clock.advance(901)
        place.work()
    assert place.got == ["late", "late"]
    # ... under one id, by which an inbox knows the second.
    assert len(set(place.ids)) == 1


def test_async_jobs_and_events_are_fetched_beside_the_event_loop() -> None:
    place = Place()
    queue = place.queue()

    @queue.processor("later")
    async def later(value: str) -> None:
        await asyncio.sleep(0)
        place.got.append(value)

    @queue.events().on("order.paid")
    async def paid(event: Any) -> None:
        await asyncio.sleep(0)
        place.got.append(event.data["text"])

    _, message = later.prepare(LARGE)
    queue.send_message(in_envelope(message.body, message.attributes))
    event = OutgoingEvent("order.paid", {"text": "y" * 5000}, source="shop")
    queue.send_message(in_envelope(*queue.settings.payload.store(event.document(), {}, "an event")))
    queue.process_batch()
    assert sorted(place.got) == [LARGE, "y" * 5000]
    assert place.store.objects == {}


@pytest.mark.parametrize("raw", [True, False])
def test_a_result_does_not_keep_bodies_that_were_fetched(raw: bool) -> None:
    place = Place()
    queue = place.queue()
    _, message = place.task.prepare(LARGE)
    queue.send_message(message if raw else in_envelope(message.body, message.attributes))
    [kept] = queue.process_batch().succeeded
    assert place.got == [LARGE]
    assert kept.content is None
    assert LARGE not in kept.body


def test_a_batch_handler_gets_what_is_due_and_fetched() -> None:
    place = Place()
    payload = S3Payload("ours", 1000, client=place.store)
    queue = place.env.queue("jobs", envelope="auto", payload=payload, batching_policy=BatchMessages(5))
    lists: list[list[Any]] = []

    @queue.processor("many")
    def task(jobs: Any = None, value: str = "") -> None:
        lists.append([job["value"] for job in jobs])

    for delay in (None, HOUR, None):
        made = task.options(delay=delay).prepare(value=LARGE)
        queue.send_message(in_envelope(made[1].body, made[1].attributes))
    started: list[JobStarted] = []
    place.env.hooks.add(JobStarted, started.append)
    queue.process_batch()
    assert lists == [[LARGE, LARGE]]
    assert len(started) == 3
