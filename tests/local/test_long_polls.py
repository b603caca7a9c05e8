from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sqs_workers.clock import ManualClock
from sqs_workers.local import LocalServer
from sqs_workers.memory_sqs import MemorySession
from tests.local.conftest import MakeClient


def wait_until(predicate: Callable[[], bool], seconds: float = 10.0) -> None:
    """Look every few milliseconds, for states that have no condition to wait for."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not predicate():
        assert time.monotonic() < deadline, "it did not happen"
        pause.wait(0.005)


def polls_waiting(server: LocalServer) -> int:
    return len(server._backend._waiting)


def test_a_long_poll_returns_as_soon_as_a_message_arrives(server: LocalServer, sqs: Any, url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        began = time.monotonic()
        server.session.client("sqs").send_message(QueueUrl=url, MessageBody="x")
        assert [message["Body"] for message in poll.result(10)["Messages"]] == ["x"]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["steppable", "manual"])
def test_a_long_poll_ends_when_its_time_is_over_on_the_clock_of_the_session(
    clock: ManualClock | None, make_client: MakeClient
) -> None:
    session = MemorySession(clock=clock)
    with LocalServer(session) as server, ThreadPoolExecutor(1) as pool:
        sqs = make_client(server.url)
        url = sqs.create_queue(QueueName="mail")["QueueUrl"]
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        session.clock.advance(21)
        assert "Messages" not in poll.result(10)


def test_a_long_poll_sees_a_delayed_message_when_its_time_comes(
    server: LocalServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=10)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        server.session.clock.advance(10)
        assert poll.result(10)["Messages"]


def test_a_visibility_timeout_of_a_second_ends_a_long_poll_in_real_time(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=1)
    began = time.monotonic()
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert 0.5 < time.monotonic() - began < 10


def test_the_wait_time_of_the_queue_holds_if_the_call_names_none(server: LocalServer, sqs: Any) -> None:
    attributes = {"ReceiveMessageWaitTimeSeconds": "20"}
    url = sqs.create_queue(QueueName="patient", Attributes=attributes)["QueueUrl"]
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url)
        wait_until(lambda: polls_waiting(server) == 1)
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert poll.result(10)["Messages"]


def test_a_poll_on_a_queue_that_is_deleted_ends_with_an_error(
    server: LocalServer, sqs: Any, url: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        sqs.delete_queue(QueueUrl=url)
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            poll.result(10)


def test_two_hundred_long_polls_need_no_thread_each(server: LocalServer, sqs: Any, url: str) -> None:
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
    connections = [
        http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10) for _ in range(200)
    ]
    before = threading.active_count()
    try:
        for connection in connections:
            connection.request("POST", "/", body, {"x-amz-target": "AmazonSQS.ReceiveMessage"})
        wait_until(lambda: polls_waiting(server) == 200)
        assert threading.active_count() == before
        for _ in range(20):
            sqs.send_message_batch(
                QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "x"} for i in range(10)]
            )
        answers = [json.loads(connection.getresponse().read()) for connection in connections]
    finally:
        for connection in connections:
            connection.close()
    ids = [message["MessageId"] for answer in answers for message in answer["Messages"]]
    assert len(ids) == len(set(ids)) == 200


def test_a_message_is_not_given_to_a_client_that_went_away(server: LocalServer, sqs: Any, url: str) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
    connection.request("POST", "/", body, {"x-amz-target": "AmazonSQS.ReceiveMessage"})
    wait_until(lambda: polls_waiting(server) == 1)
    connection.close()
    wait_until(lambda: polls_waiting(server) == 0)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert sqs.receive_message(QueueUrl=url)["Messages"]
    assert not server.session.backend.queues["mail"].listeners


def test_long_polls_do_not_hold_up_the_end_of_the_server(make_client: MakeClient) -> None:
    with LocalServer() as server:
        sqs = make_client(server.url)
        url = sqs.create_queue(QueueName="mail")["QueueUrl"]
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
        connection.request("POST", "/", body, {"x-amz-target": "AmazonSQS.ReceiveMessage"})
        wait_until(lambda: polls_waiting(server) == 1)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 2
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()
        connection.close()
