"""The form-encoded protocol of older SDKs."""

from __future__ import annotations

import base64
import http.client
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from sqs_workers.local import LocalServer

Query = Callable[..., tuple[int, ET.Element]]
NS = "{http://queue.amazonaws.com/doc/2012-11-05/}"


@pytest.fixture
def query(server: LocalServer) -> Query:
    def call(action: str, **params: str) -> tuple[int, ET.Element]:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        try:
            form = urlencode({"Action": action, "Version": "2012-11-05", **params})
            connection.request(
                "POST", "/", form, {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
            )
            response = connection.getresponse()
            assert response.getheader("Content-Type") == "text/xml"
            return response.status, ET.fromstring(response.read())
        finally:
            connection.close()

    return call


def texts(element: ET.Element, name: str) -> list[str | None]:
    return [found.text for found in element.iter(NS + name)]


def test_a_queue_is_created_with_attributes_and_tags(query: Query, sqs: Any) -> None:
    status, answer = query(
        "CreateQueue",
        QueueName="mail",
        **{
            "Attribute.1.Name": "DelaySeconds",
            "Attribute.1.Value": "3",
            "Tag.1.Key": "a",
            "Tag.1.Value": "b",
        },
    )
    assert status == 200
    assert answer.tag == NS + "CreateQueueResponse"
    (url,) = texts(answer, "QueueUrl")
    assert texts(query("ListQueues")[1], "QueueUrl") == [url]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "b"}
    assert texts(query("ListQueueTags", QueueUrl=url or "")[1], "Key") == ["a"]
    _, attributes = query("GetQueueAttributes", QueueUrl=url or "", **{"AttributeName.1": "DelaySeconds"})
    assert (texts(attributes, "Name"), texts(attributes, "Value")) == (["DelaySeconds"], ["3"])


def test_messages_pass_with_attributes_and_special_characters(query: Query, url: str) -> None:
    blob = base64.b64encode(b"\x00\xff").decode()
    query(
        "SendMessage",
        QueueUrl=url,
        MessageBody="<a>&\r\n",
        **{
            "MessageAttribute.1.Name": "text",
            "MessageAttribute.1.Value.DataType": "String",
            "MessageAttribute.1.Value.StringValue": "<ü>",
            "MessageAttribute.2.Name": "bytes",
            "MessageAttribute.2.Value.DataType": "Binary",
            "MessageAttribute.2.Value.BinaryValue": blob,
        },
    )
    _, answer = query(
        "ReceiveMessage",
        QueueUrl=url,
        MaxNumberOfMessages="10",
        **{"MessageAttributeName.1": "All", "AttributeName.1": "All"},
    )
    assert texts(answer, "Body") == ["<a>&\r\n"]
    assert texts(answer, "StringValue") == ["<ü>"]
    assert texts(answer, "BinaryValue") == [blob]
    assert "ApproximateReceiveCount" in texts(answer, "Name")
    (handle,) = texts(answer, "ReceiptHandle")
    status, deleted = query("DeleteMessage", QueueUrl=url, ReceiptHandle=handle or "")
    assert (status, deleted.tag) == (200, NS + "DeleteMessageResponse")


def test_batches_report_entry_by_entry(query: Query, url: str) -> None:
    entries = {
        f"SendMessageBatchRequestEntry.{number}.{name}": value
        for number in range(1, 3)
        for name, value in {
            "Id": f"id{number}",
            "MessageBody": "x",
            "DelaySeconds": str(900 * number),
        }.items()
    }
    _, answer = query("SendMessageBatch", QueueUrl=url, **entries)
    (good,) = answer.iter(NS + "SendMessageBatchResultEntry")
    (bad,) = answer.iter(NS + "BatchResultErrorEntry")
    assert (texts(good, "Id"), texts(bad, "Id"), texts(bad, "SenderFault")) == (["id1"], ["id2"], ["true"])


def test_errors_have_the_codes_of_the_protocol(query: Query, server: LocalServer) -> None:
    status, answer = query("GetQueueUrl", QueueName="nowhere")
    assert status == 400
    assert texts(answer, "Code") == ["AWS.SimpleQueueService.NonExistentQueue"]
    assert texts(answer, "Type") == ["Sender"]
    server.faults.set(["*:error503"])
    status, answer = query("ListQueues")
    assert (status, texts(answer, "Type")) == (503, ["Receiver"])


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("Nothing", {}, "InvalidAction"),
        ("ReceiveMessage", {"QueueUrl": "u", "MaxNumberOfMessages": "many"}, "SerializationException"),
        ("ReceiveMessage", {"QueueUrl": "u", "QueueUrl.1": "v"}, "SerializationException"),
        ("SendMessage", {"QueueUrl": "u"}, "MissingParameter"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    action: str, params: dict[str, str], code: str, query: Query
) -> None:
    status, answer = query(action, **params)
    assert (status, texts(answer, "Code")) == (400, [code])
