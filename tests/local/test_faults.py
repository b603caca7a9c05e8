"""Each kind of fault, as boto3 meets it."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from sqs_workers.local import KINDS, FaultRule, LocalServer
from sqs_workers.transport.errors import ErrorKind, classify
from tests.local.conftest import MakeClient


def waiting(sqs: Any, url: str) -> int:
    """Messages in the queue, visible or in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(count) for count in counts.values())


@pytest.mark.parametrize(
    ("kind", "code", "status", "means"),
    [
        ("throttle", "RequestThrottled", 400, ErrorKind.THROTTLED),
        ("error500", "InternalError", 500, ErrorKind.SERVER),
        ("error503", "ServiceUnavailable", 503, ErrorKind.SERVER),
        ("denied", "AccessDenied", 403, ErrorKind.DENIED),
        ("expired", "ExpiredToken", 403, ErrorKind.CREDENTIALS),
    ],
)
def test_a_refused_call_is_not_executed_and_its_error_is_understood(
    kind: str, code: str, status: int, means: ErrorKind, server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set([f"SendMessage:{kind}:1:count=1"])
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=url, MessageBody="x")
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert classify(caught.value) is means
    assert waiting(sqs, url) == 0
    assert server.stats.errors == {code: 1}
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert waiting(sqs, url) == 1


def test_throttling_is_the_modeled_exception_and_its_code_may_be_another(
    server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set(["*:throttle"])
    with pytest.raises(sqs.exceptions.RequestThrottled):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    server.faults.set(["*:throttle:1:code=ThrottlingException"])
    with pytest.raises(ClientError, match="ThrottlingException"):
        sqs.send_message(QueueUrl=url, MessageBody="x")


def test_a_reset_call_is_not_executed(server: LocalServer, sqs: Any, url: str) -> None:
    server.faults.set(["SendMessage:reset:1:count=1"])
    with pytest.raises(ConnectionClosedError) as caught:
        sqs.send_message(QueueUrl=url, MessageBody="x")
    assert classify(caught.value) is ErrorKind.NETWORK
    assert waiting(sqs, url) == 0


def test_a_lost_answer_belongs_to_a_call_that_was_executed(server: LocalServer, sqs: Any, url: str) -> None:
    server.faults.set(["SendMessage:lost:1:count=1"])
    with pytest.raises(ConnectionClosedError):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    assert waiting(sqs, url) == 1


def test_a_lost_receive_leaves_its_messages_in_flight(server: LocalServer, sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    server.faults.set(["ReceiveMessage:lost:1:count=1"])
    with pytest.raises(ConnectionClosedError):
        sqs.receive_message(QueueUrl=url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    server.session.clock.advance(30)
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_client_that_retries_gets_over_a_fault(
    server: LocalServer, url: str, make_client: MakeClient
) -> None:
    client = make_client(server.url, retries={"total_max_attempts": 3})
    server.faults.set(["SendMessage:error503:1:count=1"])
    assert client.send_message(QueueUrl=url, MessageBody="x")["ResponseMetadata"]["RetryAttempts"] == 1
    assert server.requests["SendMessage"] == 2


def test_a_slow_answer_comes_in_the_end(server: LocalServer, sqs: Any, url: str) -> None:
    server.faults.set([FaultRule("SendMessage", "slow", seconds=0.2)])
    began = time.monotonic()
    assert sqs.send_message(QueueUrl=url, MessageBody="x")["MessageId"]
    assert time.monotonic() - began >= 0.2


def test_a_slow_answer_that_is_given_up_was_executed(
    server: LocalServer, sqs: Any, url: str, make_client: MakeClient
) -> None:
    server.faults.set([FaultRule("SendMessage", "slow", seconds=30)])
    hasty = make_client(server.url, read_timeout=0.2)
    with pytest.raises(ReadTimeoutError):
        hasty.send_message(QueueUrl=url, MessageBody="x")
    assert waiting(sqs, url) == 1


def test_a_black_hole_swallows_the_call(
    server: LocalServer, sqs: Any, url: str, make_client: MakeClient
) -> None:
    server.faults.set([FaultRule("SendMessage", "blackhole", seconds=0.1, count=1)])
    with pytest.raises(ConnectionClosedError):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    server.faults.set([FaultRule("SendMessage", "blackhole", seconds=30)])
    with pytest.raises(ReadTimeoutError):
        make_client(server.url, read_timeout=0.2).send_message(QueueUrl=url, MessageBody="x")
    assert waiting(sqs, url) == 0


def raw(server: LocalServer, operation: str, params: dict[str, Any]) -> bytes:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", "/", json.dumps(params), {"x-amz-target": f"AmazonSQS.{operation}"})
        response = connection.getresponse()
        assert response.status == 200
        return response.read()
    finally:
        connection.close()


def test_a_malformed_answer_is_no_json_and_the_call_was_executed(
    server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set(["SendMessage:malformed"])
    with pytest.raises(ValueError, match=r"Unterminated"):
        json.loads(raw(server, "SendMessage", {"QueueUrl": url, "MessageBody": "x"}))
    assert waiting(sqs, url) == 1


def test_half_an_answer_breaks_off_and_the_call_was_executed(server: LocalServer, sqs: Any, url: str) -> None:
    server.faults.set(["SendMessage:half"])
    with pytest.raises(http.client.IncompleteRead) as caught:
        raw(server, "SendMessage", {"QueueUrl": url, "MessageBody": "x"})
    assert len(caught.value.partial) > 10
    assert waiting(sqs, url) == 1


@pytest.mark.parametrize("kind", ["malformed", "half"])
def test_boto3_takes_a_broken_answer_for_an_empty_one(
    kind: str, server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set([f"SendMessageBatch:{kind}"])
    answer = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "x"}])
    assert set(answer) == {"ResponseMetadata"}


@pytest.mark.parametrize("operation", ["send_message_batch", "delete_message_batch"])
def test_entries_of_a_batch_fail_one_by_one(operation: str, server: LocalServer, sqs: Any, url: str) -> None:
    entries = [{"Id": str(i), "MessageBody": str(i)} for i in range(1, 5)]
    if operation == "delete_message_batch":
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        entries = [{"Id": m["Body"], "ReceiptHandle": m["ReceiptHandle"]} for m in messages]
    server.faults.set(["*:partial:1:entries=1+3,code=InternalError,count=1"])
    answer = getattr(sqs, operation)(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["2", "4"]
    assert [(e["Id"], e["Code"], e["SenderFault"]) for e in answer["Failed"]] == [
        ("1", "InternalError", False),
        ("3", "InternalError", False),
    ]
    assert waiting(sqs, url) == 2


def test_every_entry_of_a_batch_may_fail_and_nothing_is_executed(
    server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set(["SendMessageBatch:partial:1:entries=1+2,code=InvalidMessageContents,sender_fault=1"])
    entries = [{"Id": str(i), "MessageBody": "x"} for i in range(2)]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert answer.get("Successful", []) == []
    assert [entry["SenderFault"] for entry in answer["Failed"]] == [True, True]
    assert waiting(sqs, url) == 0


def test_a_partial_failure_does_not_touch_calls_that_are_no_batch(
    server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set(["*:partial"])
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert waiting(sqs, url) == 1


def test_a_fault_may_meet_one_queue_alone(server: LocalServer, sqs: Any, url: str) -> None:
    other = sqs.create_queue(QueueName="reports")["QueueUrl"]
    server.faults.set(["*:throttle:1:queue=mail"])
    sqs.send_message(QueueUrl=other, MessageBody="x")
    with pytest.raises(sqs.exceptions.RequestThrottled):
        sqs.send_message(QueueUrl=url, MessageBody="x")


def test_faults_given_at_the_start_are_in_force(make_client: MakeClient) -> None:
    with LocalServer(faults=["ListQueues:throttle:0.5"], seed=3) as server:
        sqs = make_client(server.url)
        outcomes = []
        for _ in range(40):
            try:
                sqs.list_queues()
                outcomes.append(True)
            except ClientError:
                outcomes.append(False)
    assert 8 < outcomes.count(False) < 32
    assert server.stats.faults == {"throttle": outcomes.count(False)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_endpoint_goes_on_after_every_kind_of_fault(
    kind: str, server: LocalServer, sqs: Any, url: str
) -> None:
    server.faults.set([FaultRule("*", kind, seconds=0.05, count=1)])
    with contextlib.suppress(ClientError, ConnectionClosedError):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "x"}])
    assert sqs.list_queues()["QueueUrls"] == [url]
    assert server.stats.faults == {kind: 1}


def test_latency_is_the_time_of_every_answer(server: LocalServer, sqs: Any, url: str) -> None:
    server.latency = 0.1
    began = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName="nowhere")
    assert 0.3 <= time.monotonic() - began < 3
    with pytest.raises(ValueError, match="not negative"):
        server.latency = -1


def test_nothing_answers_after_the_end(make_client: MakeClient) -> None:
    with LocalServer() as server:
        sqs = make_client(server.url)
        sqs.list_queues()
    with pytest.raises((EndpointConnectionError, ConnectionClosedError)):
        sqs.list_queues()
    server.stop()
