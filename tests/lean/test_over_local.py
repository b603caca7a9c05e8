"""Faults at random between a queue and both transports: nothing is lost, and no call hangs or crashes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers.local import KINDS, FaultRule, LocalServer
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.transport import ReceiveOptions, Transport, classify
from tests.lean.clients import client_of, lean, through_boto3

MESSAGES = 60
ATTRIBUTES = {"JobName": string_attribute("job"), "ContentType": string_attribute("json")}
PROBABILITY = 0.25
GIVE_UP_AFTER = 400


def until_it_succeeds(call: Callable[[], Any]) -> Any:
    """Repeat a call as a worker would: as long as the failure is one that passes."""
    for _ in range(GIVE_UP_AFTER):
        try:
            return call()
        except Exception as error:
            # Denied access ends a worker only when it starts.
            if not (classify(error).temporary or "AccessDenied" in str(error)):
                raise
    raise AssertionError(f"the call failed {GIVE_UP_AFTER} times")


def send_all(transport: Transport, url: str, bodies: list[str]) -> None:
    left = [OutgoingMessage(body, ATTRIBUTES) for body in bodies]
    while left:
        batch = left[:10]
        results = until_it_succeeds(lambda: transport.send_batch(url, batch))  # noqa: B023
        left = [
            message for message, result in zip(batch, results, strict=True) if result.message_id is None
        ] + left[10:]


def drain(transport: Transport, server: LocalServer, url: str, expected: set[str]) -> Counter[str]:
    """Receive and delete until every body was seen."""
    seen: Counter[str] = Counter()
    options = ReceiveOptions(visibility_timeout=30)
    for _ in range(GIVE_UP_AFTER):
        if set(seen) == expected:
            break
        messages = until_it_succeeds(lambda: transport.receive(url, options))
        if not messages:
            # What an answer that was lost had carried comes back.
            server.session.clock.advance(31)
            continue
        seen.update(message.body for message in messages)
        handles = [message.receipt_handle for message in messages]
        until_it_succeeds(
            lambda: transport.change_visibility_batch(url, [(handle, 60) for handle in handles])  # noqa: B023
        )
        while handles:
            results = until_it_succeeds(lambda: transport.delete_batch(url, handles))  # noqa: B023
            handles = [
                handle
                for handle, error in zip(handles, results, strict=True)
                if error and not error.sender_fault
            ]
    return seen


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("opened", [through_boto3, lean])
def test_f31_f34_f36_nothing_is_lost_under_a_fault(
    opened: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
    expected = {f"body {number} €" for number in range(MESSAGES)}
    with LocalServer(seed=7) as server:
        client = client_of(server.url, attempts=3, read_timeout=0.2 if kind in ("slow", "blackhole") else 5)
        url = client.create_queue(QueueName="chaos")["QueueUrl"]
        server.faults.set([FaultRule("*", kind, PROBABILITY, seconds=0.3, count=40)])
        with opened(client) as transport:
            send_all(transport, url, sorted(expected))
            seen = drain(transport, server, url, expected)
        assert server.stats.faults[kind] > 0
        assert set(seen) == expected


@pytest.mark.parametrize("kind", ["denied", "throttle"])
@pytest.mark.parametrize("opened", [through_boto3, lean])
@pytest.mark.parametrize(
    ("code", "expected"), [("KMS.AccessDeniedException", "denied"), ("KMS.ThrottlingException", "throttled")]
)
def test_f36_kms_denied_and_throttled_are_told_apart(
    opened: Any, kind: str, code: str, expected: str
) -> None:
    with LocalServer() as server:
        client = client_of(server.url)
        url = client.create_queue(QueueName="kms")["QueueUrl"]
        server.faults.set([FaultRule("ReceiveMessage", kind, code=code)])
        with opened(client) as transport, pytest.raises(Exception, match=code) as caught:
            transport.receive(url, ReceiveOptions())
        assert classify(caught.value).value == expected


def test_many_threads_share_one_transport_and_wait_for_nobody() -> None:
    threads, each = 16, 20
    sent: list[str] = []
    errors: list[BaseException] = []
    with LocalServer() as server:
        client = client_of(server.url)
        url = client.create_queue(QueueName="threads")["QueueUrl"]
        with lean(client) as transport:
            started = threading.Barrier(threads + 1)

            def send(number: int) -> None:
                try:
                    started.wait(10)
                    for index in range(each):
                        sent.append(transport.send(url, OutgoingMessage(f"{number}-{index}")))
                except BaseException as error:
                    errors.append(error)

            def poll() -> None:
                started.wait(10)
                transport.receive(empty, ReceiveOptions(wait_seconds=1))

            empty = client.create_queue(QueueName="empty")["QueueUrl"]
            workers = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
            workers.append(threading.Thread(target=poll))
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(30)
            assert not errors
            assert len(set(sent)) == threads * each
            bodies: set[str] = set()
            while messages := transport.receive(url, ReceiveOptions()):
                bodies.update(message.body for message in messages)
            assert bodies == {f"{number}-{index}" for number in range(threads) for index in range(each)}
