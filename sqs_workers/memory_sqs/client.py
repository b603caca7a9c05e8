"""What ``session.client("sqs")`` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqs_workers.memory_sqs import contract

if TYPE_CHECKING:
    from botocore.errorfactory import BaseClientExceptions

    from sqs_workers.memory_sqs.backend import MemoryAWS

__all__ = ["ClientMeta", "MemoryClient"]


@dataclass(frozen=True)
class ClientMeta:
    """``client.meta``, as far as it does not depend on a network connection."""

    region_name: str
    endpoint_url: str
    config: Any = None
    partition: str = "aws"

    @property
    def service_model(self) -> Any:
        return contract.service_model()

    @property
    def method_to_api_mapping(self) -> Mapping[str, str]:
        return contract.operation_names()


class MemoryClient:
    """A client with boto3's methods, arguments, answers and exceptions.

    One may be shared by threads, as with boto3. There is a method for every
    operation of SQS; they take keyword arguments only.

    :param aws: the account to work on.
    :param config: kept as ``client.meta.config``; nothing reads it.
    :param validate_parameters: check argument names and types before the call
        as boto3 does (``ParamValidationError``).
    """

    def __init__(self, aws: MemoryAWS, *, config: Any = None, validate_parameters: bool = True) -> None:
        self._aws = aws
        self._validate = validate_parameters
        self.meta = ClientMeta(aws.region_name, aws.endpoint_url, config)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        # boto3's methods come from the service model, too. Kept on the
        # instance, so this is asked once per method.
        operation_name = None if name.startswith("_") else contract.operation_names().get(name)
        if operation_name is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = self._method(name, operation_name)
        self.__dict__[name] = method
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *contract.operation_names()})

    def _method(self, name: str, operation_name: str) -> Callable[..., dict[str, Any]]:
        call, check = self._aws.call, self._validate

        def method(*args: Any, **kwargs: Any) -> dict[str, Any]:
            if args:
                raise TypeError(f"{name}() only accepts keyword arguments.")
            if check:
                contract.validate(operation_name, kwargs)
            answer = call(operation_name, kwargs)
            answer["ResponseMetadata"] = contract.response_metadata()
            return answer

        method.__name__ = name
        method.__qualname__ = f"{type(self).__name__}.{name}"
        method.__doc__ = f"{operation_name} of Amazon SQS, with boto3's arguments and answer."
        return method

    def wake_receives(self, *, QueueUrl: str) -> None:
        """Answer the long polls of the queue that are under way now. Not an operation of SQS."""
        self._aws.wake_receives(QueueUrl)

    @property
    def exceptions(self) -> BaseClientExceptions:
        """The modeled exceptions (``client.exceptions.QueueDoesNotExist``)."""
        return contract.client_exceptions()

    def can_paginate(self, operation_name: str) -> bool:
        api_name = contract.operation_names().get(operation_name)
        return api_name is not None and contract.paginator_config(api_name) is not None

    def get_paginator(self, operation_name: str) -> Any:
        """A ``botocore.paginate.Paginator`` over the method of that name.

        :raises botocore.exceptions.OperationNotPageableError: for an operation without pages.
        """
        api_name = contract.operation_names().get(operation_name, "")
        config = contract.paginator_config(api_name)
        if config is None:
            from botocore.exceptions import OperationNotPageableError

            raise OperationNotPageableError(operation_name=operation_name)
        from botocore.paginate import Paginator

        model = contract.service_model().operation_model(api_name)
        return Paginator(getattr(self, operation_name), config, model)

    def close(self) -> None:
        """Nothing is open."""
