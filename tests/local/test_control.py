"""The endpoint's own requests."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sqs_workers.local import LocalServer
from tests.local.test_long_polls import polls_waiting, wait_until

Control = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def control(server: LocalServer) -> Control:
    def call(method: str, name: str, values: object = None, content_type: str = "application/json") -> Any:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        try:
            body = None if values is None else json.dumps(values)
            connection.request(method, f"/_local/{name}", body, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return call


def test_health_is_answered(control: Control) -> None:
    assert control("GET", "health") == (200, {"status": "ok"})


def test_faults_are_set_added_shown_and_cleared(control: Control, sqs: Any) -> None:
    status, answer = control("POST", "faults", {"rules": ["ListQueues:throttle"], "seed": 5})
    assert (status, len(answer["rules"])) == (200, 1)
    with pytest.raises(sqs.exceptions.RequestThrottled):
        sqs.list_queues()
    control("POST", "faults", {"rules": [{"operation": "*", "kind": "reset", "count": 0}], "add": True})
    assert control("GET", "faults")[1]["rules"] == [
        {"operation": "ListQueues", "kind": "throttle", "met": 1, "happened": 1},
        {"operation": "*", "kind": "reset", "met": 0, "happened": 0},
    ]
    control("DELETE", "faults")
    sqs.list_queues()


def test_counters_are_shown(control: Control, sqs: Any, url: str) -> None:
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "x"} for i in range(3)])
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    stats = control("GET", "stats")[1]
    assert stats["requests"] == {
        "CreateQueue": 1,
        "SendMessageBatch": 1,
        "ReceiveMessage": 1,
        "DeleteMessage": 1,
    }
    queue = stats["queues"]["mail"]
    assert (queue["sent"], queue["received"], queue["deleted"]) == (3, 1, 1)
    assert queue["first_receive"] <= queue["last_delete"]
    assert stats["cpu_seconds"] > 0
    control("DELETE", "stats")
    assert control("GET", "stats")[1]["requests"] == {}


def test_latency_is_changed(control: Control, server: LocalServer) -> None:
    assert control("POST", "latency", {"seconds": 0.001}) == (200, {"seconds": 0.001})
    assert server.latency == 0.001


def test_the_clock_is_moved_and_long_polls_see_it(
    control: Control, server: LocalServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=900)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        before = server.session.clock.time()
        status, answer = control("POST", "clock", {"advance": 900})
        assert status == 200
        assert answer["time"] >= before + 900
        assert poll.result(10).get("Messages") or sqs.receive_message(QueueUrl=url)["Messages"]


def test_a_paused_queue_holds_its_messages_until_it_is_resumed(
    control: Control, server: LocalServer, sqs: Any, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert control("POST", "pause", {"queue": "mail", "paused": True})[0] == 200
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: polls_waiting(server) == 1)
        control("POST", "pause", {"queue": "mail", "paused": False})
        assert poll.result(10)["Messages"]


def test_a_reset_leaves_nothing(control: Control, server: LocalServer, sqs: Any, url: str) -> None:
    server.latency = 0.01
    server.faults.add("SendMessage:throttle")
    assert control("POST", "reset", {}) == (200, {"status": "ok"})
    assert server.latency == 0
    assert server.requests == {}
    assert "QueueUrls" not in sqs.list_queues()
    # A name that was just reset may be used again at once.
    again = sqs.create_queue(QueueName="mail")["QueueUrl"]
    assert sqs.send_message(QueueUrl=again, MessageBody="x")["MessageId"]


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("faults", {"rules": ["*:explode"]}, "explode"),
        ("faults", {"rules": 5}, "list"),
        ("faults", {"rules": [{"operation": "*", "kind": "slow", "often": 1}]}, "often"),
        ("faults", {"seed": "x"}, "whole number"),
        ("faults", {"rule": []}, "'rule' means nothing here"),
        ("latency", {"seconds": -1}, "number of seconds"),
        ("latency", {"seconds": True}, "number of seconds"),
        ("latency", {}, "number of seconds"),
        ("clock", {"advance": "1"}, "number of seconds"),
        ("pause", {"queue": 5}, "name of a queue"),
        ("latency", [1], "not a JSON object"),
    ],
)
def test_a_control_request_that_cannot_be_understood_says_why(
    name: str, values: object, says: str, control: Control
) -> None:
    status, answer = control("POST", name, values)
    assert status == 400
    assert says in answer["error"]


def test_an_unknown_control_request_names_the_known_ones(control: Control) -> None:
    status, answer = control("GET", "nothing")
    assert status == 404
    assert "GET /_local/stats" in answer["error"]


def test_a_web_page_cannot_send_a_control_request(control: Control) -> None:
    assert control("POST", "reset", {}, content_type="text/plain")[0] == 415


def test_a_web_page_cannot_put_a_message_into_a_queue(server: LocalServer, sqs: Any, url: str) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    form = f"Action=SendMessage&QueueUrl={url}&MessageBody=x"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://elsewhere.example"}
    connection.request("POST", "/", form, headers)
    assert connection.getresponse().status == 403
    connection.close()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
