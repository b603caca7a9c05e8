"""What a message may contain: body, attributes, sizes and digests.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sqs_workers.limits import MAX_ATTRIBUTES
from sqs_workers.memory_sqs.faults import invalid_message_contents, invalid_parameter, missing_parameter

__all__ = [
    "attributes_size",
    "check_attributes",
    "check_body",
    "check_trace_header",
    "md5_of_attributes",
    "md5_of_text",
    "pick_attributes",
]

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ALLOWED_TEXT = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
_NAME = re.compile(r"[A-Za-z0-9_\-.]{1,256}")
_TYPE = re.compile(r"(String|Number|Binary)(\.[A-Za-z0-9_\-.]+)?")
_MAX_TYPE_LENGTH = 256


def check_body(body: str) -> bytes:
    """The body as UTF-8, if SQS would take it.

    :raises Fault: for an empty body or one with characters outside of the allowed set.
    """
    if not body:
        raise missing_parameter("MessageBody")
    # isprintable() implies that nothing is forbidden, and is far quicker than the search.
    if not body.isprintable():
        found = _FORBIDDEN.search(body)
        if found:
            raise invalid_message_contents(
                f"Invalid binary character '#x{ord(found[0]):X}' was found in the message body, "
                f"the set of allowed characters is {_ALLOWED_TEXT}"
            )
    return body.encode()


def md5_of_text(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def check_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The attributes as SQS stores them (a value and its type, binary values as ``bytes``).

    :raises Fault: for more than 10, and for a name, type or value that SQS refuses.
    """
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid_parameter(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}]."
        )
    return {name: _check_attribute(name, value) for name, value in attributes.items()}


def _check_attribute(name: str, attribute: Mapping[str, Any]) -> dict[str, Any]:
    _check_name(name)
    data_type = attribute.get("DataType") or ""
    kind = _check_type(name, data_type)
    if attribute.get("StringListValues") or attribute.get("BinaryListValues"):
        raise invalid_parameter("Message attribute list values in SendMessage operation are not supported.")
    field, other = ("BinaryValue", "StringValue") if kind == "Binary" else ("StringValue", "BinaryValue")
    value = attribute.get(field)
    if not value:
        raise invalid_parameter(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{data_type}'."
        )
    if attribute.get(other):
        raise invalid_parameter(
            f"Message (user) attribute '{name}' has a {other}, which its type '{data_type}' does not take."
        )
    if kind == "Binary":
        return {
            "BinaryValue": value.encode() if isinstance(value, str) else bytes(value),
            "DataType": data_type,
        }
    if not value.isprintable() and (found := _FORBIDDEN.search(value)):
        raise invalid_message_contents(
            f"Invalid binary character '#x{ord(found[0]):X}' was found in the message attribute '{name}' "
            f"value, the set of allowed characters is {_ALLOWED_TEXT}"
        )
    if kind == "Number":
        _check_number(name, value)
    return {"StringValue": value, "DataType": data_type}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid_parameter(
            f"Message (user) attribute name '{name}' is invalid: it can be 1 to 256 characters long "
            "and contain A-Z, a-z, 0-9, underscore (_), hyphen (-) and period (.)."
        )
    if name.startswith(".") or name.endswith(".") or ".." in name:
        raise invalid_parameter(
            f"Message (user) attribute name '{name}' is invalid: "
            "it must not start or end with a period, nor have successive periods."
        )
    if name.lower().startswith(("aws.", "amazon.")):
        raise invalid_parameter(
            f"Message (user) attribute name '{name}' is invalid: it must not start with AWS. or Amazon., "
            "which are reserved."
        )


def _check_type(name: str, data_type: str) -> str:
    if not data_type:
        raise invalid_parameter(f"Message (user) attribute '{name}' must contain a non-empty attribute type.")
    found = _TYPE.fullmatch(data_type)
    if not found or len(data_type) > _MAX_TYPE_LENGTH:
        raise invalid_parameter(
            f"The type of message (user) attribute '{name}' is invalid. "
            "You must use only the following supported type prefixes: Binary, Number, String."
        )
    return found[1]


_LARGEST_NUMBER = Decimal("1e126")
_SMALLEST_NUMBER = Decimal("1e-128")
_MAX_DIGITS = 38


def _check_number(name: str, text: str) -> None:
    """Up to 38 digits, between 10^-128 and 10^126 apart from the sign."""
    fault = invalid_parameter(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    if not text.isascii() or "_" in text or text != text.strip():
        raise fault
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise fault from None
    if not number.is_finite():
        raise fault
    if number == 0:
        return
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if len(digits) > _MAX_DIGITS or not _SMALLEST_NUMBER <= abs(number) <= _LARGEST_NUMBER:
        raise fault


def attributes_size(attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """Bytes of names, types and values, as they count against the size limit."""
    size = 0
    for name, attribute in attributes.items():
        value = attribute.get("BinaryValue")
        data = attribute["StringValue"].encode() if value is None else value
        size += len(name) + len(attribute["DataType"]) + len(data)
    return size


def md5_of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
    (section *Calculating the MD5 message digest for message attributes*)."""
    digest = hashlib.md5(usedforsecurity=False)

    def add(data: bytes) -> None:
        digest.update(len(data).to_bytes(4, "big"))
        digest.update(data)

    for name in sorted(attributes):
        attribute = attributes[name]
        add(name.encode())
        add(attribute["DataType"].encode())
        binary = attribute.get("BinaryValue")
        if binary is None:
            digest.update(b"\x01")
            add(attribute["StringValue"].encode())
        else:
            digest.update(b"\x02")
            add(binary)
    return digest.hexdigest()


def check_trace_header(attributes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The value of ``AWSTraceHeader``, the one system attribute that may be sent."""
    for name, attribute in attributes.items():
        if name != "AWSTraceHeader":
            raise invalid_parameter(f"Message system attribute name '{name}' is invalid.")
        if attribute.get("DataType") != "String" or not attribute.get("StringValue"):
            raise invalid_parameter(
                "Message system attribute 'AWSTraceHeader' must contain a non-empty value of type 'String'."
            )
    header = attributes.get("AWSTraceHeader")
    return None if header is None else str(header["StringValue"])


def pick_attributes(
    attributes: Mapping[str, dict[str, Any]], names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The attributes that a receive asked for: by name, by prefix (``foo.*``), or all (``All``, ``.*``)."""
    wanted: set[str] = set()
    prefixes: list[str] = []
    for name in names:
        if name in ("All", ".*", "*"):
            return dict(attributes)
        if name.endswith(".*"):
            prefixes.append(name[:-2])
        elif name.endswith("*"):
            prefixes.append(name[:-1])
        else:
            wanted.add(name)
    start = tuple(prefixes)
    return {
        name: value
        for name, value in attributes.items()
        if name in wanted or (start and name.startswith(start))
    }
