"""The stand-in for a boto3 session."""

from __future__ import annotations

from typing import Any

from sqs_workers.clock import Clock
from sqs_workers.memory_sqs.backend import MemoryAWS
from sqs_workers.memory_sqs.client import MemoryClient
from sqs_workers.memory_sqs.resource import make_resource

__all__ = ["MemorySession"]


class MemorySession:
    """SQS in the memory of this process, used like a ``boto3.Session``.

    It is no kinder than SQS: whatever SQS refuses, delays, hides, blocks,
    deduplicates or moves, this does too, with the same codes. Time is read from
    ``session.clock``, which a test moves: ``session.clock.advance(60)``.

    Clients and resources of one session share its queues; another session has
    its own. They may be used from threads.

    :param aws: an account to share with other sessions; by default a new one,
        made from the parameters that follow.
    :param clock: where the queues read the time, by default a
        :class:`~sqs_workers.clock.SteppableClock` (real time that can be advanced).
    :param region_name: the region in URLs and ARNs.
    :param account_id: the twelve digits in URLs and ARNs.
    :param endpoint_url: how queue URLs begin, by default ``https://sqs.<region>.amazonaws.com``.
    :param validate_parameters: check the types of arguments as boto3 does.
    """

    def __init__(
        self,
        aws: MemoryAWS | None = None,
        *,
        clock: Clock | None = None,
        region_name: str = "us-east-1",
        account_id: str = "123456789012",
        endpoint_url: str | None = None,
        validate_parameters: bool = True,
    ) -> None:
        if aws is None:
            aws = MemoryAWS(clock, region_name, account_id, endpoint_url)
        self.aws = aws
        self._validate_parameters = validate_parameters

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def backend(self) -> MemoryAWS:
        """The account; :meth:`MemoryAWS.call` and :meth:`MemoryAWS.receive_now` are for servers."""
        return self.aws

    @property
    def clock(self) -> Any:
        """The clock of the account. Typed loosely: only some clocks can be advanced."""
        return self.aws.clock

    @property
    def region_name(self) -> str:
        return self.aws.region_name

    def client(self, service_name: str, **kwargs: Any) -> MemoryClient:
        """A client of SQS. boto3's other arguments are accepted and make no difference.

        :raises ValueError: for another service than ``"sqs"``.
        """
        self._check_service(service_name)
        return MemoryClient(
            self.aws, config=kwargs.get("config"), validate_parameters=self._validate_parameters
        )

    def resource(self, service_name: str, **kwargs: Any) -> Any:
        """A service resource of SQS. boto3's other arguments are accepted and make no difference.

        :raises ValueError: for another service than ``"sqs"``.
        """
        return make_resource(self.client(service_name, **kwargs))

    def _check_service(self, service_name: str) -> None:
        if service_name != "sqs":
            raise ValueError(
                f"MemorySession has no service {service_name!r}, only 'sqs'. "
                "Give a client of that service to whatever needs it, or use a boto3 session."
            )
