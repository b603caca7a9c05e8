"""A worker that cannot reach SQS waits, spread out, and goes on by itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from sqs_workers import SQSBatchError
from sqs_workers.hooks import JobSucceeded, LeaseLost, MessageSettled, PollFailed, VisibilityExtended
from sqs_workers.local import FaultRule
from tests.field.kit import Gate, Place, Watch, running, until
from tests.servers import without_moto
from tests.worlds import counts

URL = "https://sqs.us-east-1.amazonaws.com"
RAISED: dict[str, Callable[[], Exception]] = {
    "a name that is not resolved": lambda: EndpointConnectionError(endpoint_url=URL),
    "a read timeout": lambda: ReadTimeoutError(endpoint_url=URL),
}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("throttle", "throttled"),
        ("error500", "server"),
        ("error503", "server"),
        ("reset", "network"),
        ("expired", "credentials"),
        ("throttle:1:code=KmsThrottled", "throttled"),
    ],
)
def test_f31_a_receive_that_fails_once_is_waited_out(place: Place, fault: str, kind: str) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env)
    done: list[int] = []
    task = env.queue(name).connect_processor("work", done.append)
    task.delay(1)
    rule = FaultRule.parse(f"ReceiveMessage:{fault}")
    # The lean transport repeats at once, on a new connection, what went unanswered on an idle one.
    times = 2 if (place.transport, rule.kind) == ("lean", "reset") else 1
    place.faults.set([FaultRule("ReceiveMessage", rule.kind, code=rule.code, count=times)])
    with running(env, name) as worker:
        (failed,) = watch.wait_for(PollFailed)
        assert (failed.queue_name, failed.kind) == (name, kind)
        assert 0 < failed.delay <= 1
        place.advance(failed.delay)
        watch.wait_for(JobSucceeded)
        assert worker.worker.stats().sources[name].poll_errors == 1
    assert done == [1]


@pytest.mark.wire
@pytest.mark.parametrize("kind", ["malformed", "half"])
def test_f31_an_answer_that_cannot_be_read_is_waited_out(local: Place, kind: str) -> None:
    env = local.env()
    watch = Watch(env)
    name = local.standard(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: None)
    local.faults.set([FaultRule("ReceiveMessage", kind, count=1)])
    task.delay(1)
    with running(env, name):
        # boto3 makes an empty answer of it. The receive was carried out: its message is hidden until
        # its time is over.
        until(lambda: local.requests["ReceiveMessage"] >= 2, "another receive")
        assert counts(env, name) == (0, 1)
        local.advance(31)
        (succeeded,) = watch.wait_for(JobSucceeded)
    assert succeeded.receive_count == 2


@pytest.mark.wire
def test_f31_an_answer_that_does_not_come_is_waited_out(local: Place) -> None:
    env = local.env()
    from botocore.config import Config

    env.sqs_client = local.session.client("sqs", config=Config(read_timeout=0.3, retries={"max_attempts": 0}))
    watch = Watch(env)
    name = local.standard(env)
    env.queue(name).connect_processor("work", lambda value: None).delay(1)
    local.faults.set([FaultRule("ReceiveMessage", "blackhole", seconds=2, count=1)])
    with running(env, name, wait_second=0):
        (failed,) = watch.wait_for(PollFailed)
        assert failed.kind == "network"
        local.advance(1)
        watch.wait_for(JobSucceeded)


@pytest.mark.parametrize("what", RAISED)
def test_f31_two_minutes_without_a_network_end_without_a_restart(memory: Place, what: str) -> None:
    place = memory
    env = place.env()
    watch = Watch(env)
    name = place.standard(env, visibility_timeout=300)
    done: list[int] = []
    task = env.queue(name).connect_processor("work", done.append)
    down = threading.Event()

    def receive(*args: Any) -> None:
        if down.is_set():
            raise RAISED[what]()

    with running(env, name) as worker:
        until(lambda: worker.worker.stats().last_good_poll is not None, "a good poll")
        env.transport.before["receive"] = receive
        down.set()
        place.advance(1)
        waited = 0.0
        while waited < 120:
            failures = watch.wait_for(
                PollFailed, len(watch.of(PollFailed)) + (waited > 0 or not watch.of(PollFailed))
            )
            waited += failures[-1].delay
            place.advance(failures[-1].delay)
        age = worker.worker.stats().last_good_poll
        assert age is not None
        assert age >= 120
        assert worker.worker.stats().sources[name].last_good_poll == pytest.approx(age, abs=2)
        down.clear()
        task.delay(1)
        place.advance(30)
        watch.wait_for(JobSucceeded)
        # The poll that brought the job may have been answered before the clock went on: the next is young.
        until(lambda: (worker.worker.stats().last_good_poll or 0.0) < 5, "a young good poll")
    delays = [event.delay for event in watch.of(PollFailed)]
    assert len(delays) <= 20, "two minutes of failures are a handful of requests"
    assert max(delays) <= 30
    assert delays[3] > 1
    assert len(set(delays)) == len(delays), "delays are spread"
    assert done == [1]


def test_f33_an_empty_queue_without_long_polling_is_not_asked_in_a_busy_loop(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    env.queue(name).connect_processor("work", lambda value: None)
    with running(env, name, wait_second=0):
        until(lambda: place.requests["ReceiveMessage"], "a receive")
        cpu, began, first = time.process_time(), time.monotonic(), place.requests["ReceiveMessage"]
        until(lambda: place.requests["ReceiveMessage"] >= first + 5, "five more receives")
        took = time.monotonic() - began
        used = time.process_time() - cpu
    assert took > 0.9
    assert used < 0.5 * took


def test_f33_with_all_slots_busy_nothing_is_received(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    for number in range(6):
        task.delay(number)
    with running(env, name, concurrency=2, wait_second=0):
        gate.wait_for_arrival(2)
        received = place.requests["ReceiveMessage"]
        for beat in (1, 2, 3):
            place.advance(10.5)
            watch.wait_for(VisibilityExtended, 2 * beat)
        assert place.requests["ReceiveMessage"] == received
        assert counts(env, name) == (4, 2)
        gate.open()
        watch.wait_for(JobSucceeded, 6)


def test_f34_credentials_that_expire_are_waited_out_and_work_in_hand_is_acked(place: Place) -> None:
    env = place.env()
    watch, gate = Watch(env), Gate()
    name = place.standard(env, visibility_timeout=30)
    task = env.queue(name).connect_processor("work", lambda value: gate.wait())
    task.delay(1)
    with running(env, name, concurrency=2):
        gate.wait_for_arrival()
        expired = [
            f"{operation}:expired:1:count=2"
            for operation in ("ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
        ]
        place.faults.set(expired)
        place.advance(10.5)
        until(lambda: place.requests["ChangeMessageVisibilityBatch"] >= 1, "a heartbeat that is refused")
        place.advance_until(lambda: watch.of(VisibilityExtended), 0.5, "the heartbeat tried again")
        gate.open()
        (settled,) = watch.wait_for(MessageSettled)
        assert (settled.action, settled.ok) == ("delete", True)
        assert place.requests["DeleteMessageBatch"] == 3
        task.delay(2)
        place.advance_until(lambda: len(watch.of(JobSucceeded)) == 2, 1, "the next job")
        until(lambda: counts(env, name) == (0, 0), "both deleted")
    assert {event.kind for event in watch.of(PollFailed)} == {"credentials"}
    assert watch.of(LeaseLost) == []


@pytest.mark.wire
def test_f34_fresh_credentials_are_asked_for_at_each_call(local: Place) -> None:
    import datetime

    import boto3
    from botocore.credentials import RefreshableCredentials
    from botocore.session import get_session

    refreshed: list[int] = []

    def refresh() -> dict[str, str]:
        refreshed.append(1)
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        return {"access_key": "k", "secret_key": "s", "token": "t", "expiry_time": soon.isoformat()}

    core = get_session()
    core._credentials = RefreshableCredentials.create_from_metadata(refresh(), refresh, "test")  # type: ignore[attr-defined]
    session = boto3.session.Session(botocore_session=core, region_name="us-east-1")
    without_moto(session.events)
    env = local.env()
    env.sqs_client = session.client("sqs", endpoint_url=local.endpoint)
    watch = Watch(env)
    name = local.standard(env)
    task = env.queue(name).connect_processor("work", lambda value: None)
    with running(env, name):
        before = len(refreshed)
        task.delay(1)
        watch.wait_for(MessageSettled)
    env.sqs_client.close()
    assert len(refreshed) > before, "the client kept credentials of its own"


def test_f36_a_key_that_is_denied_while_running_is_a_configuration_error_that_is_waited_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    env = place.env()
    watch = Watch(env)
    name = place.standard(env)
    done: list[int] = []
    task = env.queue(name).connect_processor("work", done.append)
    with running(env, name) as worker:
        until(lambda: worker.worker.stats().last_good_poll is not None, "a good poll")
        place.faults.set(["ReceiveMessage:denied:1:code=KMS.AccessDeniedException"])
        place.advance(1)
        for count in (1, 2, 3):
            failures = watch.wait_for(PollFailed, count)
            place.advance(failures[-1].delay)
        assert {event.kind for event in failures} == {"denied"}
        assert worker.worker.stats().state == "running"
        place.faults.clear()
        task.delay(1)
        place.advance_until(lambda: watch.of(JobSucceeded), 5, "the job")
    assert "KMS.AccessDeniedException" in caplog.text
    said = [record for record in caplog.records if "KMS.AccessDenied" in record.getMessage()]
    assert said[0].levelno >= logging.WARNING


def test_f36_sends_tell_a_throttled_key_from_a_denied_one(place: Place) -> None:
    env = place.env()
    name = place.standard(env)
    queue = env.queue(name)
    task = queue.connect_processor("work", lambda value: None)
    place.faults.set(["SendMessageBatch:throttle:1:code=KmsThrottled,count=2"])
    with queue.add_batch():
        task.delay(1)
        task.delay(2)
    assert env.transport.calls["send_batch"] == 3
    assert counts(env, name) == (2, 0)
    place.faults.set(["SendMessageBatch:denied:1:code=KMS.AccessDeniedException"])
    with pytest.raises(SQSBatchError, match=r"KMS\.AccessDeniedException") as caught, queue.add_batch():
        task.delay(3)
    assert env.transport.calls["send_batch"] == 4, "what is denied is not asked again and again"
    assert len(caught.value.unsent) == 1
