"""The AWS JSON protocol of SQS: what a request says, what an answer looks like.

Requests name their operation in ``x-amz-target``; errors carry the name of their shape in
``__type`` and the code of the older query protocol in ``x-amzn-query-error``, from which boto3
and the aws CLI take the code that they show.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["JsonWire", "RefusedError", "Refusal", "Wire", "invalid_action", "unreadable"]

_TARGET_PREFIX = "AmazonSQS."
_NAMESPACE = "com.amazonaws.sqs#"


@dataclass(frozen=True)
class Refusal:
    """An error answer: HTTP status, code as clients show it, name of its shape, text."""

    status: int
    code: str
    shape: str
    message: str

    @property
    def query_error(self) -> str:
        """The value of ``x-amzn-query-error``."""
        return f"{self.code};{'Receiver' if self.status >= 500 else 'Sender'}"


class RefusedError(Exception):
    """A request that is not carried out; ``refusal`` is the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def unreadable(message: str) -> RefusedError:
    """A request whose parameters cannot be read."""
    return RefusedError(Refusal(400, "SerializationException", "SerializationException", message))


def invalid_action(message: str) -> RefusedError:
    """A request that names no operation of SQS."""
    return RefusedError(Refusal(400, "InvalidAction", "InvalidAction", message))


class Wire(Protocol):
    """A protocol in which SQS can be spoken."""

    content_type: str

    def read(self, headers: Mapping[str, str], body: bytes) -> tuple[str, dict[str, Any]]:
        """The operation that a request asks for, and its parameters.

        :raises RefusedError: if the request is not of this protocol.
        """
        ...

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> bytes:
        """The body of a good answer."""
        ...

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        """The body of an error answer."""
        ...


class JsonWire:
    """The protocol of today's SDKs."""

    content_type = "application/x-amz-json-1.0"

    def read(self, headers: Mapping[str, str], body: bytes) -> tuple[str, dict[str, Any]]:
        target = headers.get("x-amz-target", "")
        if not target.startswith(_TARGET_PREFIX):
            raise invalid_action(
                "A request names its operation: the header x-amz-target, AmazonSQS.OPERATION."
            )
        return target[len(_TARGET_PREFIX) :], parse_body(body)

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> bytes:
        return _encoder.encode(result).encode()

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        return _encoder.encode({"__type": _NAMESPACE + refusal.shape, "message": refusal.message}).encode()


def parse_body(body: bytes) -> dict[str, Any]:
    """The parameters of a JSON request, with binary values decoded.

    :raises RefusedError: if ``body`` is not a JSON object, or holds base64 that is none.
    """
    if not body:
        return {}
    try:
        params = json.loads(body)
    except ValueError:
        raise unreadable("The body of the request is not JSON.") from None
    if not isinstance(params, dict):
        raise unreadable("The body of the request is not a JSON object.")
    if b"BinaryValue" in body:
        decode_blobs(params)
    return params


def decode_blobs(params: Any) -> None:
    """Turn every ``BinaryValue`` within ``params`` from base64 into bytes, in place."""
    if isinstance(params, list):
        for item in params:
            decode_blobs(item)
    elif isinstance(params, dict):
        for key, value in params.items():
            if key == "BinaryValue" and isinstance(value, str):
                try:
                    params[key] = base64.b64decode(value, validate=True)
                except binascii.Error:
                    raise unreadable("A BinaryValue is not base64.") from None
            elif isinstance(value, (dict, list)):
                decode_blobs(value)


def _encode_blob(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in the JSON protocol")


_encoder = json.JSONEncoder(separators=(",", ":"), default=_encode_blob, check_circular=False)
