from __future__ import annotations

from typing import Any

import pytest

from tests.memory.driver import counts, receive, refused

TEXT = {"DataType": "String", "StringValue": "x"}


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        ({"Foo": {"DataType": "String", "StringValue": "Bar"}}, "ae7155c6026991b6d54b11589678bf9c"),
        (
            {
                "attr1": {
                    "DataType": "Binary",
                    "BinaryValue": b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01",
                }
            },
            "8cbe4db156db8a94db8b801b7addb984",
        ),
    ],
)
def test_digests_of_attributes_are_those_that_sqs_gives(
    client: Any, make_queue: Any, attributes: dict[str, Any], digest: str
) -> None:
    url = make_queue()
    sent = client.send_message(QueueUrl=url, MessageBody="test", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == digest
    assert sent["MD5OfMessageBody"] == "098f6bcd4621d373cade4e832627b4f6"
    (message,) = receive(client, url, MessageAttributeNames=["All"])
    assert message["MD5OfMessageAttributes"] == digest
    assert message["MessageAttributes"] == attributes


@pytest.mark.parametrize(
    ("names", "picked", "digest"),
    [
        (["All"], {"Hello", "General", "Help.Me"}, "4c360f3fdafd970e05fae2f149d997f5"),
        ([".*"], {"Hello", "General", "Help.Me"}, "4c360f3fdafd970e05fae2f149d997f5"),
        (["Hello", "General"], {"Hello", "General"}, "fca026605781cb4126a1e9044df24232"),
        (["Hello", "Nope"], {"Hello"}, "a311262e065454b75da111d535b8dacd"),
        (["Hel.*"], {"Hello", "Help.Me"}, "83fee93c1bcd8b9a5a923ffacdc636c7"),
        (["Nope"], set(), None),
        ([], set(), None),
    ],
)
def test_a_receive_gets_the_attributes_it_names_and_their_digest(
    client: Any, make_queue: Any, names: list[str], picked: set[str], digest: str | None
) -> None:
    url = make_queue()
    values = {"Hello": "There", "General": "Kenobi", "Help.Me": "Me"}
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
    client.send_message(QueueUrl=url, MessageBody="msg", MessageAttributes=attributes)
    (message,) = receive(client, url, MessageAttributeNames=names)
    assert set(message.get("MessageAttributes", {})) == picked
    assert message.get("MD5OfMessageAttributes") == digest


@pytest.mark.parametrize(
    "name",
    ["", "a" * 257, ".a", "a.", "a..b", "AWS.x", "aws.x", "Amazon.x", "a b", "ä", "a/b"],
)
def test_attribute_names_that_sqs_reserves_or_does_not_know_are_refused(
    client: Any, make_queue: Any, name: str
) -> None:
    url = make_queue()
    with refused("InvalidParameterValue"):
        client.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={name: TEXT})


@pytest.mark.parametrize("name", ["a" * 256, "A-z_0.9", "AWSome", "x.AWS.y"])
def test_other_attribute_names_are_taken(client: Any, make_queue: Any, name: str) -> None:
    client.send_message(QueueUrl=make_queue(), MessageBody="x", MessageAttributes={name: TEXT})


@pytest.mark.parametrize(
    "attribute",
    [
        {"DataType": "", "StringValue": "x"},
        {"DataType": "Text", "StringValue": "x"},
        {"DataType": "string", "StringValue": "x"},
        {"DataType": "String.", "StringValue": "x"},
        {"DataType": "String." + "a" * 250, "StringValue": "x"},
        {"DataType": "String", "StringValue": ""},
        {"DataType": "String"},
        {"DataType": "String", "BinaryValue": b"x"},
        {"DataType": "String", "StringValue": "x", "BinaryValue": b"x"},
        {"DataType": "Binary", "StringValue": "x"},
        {"DataType": "Binary", "BinaryValue": b""},
        {"DataType": "String", "StringListValues": ["x"]},
        {"DataType": "Number", "StringValue": "one"},
        {"DataType": "Number", "StringValue": "NaN"},
        {"DataType": "Number", "StringValue": "Infinity"},
        {"DataType": "Number", "StringValue": "1_0"},
        {"DataType": "Number", "StringValue": " 1"},
        {"DataType": "Number", "StringValue": "1" * 39},
        {"DataType": "Number", "StringValue": "1e127"},
        {"DataType": "Number.int", "StringValue": "1e-129"},
    ],
)
def test_attribute_types_and_values_are_checked(client: Any, make_queue: Any, attribute: Any) -> None:
    url = make_queue()
    with refused("InvalidParameterValue"):
        client.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={"a": attribute})
    assert counts(client, url) == (0, 0, 0)


@pytest.mark.parametrize("number", ["0", "-1", "+1.5", "1e126", "-1e-128", "1" * 38, "0.000"])
def test_numbers_within_the_range_are_taken_as_they_are(client: Any, make_queue: Any, number: str) -> None:
    url = make_queue()
    attribute = {"DataType": "Number.custom", "StringValue": number}
    client.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={"n": attribute})
    assert receive(client, url, MessageAttributeNames=["n"])[0]["MessageAttributes"]["n"] == attribute


def test_ten_attributes_are_taken_and_eleven_refused(client: Any, make_queue: Any) -> None:
    url = make_queue()
    client.send_message(
        QueueUrl=url, MessageBody="x", MessageAttributes={f"a{n}": dict(TEXT) for n in range(10)}
    )
    with refused("InvalidParameterValue", "[11] exceeds the allowed maximum [10]"):
        client.send_message(
            QueueUrl=url, MessageBody="x", MessageAttributes={f"a{n}": dict(TEXT) for n in range(11)}
        )


@pytest.mark.parametrize("text", ["\x00", "a\x08", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_characters_outside_of_the_allowed_set_are_refused(client: Any, make_queue: Any, text: str) -> None:
    url = make_queue()
    with pytest.raises(client.exceptions.InvalidMessageContents):
        client.send_message(QueueUrl=url, MessageBody=text)
    answer = client.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "bad", "MessageBody": text}, {"Id": "good", "MessageBody": "x"}]
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("bad", "InvalidMessageContents", True)
    ]


@pytest.mark.parametrize("text", ["\t\n\r", "\x7f", "\ud7ff\ue000\ufffd\U00010000\U0010ffff", " "])
def test_all_other_characters_arrive(client: Any, make_queue: Any, text: str) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody=text)
    assert receive(client, url)[0]["Body"] == text


def test_an_empty_body_is_refused(client: Any, make_queue: Any) -> None:
    with refused("MissingParameter", "MessageBody"):
        client.send_message(QueueUrl=make_queue(), MessageBody="")


def test_the_size_of_a_message_counts_bytes_of_body_and_attributes(client: Any, make_queue: Any) -> None:
    url = make_queue(MaximumMessageSize="1024")
    attribute = {"name": {"DataType": "String", "StringValue": "ü"}}
    room = 1024 - len("name") - len("String") - 2
    fits = "ä" * (room // 2)
    client.send_message(QueueUrl=url, MessageBody=fits, MessageAttributes=attribute)
    with refused("InvalidParameterValue", "Message must be shorter than 1024 bytes"):
        client.send_message(QueueUrl=url, MessageBody=fits + "x", MessageAttributes=attribute)
    answer = client.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "a", "MessageBody": "x" * 1025}, {"Id": "b", "MessageBody": "x" * 1024}],
    )
    assert [entry["Id"] for entry in answer["Failed"]] == ["a"]


def test_a_batch_of_a_mebibyte_is_taken_and_one_byte_more_refused(client: Any, make_queue: Any) -> None:
    url = make_queue()
    half = "x" * 524_288
    client.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}]
    )
    with refused("AWS.SimpleQueueService.BatchRequestTooLong", "1048577"):
        client.send_message_batch(
            QueueUrl=url, Entries=[{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half + "x"}]
        )
    assert counts(client, url) == (2, 0, 0)


def test_the_trace_header_travels_outside_of_the_size(client: Any, make_queue: Any) -> None:
    url = make_queue(MaximumMessageSize="1024")
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988"}}
    sent = client.send_message(QueueUrl=url, MessageBody="x" * 1024, MessageSystemAttributes=header)
    assert len(sent["MD5OfMessageSystemAttributes"]) == 32
    assert receive(client, url)[0]["Attributes"]["AWSTraceHeader"] == "Root=1-5759e988"
    with refused("InvalidParameterValue", "Other"):
        client.send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes={"Other": TEXT})


@pytest.mark.parametrize("group", ["", "a" * 129, "a b", "ä"])
def test_group_ids_are_checked_on_every_type_of_queue(client: Any, make_queue: Any, group: str) -> None:
    for url in (make_queue("jobs"), make_queue("jobs.fifo")):
        with refused("InvalidParameterValue", "MessageGroupId"):
            client.send_message(QueueUrl=url, MessageBody="x", MessageGroupId=group)


@pytest.mark.parametrize(
    ("code", "entries"),
    [
        ("EmptyBatchRequest", []),
        ("TooManyEntriesInBatchRequest", [{"Id": str(n)} for n in range(11)]),
        ("BatchEntryIdsNotDistinct", [{"Id": "same"}, {"Id": "same"}]),
        ("InvalidBatchEntryId", [{"Id": "no:colon"}]),
        ("InvalidBatchEntryId", [{"Id": ""}]),
        ("InvalidBatchEntryId", [{"Id": "a" * 81}]),
    ],
)
def test_every_batch_operation_checks_its_entries_as_a_whole(
    client: Any, make_queue: Any, code: str, entries: list[dict[str, str]]
) -> None:
    url = make_queue()
    for operation, rest in (
        (client.send_message_batch, {"MessageBody": "x"}),
        (client.delete_message_batch, {"ReceiptHandle": "x"}),
        (client.change_message_visibility_batch, {"ReceiptHandle": "x", "VisibilityTimeout": 1}),
    ):
        with refused(f"AWS.SimpleQueueService.{code}"):
            operation(QueueUrl=url, Entries=[{**entry, **rest} for entry in entries])
