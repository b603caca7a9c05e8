from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError, OperationNotPageableError, ParamValidationError

from sqs_workers.clock import ManualClock
from sqs_workers.memory_sqs import MemoryAWS, MemorySession
from tests.memory.driver import receive, refused


def test_importing_the_backend_loads_no_boto() -> None:
    code = "import sys, sqs_workers.memory_sqs; print([m for m in sys.modules if m.startswith('boto')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_client_has_every_operation_of_the_service_model(client: Any) -> None:
    import botocore.session

    operations = botocore.session.Session().get_service_model("sqs").operation_names
    assert len(operations) >= 23
    assert set(client.meta.method_to_api_mapping.values()) == set(operations)
    for name in client.meta.method_to_api_mapping:
        assert callable(getattr(client, name))
        assert name in dir(client)
    with pytest.raises(AttributeError):
        _ = client.invent_queue


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("create_queue", {}),
        ("create_queue", {"QueueName": "x", "Color": "red"}),
        ("create_queue", {"QueueName": 5}),
        ("create_queue", {"QueueName": "x", "Attributes": {"DelaySeconds": 5}}),
        ("receive_message", {"QueueUrl": "x", "MaxNumberOfMessages": "1"}),
        ("send_message", {"QueueUrl": "x", "MessageBody": b"bytes"}),
        (
            "send_message",
            {"QueueUrl": "x", "MessageBody": "x", "MessageAttributes": {"a": {"StringValue": "x"}}},
        ),
        ("delete_message_batch", {"QueueUrl": "x", "Entries": [{"Id": "1"}]}),
        ("delete_message_batch", {"QueueUrl": "x", "Entries": "one"}),
    ],
)
def test_arguments_of_wrong_name_or_type_get_botocores_own_report(
    client: Any, method: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ParamValidationError, match="Parameter validation failed"):
        getattr(client, method)(**arguments)


def test_arguments_are_keywords(client: Any) -> None:
    with pytest.raises(TypeError, match="keyword"):
        client.create_queue("jobs")


def test_validation_can_be_left_out() -> None:
    client: Any = MemorySession(validate_parameters=False).client("sqs")
    assert client.create_queue(QueueName="jobs", Color="red")["QueueUrl"]


def test_tuples_and_binary_values_as_text_are_taken_as_boto3_takes_them(client: Any, make_queue: Any) -> None:
    url = make_queue()
    attribute = {"DataType": "Binary", "BinaryValue": "text"}
    client.send_message_batch(
        QueueUrl=url, Entries=({"Id": "1", "MessageBody": "x", "MessageAttributes": {"a": attribute}},)
    )
    (message,) = receive(client, url, MessageAttributeNames=("All",))
    assert message["MessageAttributes"]["a"]["BinaryValue"] == b"text"


def test_errors_look_like_boto3s(client: Any) -> None:
    with pytest.raises(client.exceptions.QueueDoesNotExist) as caught:
        client.get_queue_url(QueueName="none")
    error: Any = caught.value
    assert isinstance(error, ClientError)
    assert error.operation_name == "GetQueueUrl"
    assert error.response["Error"] == {
        "Code": "AWS.SimpleQueueService.NonExistentQueue",
        "QueryErrorCode": "QueueDoesNotExist",
        "Message": "The specified queue does not exist.",
        "Type": "Sender",
    }
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_answers_carry_metadata_and_no_empty_lists(client: Any, make_queue: Any) -> None:
    url = make_queue()
    answer = client.receive_message(QueueUrl=url)
    assert set(answer) == {"ResponseMetadata"}
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0
    answer = client.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "x"}])
    assert set(answer) == {"Successful", "ResponseMetadata"}
    answer = client.delete_message_batch(QueueUrl=url, Entries=[{"Id": "1", "ReceiptHandle": "x"}])
    assert set(answer) == {"Failed", "ResponseMetadata"}


def test_a_queue_is_found_by_the_end_of_its_url_on_any_host(client: Any, make_queue: Any) -> None:
    make_queue("jobs")
    for url in ("http://127.0.0.1:9324/123456789012/jobs", "https://queue.amazonaws.com/123456789012/jobs/"):
        client.send_message(QueueUrl=url, MessageBody="x")
    for url in ("http://h/999999999999/jobs", "http://h/123456789012/none", "jobs", "", "http://[x/a/b"):
        with refused("AWS.SimpleQueueService.NonExistentQueue"):
            client.send_message(QueueUrl=url, MessageBody="x")


def test_region_account_and_endpoint_show_in_urls_and_arns() -> None:
    session = MemorySession(region_name="eu-west-1", account_id="000000000042")
    client: Any = session.client("sqs")
    url = client.create_queue(QueueName="jobs")["QueueUrl"]
    assert url == "https://sqs.eu-west-1.amazonaws.com/000000000042/jobs"
    local: Any = MemorySession(endpoint_url="http://127.0.0.1:9324/").client("sqs", endpoint_url="ignored")
    assert local.create_queue(QueueName="jobs")["QueueUrl"] == "http://127.0.0.1:9324/123456789012/jobs"
    assert (client.meta.region_name, local.meta.endpoint_url) == ("eu-west-1", "http://127.0.0.1:9324")


def test_clients_of_one_session_share_queues_and_sessions_do_not_unless_told_so() -> None:
    one, two = MemorySession(), MemorySession()
    url = one.client("sqs", region_name="any", config=None).create_queue(QueueName="jobs")["QueueUrl"]
    assert one.client("sqs").list_queues()["QueueUrls"] == [url]
    assert "QueueUrls" not in two.client("sqs").list_queues()
    aws = MemoryAWS(ManualClock())
    aws.client.create_queue(QueueName="shared")
    shared = MemorySession(aws)
    assert len(shared.client("sqs").list_queues()["QueueUrls"]) == 1
    assert [queue.url for queue in aws.resource.queues.all()] == shared.client("sqs").list_queues()[
        "QueueUrls"
    ]
    assert shared.clock is aws.clock


def test_other_services_are_refused_by_name() -> None:
    for factory in (MemorySession().client, MemorySession().resource):
        with pytest.raises(ValueError, match="no service 's3'"):
            factory("s3")


def test_only_lists_have_pages(client: Any) -> None:
    assert client.can_paginate("list_queues")
    assert client.can_paginate("list_dead_letter_source_queues")
    assert not client.can_paginate("send_message")
    with pytest.raises(OperationNotPageableError):
        client.get_paginator("send_message")
    client.close()


def test_an_operation_that_does_not_exist_is_refused(session: Any) -> None:
    with refused("AWS.SimpleQueueService.UnsupportedOperation"):
        session.backend.call("InventQueue", {})


def test_the_resource_is_boto3s_over_the_same_queues(session: Any, client: Any) -> None:
    sqs = session.resource("sqs", region_name="us-east-1")
    queue = sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "5"})
    assert queue.url == sqs.get_queue_by_name(QueueName="jobs").url == sqs.Queue(queue.url).url
    assert queue.attributes["VisibilityTimeout"] == "5"
    attribute = {"a": {"DataType": "String", "StringValue": "x"}}
    queue.send_message(MessageBody="one", MessageAttributes=attribute)
    queue.send_messages(Entries=[{"Id": "1", "MessageBody": "two"}])
    first, second = queue.receive_messages(
        MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    assert (first.body, first.message_attributes, second.body) == ("one", attribute, "two")
    assert first.attributes["ApproximateReceiveCount"] == "1"
    assert first.queue_url == queue.url
    assert first.Queue().url == queue.url
    assert len(first.md5_of_body) == len(first.md5_of_message_attributes) == 32
    first.change_visibility(VisibilityTimeout=0)
    assert queue.receive_messages()[0].message_id == first.message_id
    second.delete()
    again = queue.Message(second.receipt_handle)
    again.delete()
    assert [q.url for q in sqs.queues.filter(QueueNamePrefix="jo")] == [queue.url]
    queue.set_attributes(Attributes={"VisibilityTimeout": "6"})
    queue.reload()
    assert queue.attributes["VisibilityTimeout"] == "6"
    assert list(queue.dead_letter_source_queues.all()) == []
    queue.purge()
    assert queue.receive_messages() == []
    queue.delete()
    with pytest.raises(sqs.meta.client.exceptions.QueueDoesNotExist):
        sqs.get_queue_by_name(QueueName="jobs")
