"""botocore's model of SQS: argument checks, exception classes and pagination.

botocore is loaded at the first use and not when this module is imported. All
that is derived from it is made once per process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.errorfactory import BaseClientExceptions
    from botocore.exceptions import ClientError
    from botocore.loaders import Loader

    from sqs_workers.memory_sqs.faults import Fault

__all__ = [
    "API_VERSION",
    "client_error",
    "client_exceptions",
    "loader",
    "operation_names",
    "paginator_config",
    "response_metadata",
    "service_model",
    "validate",
]

API_VERSION = "2012-11-05"

Check = Callable[[Any], bool]


@cache
def loader() -> Loader:
    from botocore.loaders import Loader

    return Loader()


@cache
def service_model() -> Any:
    """The ``botocore.model.ServiceModel`` of SQS."""
    from botocore.model import ServiceModel

    return ServiceModel(loader().load_service_model("sqs", "service-2", API_VERSION), "sqs")


@cache
def paginator_config(operation_name: str) -> dict[str, Any] | None:
    paginators = loader().load_service_model("sqs", "paginators-1", API_VERSION)["pagination"]
    config: dict[str, Any] | None = paginators.get(operation_name)
    return config


@cache
def operation_names() -> dict[str, str]:
    """Method names of a client, each with the operation that it calls."""
    from botocore import xform_name

    return {xform_name(name): name for name in service_model().operation_names}


@cache
def client_exceptions() -> BaseClientExceptions:
    """What boto3 has as ``client.exceptions``."""
    from botocore.errorfactory import ClientExceptionsFactory

    return ClientExceptionsFactory().create_client_exceptions(service_model())


@cache
def _error_classes() -> dict[str, type[ClientError]]:
    from botocore.exceptions import ClientError

    exceptions = client_exceptions()
    named = {str(shape.name): getattr(exceptions, shape.name) for shape in service_model().error_shapes}
    return {name: cls for name, cls in named.items() if issubclass(cls, ClientError)}


def response_metadata(status: int = 200, retry_attempts: int = 0) -> dict[str, Any]:
    request_id = str(uuid.uuid4())
    return {
        "RequestId": request_id,
        "HTTPStatusCode": status,
        "HTTPHeaders": {"x-amzn-requestid": request_id, "content-type": "application/x-amz-json-1.0"},
        "RetryAttempts": retry_attempts,
    }


def client_error(fault: Fault, operation_name: str) -> ClientError:
    """The exception that boto3 raises for ``fault``, of the modeled class if there is one."""
    from botocore.exceptions import ClientError

    cls = _error_classes().get(fault.shape, ClientError)
    response: Any = {
        "Error": {
            "Message": fault.message,
            "Code": fault.code,
            "QueryErrorCode": fault.shape,
            "Type": "Sender",
        },
        "ResponseMetadata": response_metadata(fault.status),
    }
    if cls is not ClientError and fault.code == fault.shape:
        response["message"] = fault.message
    return cls(response, operation_name)


def validate(operation_name: str, params: Mapping[str, Any]) -> None:
    """Check the types of arguments as boto3 does before it sends anything.

    :raises botocore.exceptions.ParamValidationError: with botocore's own report.
    """
    if _input_check(operation_name)(params):
        return
    from botocore.exceptions import ParamValidationError
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(params, service_model().operation_model(operation_name).input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


@cache
def _input_check(operation_name: str) -> Check:
    return _compile(service_model().operation_model(operation_name).input_shape)


# A quick yes for arguments that are plainly right, several times faster than
# ParamValidator. Whatever it does not accept goes to ParamValidator, whose word
# is final, so these checks may be too narrow but never too wide.


def _compile(shape: Any) -> Check:
    kind = shape.type_name
    if kind == "structure":
        return _structure_check(shape)
    if kind == "list":
        return _list_check(_compile(shape.member))
    if kind == "map":
        return _map_check(_compile(shape.key), _compile(shape.value))
    return _SCALARS[kind]


_SCALARS: dict[str, Check] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "long": lambda value: type(value) is int,
    "boolean": lambda value: type(value) is bool,
    "blob": lambda value: type(value) in (bytes, bytearray, str),
}


def _structure_check(shape: Any) -> Check:
    members = {name: _compile(member) for name, member in shape.members.items()}
    required = tuple(shape.required_members)

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            member = members.get(name)
            if member is None or not member(item):
                return False
        return True

    return check


def _list_check(member: Check) -> Check:
    def check(value: Any) -> bool:
        return type(value) is list and all(map(member, value))

    return check


def _map_check(key: Check, value_check: Check) -> Check:
    def check(value: Any) -> bool:
        return type(value) is dict and all(map(key, value)) and all(map(value_check, value.values()))

    return check
