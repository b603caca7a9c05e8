"""Sending and receiving one message: shapes, digests, identifiers, sizes, characters."""

from __future__ import annotations

import hashlib
import time

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

ONE_MIB = 1_048_576


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


@documented(api("SendMessage"))
def test_send_returns_an_id_and_the_md5_of_the_body(sqs: Sqs) -> None:
    answer = sqs.send(sqs.queue(), "päyload")
    assert answer["MD5OfMessageBody"] == md5("päyload")
    assert 0 < len(answer["MessageId"]) <= 100
    assert "MD5OfMessageAttributes" not in answer
    assert "SequenceNumber" not in answer


@documented(api("ReceiveMessage"))
def test_receive_returns_body_digest_id_and_receipt_and_nothing_that_was_not_asked_for(sqs: Sqs) -> None:
    url = sqs.queue()
    sent = sqs.send(url, "päyload", MessageAttributes={"kind": {"DataType": "String", "StringValue": "mail"}})
    (message,) = sqs.receive(url)
    assert set(message) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    assert message["MessageId"] == sent["MessageId"]
    assert message["Body"] == "päyload"
    assert message["MD5OfBody"] == md5("päyload")


@documented(api("ReceiveMessage"))
def test_receive_from_an_empty_queue_has_no_messages(sqs: Sqs) -> None:
    answer = sqs.client.receive_message(QueueUrl=sqs.queue())
    assert not answer.get("Messages")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@documented(guide("sqs-queue-message-identifiers"))
def test_message_ids_and_receipt_handles_are_unique(sqs: Sqs) -> None:
    url = sqs.queue()
    for _ in range(3):
        sqs.send(url)
    messages = sqs.receive(url)
    assert len({message["MessageId"] for message in messages}) == 3
    assert len({message["ReceiptHandle"] for message in messages}) == 3
    assert all(len(message["ReceiptHandle"]) <= 1024 for message in messages)


@documented(api("ReceiveMessage"))
def test_receive_returns_one_message_unless_told_otherwise(sqs: Sqs) -> None:
    url = sqs.queue()
    for _ in range(3):
        sqs.send(url)
    assert len(sqs.client.receive_message(QueueUrl=url)["Messages"]) == 1


@documented(api("ReceiveMessage"))
def test_receive_never_returns_more_than_asked_for(sqs: Sqs) -> None:
    url = sqs.queue()
    for number in range(12):
        sqs.send(url, str(number))
    assert len(sqs.receive(url, MaxNumberOfMessages=4)) == 4
    assert len(sqs.receive(url, MaxNumberOfMessages=10)) == 8


@documented(api("ReceiveMessage"))
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MaxNumberOfMessages", 0),
        ("MaxNumberOfMessages", 11),
        ("WaitTimeSeconds", -1),
        ("WaitTimeSeconds", 21),
        ("VisibilityTimeout", -1),
        ("VisibilityTimeout", 43_201),
    ],
)
def test_receive_refuses_a_parameter_out_of_range(sqs: Sqs, name: str, value: int) -> None:
    url = sqs.queue()
    sqs.send(url)
    with sqs.refused("InvalidParameterValue"):
        sqs.receive(url, **{name: value})


# What a message may hold


@documented(api("SendMessage"))
def test_an_empty_body_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("MissingParameter", "InvalidParameterValue"):
        sqs.send(url, "")


@documented(api("SendMessage"))
@pytest.mark.parametrize(
    "character",
    ["\x00", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff"],
    ids=lambda character: f"U+{ord(character):04X}",
)
def test_characters_outside_of_the_allowed_set_are_refused(sqs: Sqs, character: str) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidMessageContents", modeled="InvalidMessageContents"):
        sqs.send(url, f"before{character}after")
    assert sqs.receive(url) == []


@documented(api("SendMessage"))
def test_tab_line_feed_return_and_characters_of_every_plane_come_back_unchanged(sqs: Sqs) -> None:
    url = sqs.queue()
    body = "\t\n\r \x7f\x85äß€\ud7ff\ue000\ufffd\U00010000😀\U0010ffff<&>'\""
    assert sqs.send(url, body)["MD5OfMessageBody"] == md5(body)
    assert sqs.receive_one(url)["Body"] == body


@documented(guide("quotas-messages"))
def test_a_body_of_exactly_one_mib_is_accepted(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "x" * ONE_MIB)
    assert len(sqs.receive_one(url)["Body"]) == ONE_MIB


@documented(guide("quotas-messages"))
def test_a_body_above_one_mib_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, "x" * (ONE_MIB + 1))
    assert sqs.receive(url) == []


@documented(guide("quotas-messages"))
def test_the_size_is_counted_in_bytes_of_utf_8(sqs: Sqs) -> None:
    url = sqs.queue(MaximumMessageSize="1024")
    sqs.send(url, "ä" * 512)
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, "ä" * 513)


@documented(guide("sqs-message-metadata"))
@pytest.mark.parametrize("part", ["name", "type", "value"])
def test_names_types_and_values_of_attributes_count_towards_the_size(sqs: Sqs, part: str) -> None:
    url = sqs.queue(MaximumMessageSize="1024")
    extra = {name: "." if name != part else ".xx" for name in ("name", "type", "value")}

    def attributes(name: str, data_type: str, value: str) -> dict[str, dict[str, str]]:
        return {name: {"DataType": data_type, "StringValue": value}}

    sqs.send(url, "b" * 1000, MessageAttributes=attributes("n" * 4, "String", "v" * 14))
    with sqs.refused("InvalidParameterValue"):
        sqs.send(
            url,
            "b" * 1000,
            MessageAttributes=attributes(
                "n" * (4 + len(extra["name"]) - 1),
                "String" + (extra["type"] if part == "type" else ""),
                "v" * (14 + len(extra["value"]) - 1),
            ),
        )


@documented(api("SendMessage"))
def test_message_system_attributes_do_not_count_towards_the_size(sqs: Sqs) -> None:
    url = sqs.queue(MaximumMessageSize="1024")
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    sqs.send(
        url,
        "b" * 1024,
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": trace}},
    )
    assert sqs.receive_one(url)["Attributes"]["AWSTraceHeader"] == trace


@documented(api("SetQueueAttributes"))
def test_a_queue_may_set_a_smaller_limit(sqs: Sqs) -> None:
    url = sqs.queue(MaximumMessageSize="2048")
    sqs.send(url, "x" * 2048)
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, "x" * 2049)


# System attributes


@documented(api("ReceiveMessage"))
def test_all_returns_every_system_attribute_of_a_standard_queue(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    attributes = sqs.receive_one(url)["Attributes"]
    assert set(attributes) == {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
    }


@documented(api("ReceiveMessage"))
@pytest.mark.parametrize("parameter", ["MessageSystemAttributeNames", "AttributeNames"])
def test_only_the_system_attributes_asked_for_are_returned(sqs: Sqs, parameter: str) -> None:
    url = sqs.queue()
    sqs.send(url)
    (message,) = sqs.receive(url, **{parameter: ["ApproximateReceiveCount", "SequenceNumber"]})
    assert message["Attributes"] == {"ApproximateReceiveCount": "1"}


@documented(api("Message"))
def test_timestamps_are_milliseconds_of_the_epoch(sqs: Sqs) -> None:
    url = sqs.queue()
    now = sqs.clock.time() if sqs.clock is not None else time.time()
    sqs.send(url)
    attributes = sqs.receive_one(url)["Attributes"]
    assert abs(int(attributes["SentTimestamp"]) - now * 1000) < 60_000
    assert int(attributes["SentTimestamp"]) <= int(attributes["ApproximateFirstReceiveTimestamp"])


@documented(api("ReceiveMessage"))
@memory_only("the clock is compared to the millisecond")
def test_the_first_receive_keeps_its_time_while_the_count_grows(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="10")
    sent = int(sqs.clock.time() * 1000)  # type: ignore[union-attr]
    sqs.send(url)
    sqs.elapse(5)
    seen = []
    for _ in range(3):
        seen.append(sqs.receive_one(url)["Attributes"])
        sqs.elapse(10)
    assert [attributes["ApproximateReceiveCount"] for attributes in seen] == ["1", "2", "3"]
    assert {attributes["SentTimestamp"] for attributes in seen} == {str(sent)}
    assert {attributes["ApproximateFirstReceiveTimestamp"] for attributes in seen} == {str(sent + 5000)}


@documented(api("SendMessage"))
def test_the_trace_header_is_the_only_system_attribute_that_can_be_sent(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(
            url, MessageSystemAttributes={"SenderId": {"DataType": "String", "StringValue": "somebody else"}}
        )


@documented(api("SendMessage"))
def test_the_trace_header_must_be_a_string(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageSystemAttributes={"AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}})


@documented(api("SendMessage"))
def test_send_returns_the_md5_of_system_attributes(sqs: Sqs) -> None:
    url = sqs.queue()
    trace = {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    answer = sqs.send(url, MessageSystemAttributes={"AWSTraceHeader": trace})
    assert len(answer["MD5OfMessageSystemAttributes"]) == 32
    assert "MD5OfMessageAttributes" not in answer


# Standard queues and the parameters of FIFO queues


@documented(guide("sqs-fair-queues"))
def test_a_standard_queue_takes_a_message_group_id_and_returns_it(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, MessageGroupId="tenant-1")
    attributes = sqs.receive_one(url)["Attributes"]
    assert attributes["MessageGroupId"] == "tenant-1"
    assert "SequenceNumber" not in attributes


@documented(guide("sqs-fair-queues"))
def test_messages_of_one_group_of_a_standard_queue_are_received_side_by_side(sqs: Sqs) -> None:
    url = sqs.queue()
    for body in "abc":
        sqs.send(url, body, MessageGroupId="tenant-1")
    assert sqs.receive(url, MaxNumberOfMessages=1)
    assert len(sqs.receive(url)) == 2


@documented(api("SendMessage"))
def test_a_standard_queue_refuses_a_deduplication_id(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageDeduplicationId="id")
