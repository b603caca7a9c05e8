"""Every operation of SQS by boto3 over the wire."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sqs_workers.local import LocalServer
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.memory_sqs.contract import service_model
from tests.local.conftest import MakeClient


def received(sqs: Any, url: str, **params: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **params).get(
        "Messages", []
    )
    return messages


def test_queues_are_created_found_listed_and_deleted(sqs: Any, server: LocalServer) -> None:
    url = sqs.create_queue(QueueName="mail", Attributes={"DelaySeconds": "3"}, tags={"team": "a"})["QueueUrl"]
    assert url == f"{server.url}/123456789012/mail"
    assert sqs.get_queue_url(QueueName="mail")["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix="m")["QueueUrls"] == [url]
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues()


def test_queue_urls_name_the_host_that_the_client_asked(server: LocalServer, make_client: MakeClient) -> None:
    client = make_client(server.url.replace("127.0.0.1", "localhost"))
    url = client.create_queue(QueueName="mail")["QueueUrl"]
    assert url == f"{server.url}/123456789012/mail".replace("127.0.0.1", "localhost")
    client.send_message(QueueUrl=url, MessageBody="over the other name")
    assert received(make_client(server.url), f"{server.url}/123456789012/mail")


def test_queue_attributes_tags_and_permissions(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["111122223333"], Actions=["SendMessage"])
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "7"
    assert "111122223333" in attributes["Policy"]
    sqs.remove_permission(QueueUrl=url, Label="l")
    sqs.tag_queue(QueueUrl=url, Tags={"team": "a", "stage": "test"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"stage": "test"}


def test_a_message_is_sent_received_hidden_released_and_deleted(sqs: Any, url: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody="héllo \U0001f600")
    (message,) = received(sqs, url, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert message["Body"] == "héllo \U0001f600"
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"] == {"ApproximateReceiveCount": "1"}
    assert received(sqs, url) == []
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = received(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"])
    assert counts["Attributes"] == {"ApproximateNumberOfMessagesNotVisible": "0"}


def test_batches_report_entry_by_entry(sqs: Any, url: str) -> None:
    entries = [{"Id": "good", "MessageBody": "a"}, {"Id": "bad", "MessageBody": "b", "DelaySeconds": 901}]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["SenderFault"]) for entry in answer["Failed"]] == [("bad", True)]
    (message,) = received(sqs, url)
    handles = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}
    wrong = {"Id": "1", "ReceiptHandle": "no handle"}
    hidden = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[{**handles, "VisibilityTimeout": 60}, {**wrong, "VisibilityTimeout": 60}]
    )
    assert (len(hidden["Successful"]), len(hidden["Failed"])) == (1, 1)
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=[handles, wrong])
    assert deleted["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"
    assert deleted["Successful"] == [{"Id": "0"}]


def test_attributes_of_every_type_survive(sqs: Any, url: str) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "ü"},
        "number": {"DataType": "Number", "StringValue": "1.5"},
        "bytes": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
    }
    trace = {
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    }
    sqs.send_message(
        QueueUrl=url, MessageBody="x", MessageAttributes=attributes, MessageSystemAttributes=trace
    )
    sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "x", "MessageAttributes": attributes}]
    )
    messages = received(sqs, url, MessageAttributeNames=["All"], AttributeNames=["All"])
    assert [message["MessageAttributes"] for message in messages] == [attributes, attributes]
    assert messages[0]["Attributes"]["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]


def test_a_fifo_queue_keeps_order_and_deduplicates(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="mail.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for number in (1, 2, 2):
        sqs.send_message(
            QueueUrl=url, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
        )
    assert [message["Body"] for message in received(sqs, url)] == ["1", "2"]


def test_dead_letters_are_found_moved_and_listed(sqs: Any, server: LocalServer) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
    url = sqs.create_queue(QueueName="mail", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    received(sqs, url, VisibilityTimeout=0)
    assert received(sqs, url) == []
    handle = sqs.start_message_move_task(SourceArn=arn)["TaskHandle"]
    server.session.clock.advance(5)
    (task,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    assert [message["Body"] for message in received(sqs, url)] == ["x"]
    with pytest.raises(ClientError, match="TaskHandle"):
        sqs.cancel_message_move_task(TaskHandle=handle + "x")


def test_a_purge_empties_the_queue(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.purge_queue(QueueUrl=url)
    assert received(sqs, url) == []


def test_the_operations_above_are_all_that_there_are(server: LocalServer) -> None:
    assert len(service_model().operation_names) == 23
    assert set(service_model().operation_names) == server._backend.operations


def test_a_batch_of_one_mebibyte_with_escapes_passes(sqs: Any, url: str) -> None:
    body = "\n" * (1_048_576 // 2)
    answer = sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": body} for i in range(2)]
    )
    assert len(answer["Successful"]) == 2
    assert received(sqs, url)[0]["Body"] == body


def test_a_session_of_the_test_is_served(make_client: MakeClient) -> None:
    session = MemorySession()
    url = session.client("sqs").create_queue(QueueName="mail")["QueueUrl"]
    session.client("sqs").send_message(QueueUrl=url, MessageBody="put there directly")
    with LocalServer(session) as server:
        (message,) = received(make_client(server.url), url)
    assert message["Body"] == "put there directly"


def test_many_clients_at_once_lose_and_double_nothing(
    server: LocalServer, url: str, make_client: MakeClient
) -> None:
    seen: list[str] = []
    clients = [make_client(server.url) for _ in range(8)]

    def work(number: int) -> None:
        client = clients[number]
        for part in range(5):
            entries = [{"Id": str(i), "MessageBody": f"{number}/{part}/{i}"} for i in range(10)]
            client.send_message_batch(QueueUrl=url, Entries=entries)
        while messages := received(client, url):
            handles = [{"Id": m["MessageId"], "ReceiptHandle": m["ReceiptHandle"]} for m in messages]
            client.delete_message_batch(QueueUrl=url, Entries=handles)
            seen.extend(m["Body"] for m in messages)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) == 400
    queue = server.stats.queues["mail"]
    assert (queue.sent, queue.received, queue.deleted) == (400, 400, 400)
