"""The lean transport in the clothes of a boto3 client, for tests that were written for one."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from botocore.validate import validate_parameters

from sqs_workers.transport.lean import LeanTransport, codec
from sqs_workers.transport.lean.endpoint import OPERATIONS

__all__ = ["LeanClient"]


class LeanClient:
    """Sends the operations of the lean transport over it, everything else through the client behind it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._transport = LeanTransport(lambda: client)

    def __getattr__(self, name: str) -> Any:
        operation = re.sub(r"(?:^|_)(.)", lambda match: match[1].upper(), name)
        if operation not in OPERATIONS:
            return getattr(self._client, name)
        return self._sender(operation)

    def close(self) -> None:
        self._transport.close()
        self._client.close()

    def _sender(self, operation: str) -> Callable[..., Any]:
        model = self._client.meta.service_model.operation_model(operation)

        def send(**parameters: Any) -> Any:
            validate_parameters(parameters, model.input_shape)
            body = codec.encode(_binary(parameters, base64.b64encode)).encode()
            answer = _binary(self._transport._endpoint.call(operation, body), base64.b64decode)
            return {**answer, "ResponseMetadata": {"HTTPStatusCode": 200}}

        return send


def _binary(value: Any, convert: Callable[[Any], bytes]) -> Any:
    """A copy of ``value`` with its binary values converted."""
    if isinstance(value, list):
        return [_binary(item, convert) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: _binary(item, convert) for name, item in value.items()}
    if "BinaryValue" in result:
        converted = convert(result["BinaryValue"])
        result["BinaryValue"] = converted.decode() if convert is base64.b64encode else converted
    return result
