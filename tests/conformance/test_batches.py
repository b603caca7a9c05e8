"""Batch calls: what refuses the whole request, and what fails one entry alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

PREFIX = "AWS.SimpleQueueService."
OPERATIONS = ["send_message_batch", "delete_message_batch", "change_message_visibility_batch"]


def entry(operation: str, entry_id: str) -> dict[str, Any]:
    if operation == "send_message_batch":
        return {"Id": entry_id, "MessageBody": f"body of {entry_id}"}
    made: dict[str, Any] = {"Id": entry_id, "ReceiptHandle": f"receipt-{entry_id}"}
    if operation == "change_message_visibility_batch":
        made["VisibilityTimeout"] = 1
    return made


def call(sqs: Sqs, operation: str, *ids: str) -> dict[str, Any]:
    entries = [entry(operation, entry_id) for entry_id in ids]
    return getattr(sqs.client, operation)(QueueUrl=sqs.queue(), Entries=entries)  # type: ignore[no-any-return]


def send(sqs: Sqs, url: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return sqs.client.send_message_batch(QueueUrl=url, Entries=list(entries))  # type: ignore[no-any-return]


def ids(answer: dict[str, Any], which: str) -> list[str]:
    return [found["Id"] for found in answer.get(which, [])]


@documented(guide("sqs-batch-api-actions"))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_empty_batch_is_refused(sqs: Sqs, operation: str) -> None:
    with sqs.refused(PREFIX + "EmptyBatchRequest", modeled="EmptyBatchRequest"):
        call(sqs, operation)


@documented(guide("sqs-batch-api-actions"))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_eleventh_entry_is_refused(sqs: Sqs, operation: str) -> None:
    with sqs.refused(PREFIX + "TooManyEntriesInBatchRequest", modeled="TooManyEntriesInBatchRequest"):
        call(sqs, operation, *(str(number) for number in range(11)))


@documented(guide("sqs-batch-api-actions"))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_id_used_twice_is_refused(sqs: Sqs, operation: str) -> None:
    with sqs.refused(PREFIX + "BatchEntryIdsNotDistinct", modeled="BatchEntryIdsNotDistinct"):
        call(sqs, operation, "same", "other", "same")


@documented(api("SendMessageBatchRequestEntry"))
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "wrong", ["with space", "dot.ted", "i" * 81, ""], ids=["space", "dot", "81-characters", "empty"]
)
def test_an_id_outside_of_the_rules_is_refused(sqs: Sqs, operation: str, wrong: str) -> None:
    with sqs.refused(PREFIX + "InvalidBatchEntryId", modeled="InvalidBatchEntryId"):
        call(sqs, operation, "fine", wrong)


@documented(api("SendMessageBatch"))
def test_a_batch_of_ten_answers_for_each_entry(sqs: Sqs) -> None:
    url = sqs.queue()
    names = [f"{'i' * 78}-{number}" for number in range(10)]
    answer = send(sqs, url, *({"Id": name, "MessageBody": name} for name in names))
    assert ids(answer, "Successful") == names
    assert not answer.get("Failed")
    assert len({found["MessageId"] for found in answer["Successful"]}) == 10
    assert sorted(sqs.bodies(url)) == sorted(names)


@documented(api("SendMessageBatchResultEntry"))
def test_a_batch_returns_the_digests_of_each_entry(sqs: Sqs) -> None:
    url = sqs.queue()
    attributes = {"kind": {"DataType": "String", "StringValue": "mail"}}
    single = sqs.send(url, "same body", MessageAttributes=attributes)
    (found,) = send(sqs, url, {"Id": "1", "MessageBody": "same body", "MessageAttributes": attributes})[
        "Successful"
    ]
    assert found["MD5OfMessageBody"] == single["MD5OfMessageBody"]
    assert found["MD5OfMessageAttributes"] == single["MD5OfMessageAttributes"]


@documented(api("SendMessageBatch"))
def test_a_control_character_fails_its_entry_alone(sqs: Sqs) -> None:
    url = sqs.queue()
    answer = send(sqs, url, {"Id": "bad", "MessageBody": "a\x00b"}, {"Id": "good", "MessageBody": "fine"})
    assert ids(answer, "Successful") == ["good"]
    (failed,) = answer["Failed"]
    assert failed["Id"] == "bad"
    assert failed["SenderFault"] is True
    assert failed["Code"] == "InvalidMessageContents"
    assert sqs.bodies(url) == ["fine"]


@documented(api("SendMessageBatch"))
@pytest.mark.parametrize(
    "wrong",
    [
        {"DelaySeconds": 901},
        {"MessageAttributes": {"n": {"DataType": "Number", "StringValue": "none"}}},
        {"MessageAttributes": {f"n{i}": {"DataType": "String", "StringValue": "1"} for i in range(11)}},
    ],
    ids=["delay", "attribute", "eleven-attributes"],
)
def test_a_wrong_parameter_fails_its_entry_alone(sqs: Sqs, wrong: dict[str, Any]) -> None:
    url = sqs.queue()
    answer = send(
        sqs, url, {"Id": "bad", "MessageBody": "bad", **wrong}, {"Id": "good", "MessageBody": "fine"}
    )
    assert ids(answer, "Successful") == ["good"]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"], failed["Code"]) == ("bad", True, "InvalidParameterValue")
    assert sqs.bodies(url) == ["fine"]


@documented(api("SendMessageBatch"))
def test_a_body_above_the_limit_of_the_queue_fails_its_entry_alone(sqs: Sqs) -> None:
    url = sqs.queue(MaximumMessageSize="1024")
    answer = send(sqs, url, {"Id": "big", "MessageBody": "x" * 1025}, {"Id": "good", "MessageBody": "fine"})
    assert ids(answer, "Successful") == ["good"]
    assert ids(answer, "Failed") == ["big"]


@documented(api("SendMessageBatch"))
def test_a_batch_above_one_mib_in_all_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    half = 524_288
    with sqs.refused(PREFIX + "BatchRequestTooLong", modeled="BatchRequestTooLong"):
        send(sqs, url, {"Id": "1", "MessageBody": "x" * half}, {"Id": "2", "MessageBody": "x" * (half + 1)})
    assert sqs.receive(url) == []


@documented(api("SendMessageBatch"))
def test_a_batch_of_exactly_one_mib_in_all_is_accepted(sqs: Sqs) -> None:
    url = sqs.queue()
    half = 524_288
    answer = send(sqs, url, {"Id": "1", "MessageBody": "x" * half}, {"Id": "2", "MessageBody": "x" * half})
    assert ids(answer, "Successful") == ["1", "2"]


@documented(guide("sqs-message-metadata"))
def test_attributes_count_towards_the_size_of_a_batch(sqs: Sqs) -> None:
    url = sqs.queue()
    attributes = {"name": {"DataType": "String", "StringValue": "v"}}
    with sqs.refused(PREFIX + "BatchRequestTooLong", modeled="BatchRequestTooLong"):
        send(
            sqs,
            url,
            {"Id": "1", "MessageBody": "x" * 524_288},
            {"Id": "2", "MessageBody": "x" * 524_280, "MessageAttributes": attributes},
        )


@documented(api("SendMessageBatch"))
def test_each_entry_has_its_own_delay(sqs: Sqs) -> None:
    url = sqs.queue()
    send(
        sqs, url, {"Id": "1", "MessageBody": "now"}, {"Id": "2", "MessageBody": "later", "DelaySeconds": 900}
    )
    assert sqs.bodies(url) == ["now"]
    assert sqs.counts(url) == (0, 1, 1)


@documented(api("SendMessageBatch"))
def test_a_fifo_batch_keeps_the_order_of_its_entries(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    bodies = [str(number) for number in range(10)]
    answer = send(sqs, url, *({"Id": body, "MessageBody": body, "MessageGroupId": "g"} for body in bodies))
    numbers = [int(found["SequenceNumber"]) for found in answer["Successful"]]
    assert numbers == sorted(numbers)
    assert sqs.bodies(url) == bodies


@documented(api("DeleteMessageBatch"))
def test_delete_batch_deletes_good_entries_and_reports_bad_receipts(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url)
    answer = sqs.client.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]},
            {"Id": "bad", "ReceiptHandle": "no receipt"},
        ],
    )
    assert ids(answer, "Successful") == ["good"]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"], failed["Code"]) == ("bad", True, "ReceiptHandleIsInvalid")
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("ChangeMessageVisibilityBatch"))
def test_visibility_batch_changes_good_entries_and_reports_bad_ones(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "one")
    sqs.send(url, "two")
    first, second = sqs.receive(url)
    answer = sqs.client.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "range", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 43_201},
            {"Id": "receipt", "ReceiptHandle": "no receipt", "VisibilityTimeout": 0},
        ],
    )
    assert ids(answer, "Successful") == ["good"]
    codes = {failed["Id"]: failed["Code"] for failed in answer["Failed"]}
    assert codes == {"range": "InvalidParameterValue", "receipt": "ReceiptHandleIsInvalid"}
    assert sqs.bodies(url) == [first["Body"]]


@documented(api("ChangeMessageVisibilityBatch"))
@memory_only("30 seconds pass")
def test_visibility_batch_extends_each_message_by_its_own_time(sqs: Sqs) -> None:
    url = sqs.queue()
    for body in ("short", "long"):
        sqs.send(url, body)
    messages = {message["Body"]: message for message in sqs.receive(url)}
    entries = [
        {"Id": body, "ReceiptHandle": messages[body]["ReceiptHandle"], "VisibilityTimeout": seconds}
        for body, seconds in (("short", 20), ("long", 60))
    ]
    sqs.client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
    sqs.elapse(21)
    assert sqs.bodies(url, VisibilityTimeout=600) == ["short"]
    sqs.elapse(38)
    assert sqs.bodies(url) == []
    sqs.elapse(1)
    assert sqs.bodies(url) == ["long"]
