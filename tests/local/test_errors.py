"""What SQS refuses looks the same over the wire as in the process."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sqs_workers.local import LocalServer
from sqs_workers.memory_sqs import MemorySession
from tests.local.conftest import MakeClient

Call = Callable[[Any, str], Any]


def _release_twice(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = sqs.receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
    for _ in range(2):
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)


REFUSED: dict[str, Call] = {
    "a missing queue": lambda sqs, url: sqs.send_message(QueueUrl=url + "x", MessageBody="x"),
    "a missing queue by name": lambda sqs, url: sqs.get_queue_url(QueueName="nowhere"),
    "a queue name with a space": lambda sqs, url: sqs.create_queue(QueueName="a b"),
    "other attributes": lambda sqs, url: sqs.create_queue(QueueName="mail", Attributes={"DelaySeconds": "9"}),
    "an unknown attribute": lambda sqs, url: sqs.set_queue_attributes(QueueUrl=url, Attributes={"Nope": "1"}),
    "an attribute out of range": lambda sqs, url: sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"DelaySeconds": "901"}
    ),
    "an empty batch": lambda sqs, url: sqs.send_message_batch(QueueUrl=url, Entries=[]),
    "eleven entries": lambda sqs, url: sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "x"} for i in range(11)]
    ),
    "the same id twice": lambda sqs, url: sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "x"}] * 2
    ),
    "an id with a space": lambda sqs, url: sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "a b", "MessageBody": "x"}]
    ),
    "a message too long": lambda sqs, url: sqs.send_message(QueueUrl=url, MessageBody="x" * 1_048_577),
    "a batch too long": lambda sqs, url: sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "x" * 1_000_000} for i in range(2)]
    ),
    "a control character": lambda sqs, url: sqs.send_message(QueueUrl=url, MessageBody="\x01"),
    "eleven messages": lambda sqs, url: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11),
    "a receipt that is none": lambda sqs, url: sqs.delete_message(QueueUrl=url, ReceiptHandle="none"),
    "a message not in flight": _release_twice,
    "a second purge": lambda sqs, url: [sqs.purge_queue(QueueUrl=url) for _ in range(2)],
    "a queue deleted recently": lambda sqs, url: [
        sqs.delete_queue(QueueUrl=url),
        sqs.create_queue(QueueName="mail"),
    ],
    "a move from nowhere": lambda sqs, url: sqs.start_message_move_task(
        SourceArn="arn:aws:sqs:us-east-1:123456789012:nowhere"
    ),
}


def refused(sqs: Any, call: Call) -> dict[str, Any]:
    url = sqs.create_queue(QueueName="mail")["QueueUrl"]
    with pytest.raises(ClientError) as caught:
        call(sqs, url)
    error, response = caught.value, caught.value.response
    modeled = [
        name
        for name in dir(sqs.exceptions)
        if name[0].isupper() and name != "ClientError" and isinstance(error, getattr(sqs.exceptions, name))
    ]
    details = dict(response["Error"])
    if "AQEB" in str(details["Message"]):
        details.pop("Message")
    return {
        "error": details,
        "class": type(error).__name__,
        "caught as": modeled,
        "operation": error.operation_name,
        "status": response["ResponseMetadata"]["HTTPStatusCode"],
        "modeled message": response.get("message") if "Message" in details else None,
    }


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_an_error_over_the_wire_equals_the_one_in_the_process(call: Call, sqs: Any) -> None:
    assert refused(sqs, call) == refused(MemorySession().client("sqs"), call)


def post(server: LocalServer, body: bytes, **headers: str) -> tuple[int, dict[str, Any], str | None]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(
            "POST", "/", body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response.getheader("x-amzn-query-error")
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"{", {"x_amz_target": "AmazonSQS.ListQueues"}, "SerializationException"),
        (b"[]", {"x_amz_target": "AmazonSQS.ListQueues"}, "SerializationException"),
        (
            b'{"QueueUrl": 5, "MessageBody": "x"}',
            {"x_amz_target": "AmazonSQS.SendMessage"},
            "SerializationException",
        ),
        (b'{"QueueUrl": 5}', {"x_amz_target": "AmazonSQS.SendMessage"}, "MissingParameter"),
        (
            b'{"QueueUrl": "u", "MessageBody": "x", "MessageAttributes": {"a": {"BinaryValue": "*"}}}',
            {"x_amz_target": "AmazonSQS.SendMessage"},
            "SerializationException",
        ),
        (b"{}", {"x_amz_target": "AmazonSQS.Nothing"}, "InvalidAction"),
        (b"{}", {"x_amz_target": "AmazonS3.ListBuckets"}, "InvalidAction"),
        (b"{}", {}, "InvalidAction"),
    ],
)
def test_a_request_that_no_sdk_would_send_is_refused(
    server: LocalServer, body: bytes, headers: dict[str, str], code: str
) -> None:
    status, answer, query_error = post(server, body, **headers)
    assert status == 400
    assert query_error == f"{code};Sender"
    assert answer["message"]


def test_a_client_without_parameter_checks_gets_an_error_and_not_a_crash(
    server: LocalServer, make_client: MakeClient
) -> None:
    client = make_client(server.url, parameter_validation=False)
    with pytest.raises(ClientError, match=r"MissingParameter.*QueueUrl"):
        client.receive_message()
