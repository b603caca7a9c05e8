"""The query protocol that SDKs spoke to SQS before the JSON protocol: forms in, XML out.

Parameters are flattened: ``Attribute.1.Name=DelaySeconds&Attribute.1.Value=5``. The names of the
flattened lists are not those of the model; the tables below have them.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-xml.html
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from sqs_workers.local.wire import Refusal, decode_blobs, invalid_action, unreadable
from sqs_workers.memory_sqs.contract import service_model

__all__ = ["QueryWire"]

_NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"

_LISTS = {
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "TagKeys": "TagKey",
}
_MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "Tags": ("Tag", "Key"),
    "tags": ("Tag", "Key"),
}
_ELEMENTS = {"Messages": "Message", "QueueUrls": "QueueUrl", "queueUrls": "QueueUrl"}

_Tree = dict[str, Any]


class QueryWire:
    """The protocol of SDKs of before 2024."""

    content_type = "text/xml"

    def read(self, headers: Mapping[str, str], body: bytes) -> tuple[str, dict[str, Any]]:
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body))
        except ValueError:
            raise unreadable("The body of the request is not a form.") from None
        tree: _Tree = {}
        for name, value in pairs:
            _plant(tree, name, value)
        operation = tree.get("Action", "")
        if operation not in _operations():
            raise invalid_action(f"The action {operation} is not valid for this endpoint.")
        try:
            params = _structure(service_model().operation_model(operation).input_shape, tree, operation)
        except (AttributeError, TypeError, ValueError):
            raise unreadable("A parameter of the request has the wrong form.") from None
        decode_blobs(params)
        return operation, params

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> bytes:
        inner = _members(result, operation)
        outer = f"<{operation}Result>{inner}</{operation}Result>" if inner else ""
        return (
            f'<?xml version="1.0"?><{operation}Response xmlns="{_NAMESPACE}">{outer}'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation}Response>"
        ).encode()

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        kind = "Receiver" if refusal.status >= 500 else "Sender"
        return (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>{kind}</Type>'
            f"<Code>{escape(refusal.code)}</Code><Message>{_text(refusal.message)}</Message><Detail/></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        ).encode()


@cache
def _operations() -> frozenset[str]:
    return frozenset(service_model().operation_names)


def _plant(tree: _Tree, name: str, value: str) -> None:
    *path, leaf = name.split(".")
    for part in path:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            raise unreadable(f"The parameter {name} contradicts another one.")
        tree = branch
    tree[leaf] = value


def _structure(shape: Any, tree: _Tree, operation: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for name, member in shape.members.items():
        if member.type_name == "list":
            # An older SDK sends AttributeName for what is AttributeNames; entries carry the operation's name.
            found = tree.get(f"{operation}RequestEntry" if name == "Entries" else _LISTS.get(name, name))
            if found is not None:
                params[name] = [_value(member.member, item, operation) for item in _numbered(found)]
        elif member.type_name == "map":
            prefix, key = _MAPS[name]
            if prefix in tree:
                params[name] = {
                    item[key]: _value(member.value, item["Value"], operation)
                    for item in _numbered(tree[prefix])
                }
        elif name in tree:
            params[name] = _value(member, tree[name], operation)
    return params


def _numbered(branch: _Tree) -> list[Any]:
    return [branch[number] for number in sorted(branch, key=int)]


def _value(shape: Any, value: Any, operation: str) -> Any:
    if shape.type_name == "structure":
        return _structure(shape, value, operation)
    if not isinstance(value, str):
        raise TypeError(value)
    if shape.type_name in ("integer", "long"):
        return int(value)
    if shape.type_name == "boolean":
        return value.lower() == "true"
    return value


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    # A bare CR would be read as a line feed by every XML parser.
    return escape(str(value), {"\r": "&#13;"})


def _members(values: Mapping[str, Any], operation: str) -> str:
    return "".join(_element(name, value, operation) for name, value in values.items())


def _element(name: str, value: Any, operation: str) -> str:
    if name in _MAPS and isinstance(value, Mapping):
        element, key = _MAPS[name]
        return "".join(
            f"<{element}><{key}>{_text(item)}</{key}>{_element('Value', inner, operation)}</{element}>"
            for item, inner in value.items()
        )
    if isinstance(value, Mapping):
        return f"<{name}>{_members(value, operation)}</{name}>"
    if isinstance(value, (list, tuple)):
        element = _list_element(name, operation)
        return "".join(_element(element, item, operation) for item in value)
    return f"<{name}>{_text(value)}</{name}>"


def _list_element(name: str, operation: str) -> str:
    if name == "Successful":
        return f"{operation}ResultEntry"
    if name == "Failed":
        return "BatchResultErrorEntry"
    return _ELEMENTS.get(name, name)
