"""Message attributes: types, names, values, digests, and which of them a receive returns."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide


def string(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def binary(value: bytes, data_type: str = "Binary") -> dict[str, Any]:
    return {"DataType": data_type, "BinaryValue": value}


def digest(attributes: dict[str, dict[str, Any]]) -> str:
    """The digest of the developer guide: by name, each part with its length, a byte for the kind."""
    md5 = hashlib.md5()

    def add(part: bytes) -> None:
        md5.update(struct.pack(">I", len(part)) + part)

    for name, value in sorted(attributes.items()):
        add(name.encode())
        add(value["DataType"].encode())
        if "BinaryValue" in value:
            md5.update(b"\x02")
            add(value["BinaryValue"])
        else:
            md5.update(b"\x01")
            add(value["StringValue"].encode())
    return md5.hexdigest()


SOME = {
    "Text": string("grüße"),
    "Amount": string("-12.50", "Number"),
    "Blob": binary(b"\x00\x1e\xff"),
}


@documented(guide("sqs-message-metadata"))
@pytest.mark.parametrize(
    "value",
    [
        string("grüße"),
        string("-12.5", "Number"),
        string("1e10", "Number"),
        binary(b"\x00\x01\xff"),
        string("7", "Number.int"),
        string("{}", "String.json"),
        binary(b"GIF89a", "Binary.gif"),
    ],
    ids=lambda value: f"{value['DataType']}-{value.get('StringValue', 'bytes')}",
)
def test_an_attribute_comes_back_with_its_type_and_value(sqs: Sqs, value: dict[str, Any]) -> None:
    url = sqs.queue()
    sqs.send(url, MessageAttributes={"attribute": value})
    assert sqs.receive_one(url)["MessageAttributes"] == {"attribute": value}


@documented(guide("sqs-message-metadata"))
def test_the_md5_of_attributes_is_the_documented_one_on_send_and_on_receive(sqs: Sqs) -> None:
    url = sqs.queue()
    assert sqs.send(url, MessageAttributes=SOME)["MD5OfMessageAttributes"] == digest(SOME)
    assert sqs.receive_one(url)["MD5OfMessageAttributes"] == digest(SOME)


@documented(api("ReceiveMessage"))
@pytest.mark.parametrize("wanted", ["All", ".*"])
def test_all_attributes_are_returned_on_demand(sqs: Sqs, wanted: str) -> None:
    url = sqs.queue()
    sqs.send(url, MessageAttributes=SOME)
    assert sqs.receive_one(url, MessageAttributeNames=[wanted])["MessageAttributes"] == SOME


@documented(api("ReceiveMessage"))
def test_attributes_are_returned_by_name_with_a_digest_of_those_alone(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, MessageAttributes=SOME)
    message = sqs.receive_one(url, MessageAttributeNames=["Text", "Unknown"])
    assert message["MessageAttributes"] == {"Text": SOME["Text"]}
    assert message["MD5OfMessageAttributes"] == digest({"Text": SOME["Text"]})


@documented(api("ReceiveMessage"))
def test_attributes_are_returned_by_prefix(sqs: Sqs) -> None:
    url = sqs.queue()
    sent = {"bar.one": string("1"), "bar.two": string("2"), "barn": string("3"), "foo": string("4")}
    sqs.send(url, MessageAttributes=sent)
    found = sqs.receive_one(url, MessageAttributeNames=["bar.*"])["MessageAttributes"]
    assert {"bar.one", "bar.two"} <= set(found)
    assert "foo" not in found


@documented(api("ReceiveMessage"))
def test_names_that_match_nothing_return_no_attributes_and_no_digest(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, MessageAttributes=SOME)
    message = sqs.receive_one(url, MessageAttributeNames=["text", "Other"])
    assert not message.get("MessageAttributes")
    assert "MD5OfMessageAttributes" not in message


@documented(guide("sqs-message-metadata"))
def test_ten_attributes_are_accepted(sqs: Sqs) -> None:
    url = sqs.queue()
    sent = {f"name-{number}": string(str(number)) for number in range(10)}
    sqs.send(url, MessageAttributes=sent)
    assert sqs.receive_one(url)["MessageAttributes"] == sent


@documented(guide("sqs-message-metadata"))
def test_an_eleventh_attribute_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageAttributes={f"name-{number}": string("1") for number in range(11)})


@documented(guide("sqs-message-metadata"))
@pytest.mark.parametrize(
    "name",
    [
        "AWS.name",
        "aws.name",
        "Amazon.name",
        "AMAZON.name",
        ".start",
        "end.",
        "two..dots",
        pytest.param("white space", id="space"),
        pytest.param("ü", id="umlaut"),
        pytest.param("n" * 257, id="257-characters"),
    ],
)
def test_an_attribute_name_outside_of_the_rules_is_refused(sqs: Sqs, name: str) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageAttributes={name: string("value")})


@documented(guide("sqs-message-metadata"))
def test_a_name_may_hold_letters_digits_underscore_hyphen_and_single_dots(sqs: Sqs) -> None:
    url = sqs.queue()
    sent = {"Az09_-.x": string("value"), "n" * 256: string("long")}
    sqs.send(url, MessageAttributes=sent)
    assert sqs.receive_one(url)["MessageAttributes"] == sent


@documented(guide("sqs-message-metadata"))
def test_attribute_names_are_case_sensitive(sqs: Sqs) -> None:
    url = sqs.queue()
    sent = {"name": string("1"), "Name": string("2")}
    sqs.send(url, MessageAttributes=sent)
    assert sqs.receive_one(url)["MessageAttributes"] == sent


@documented(guide("sqs-message-metadata"))
@pytest.mark.parametrize(
    "value",
    [
        string("value", "Text"),
        string("value", "string"),
        string("value", ""),
        string("value", "String." + "x" * 250),
        string(""),
        string("", "Number"),
        binary(b""),
        string("twelve", "Number"),
        binary(b"text", "String"),
        string("text", "Binary"),
        {"DataType": "String"},
    ],
    ids=[
        "unknown-type",
        "type-in-lower-case",
        "empty-type",
        "type-of-257-characters",
        "empty-string",
        "empty-number",
        "empty-binary",
        "number-that-is-none",
        "bytes-as-string",
        "text-as-binary",
        "no-value",
    ],
)
def test_an_attribute_outside_of_the_rules_is_refused(sqs: Sqs, value: dict[str, Any]) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, MessageAttributes={"attribute": value})
    assert sqs.receive(url) == []


@documented(api("MessageAttributeValue"))
def test_a_control_character_in_a_value_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidMessageContents", "InvalidParameterValue"):
        sqs.send(url, MessageAttributes={"attribute": string("a\x00b")})
