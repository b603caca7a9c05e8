"""What boto3 refuses before it asks SQS, and the exceptions that its client offers."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented

ERRORS = "https://boto3.amazonaws.com/v1/documentation/api/latest/guide/error-handling.html"
MODELED = [
    "BatchEntryIdsNotDistinct",
    "BatchRequestTooLong",
    "EmptyBatchRequest",
    "InvalidAttributeName",
    "InvalidAttributeValue",
    "InvalidBatchEntryId",
    "InvalidMessageContents",
    "MessageNotInflight",
    "OverLimit",
    "PurgeQueueInProgress",
    "QueueDeletedRecently",
    "QueueDoesNotExist",
    "QueueNameExists",
    "ReceiptHandleIsInvalid",
    "RequestThrottled",
    "ResourceNotFoundException",
    "TooManyEntriesInBatchRequest",
    "UnsupportedOperation",
]


@documented(ERRORS)
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        pytest.param("send_message", {"QueueUrl": "url"}, id="body-missing"),
        pytest.param("send_message", {"MessageBody": "body"}, id="queue-missing"),
        pytest.param("send_message", {"QueueUrl": "url", "MessageBody": 1}, id="body-no-string"),
        pytest.param("send_message", {"QueueUrl": "url", "MessageBody": b"body"}, id="body-of-bytes"),
        pytest.param(
            "send_message", {"QueueUrl": "url", "MessageBody": "b", "DelaySeconds": "1"}, id="delay-no-int"
        ),
        pytest.param(
            "send_message", {"QueueUrl": "url", "MessageBody": "b", "Colour": "red"}, id="unknown-argument"
        ),
        pytest.param(
            "send_message",
            {"QueueUrl": "url", "MessageBody": "b", "MessageAttributes": {"n": {"StringValue": "1"}}},
            id="attribute-without-type",
        ),
        pytest.param(
            "send_message",
            {
                "QueueUrl": "url",
                "MessageBody": "b",
                "MessageAttributes": {"n": {"DataType": "Number", "StringValue": 1}},
            },
            id="attribute-no-string",
        ),
        pytest.param(
            "send_message_batch", {"QueueUrl": "url", "Entries": [{"Id": "1"}]}, id="entry-without-body"
        ),
        pytest.param("send_message_batch", {"QueueUrl": "url", "Entries": {"Id": "1"}}, id="entries-no-list"),
        pytest.param("receive_message", {"QueueUrl": "url", "MaxNumberOfMessages": "1"}, id="count-no-int"),
        pytest.param("receive_message", {"QueueUrl": "url", "AttributeNames": "All"}, id="names-no-list"),
        pytest.param("delete_message", {"QueueUrl": "url"}, id="receipt-missing"),
        pytest.param(
            "change_message_visibility", {"QueueUrl": "url", "ReceiptHandle": "r"}, id="timeout-missing"
        ),
        pytest.param("create_queue", {}, id="name-missing"),
        pytest.param(
            "create_queue", {"QueueName": "q", "Attributes": {"DelaySeconds": 1}}, id="value-no-string"
        ),
        pytest.param("set_queue_attributes", {"QueueUrl": "url"}, id="attributes-missing"),
        pytest.param("tag_queue", {"QueueUrl": "url", "Tags": {"key": 1}}, id="tag-no-string"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    sqs: Sqs, operation: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ParamValidationError, match="Parameter validation failed"):
        getattr(sqs.client, operation)(**arguments)


@documented(ERRORS)
def test_operations_take_keyword_arguments_only(sqs: Sqs) -> None:
    with pytest.raises(TypeError):
        sqs.client.receive_message(sqs.queue())


@documented(ERRORS)
@pytest.mark.parametrize("name", MODELED)
def test_the_client_offers_each_modeled_exception(sqs: Sqs, name: str) -> None:
    exception = getattr(sqs.client.exceptions, name)
    assert issubclass(exception, ClientError)
    assert exception is getattr(sqs.client.exceptions, name)
    assert sqs.client.exceptions.ClientError is ClientError


@documented(ERRORS)
def test_a_refusal_is_caught_by_its_modeled_exception_and_says_what_was_called(sqs: Sqs) -> None:
    with pytest.raises(sqs.client.exceptions.QueueDoesNotExist) as caught:
        sqs.client.get_queue_url(QueueName=sqs.name())
    assert caught.value.operation_name == "GetQueueUrl"
    assert "GetQueueUrl" in str(caught.value)
    assert caught.value.response["Error"]["QueryErrorCode"] == "QueueDoesNotExist"


@documented(api("SendMessage"))
def test_every_answer_has_metadata_with_a_request_id(sqs: Sqs) -> None:
    metadata = sqs.send(sqs.queue())["ResponseMetadata"]
    assert metadata["HTTPStatusCode"] == 200
    assert metadata["RequestId"]
    assert metadata["RetryAttempts"] == 0
