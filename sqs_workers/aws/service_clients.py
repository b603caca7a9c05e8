"""boto3 clients of other services than SQS, built at first use and once a process."""

from __future__ import annotations

import os
import threading
from typing import Any

__all__ = ["ServiceClient", "region_of"]


class ServiceClient:
    """A client of one service.

    :param service: as boto3 names it: ``sns``, ``events``, ``lambda``.
    :param client: use this one.
    :param session: makes it; the boto3 module by default.
    :param region: of the client; that of the session if it is ``None``.
    """

    def __init__(
        self, service: str, *, client: Any = None, session: Any = None, region: str | None = None
    ) -> None:
        self._service = service
        self._given = client
        self._session = session
        self._region = region
        self._lock = threading.Lock()
        self._built: tuple[int, Any] | None = None

    def get(self) -> Any:
        """The client of this process."""
        if self._given is not None:
            return self._given
        built = self._built
        # A connection carried across a fork would be used by both.
        if built is None or built[0] != os.getpid():
            with self._lock:
                built = self._built
                if built is None or built[0] != os.getpid():
                    built = self._built = os.getpid(), self._build()
        return built[1]

    def _build(self) -> Any:
        session = self._session
        if session is None:
            import boto3

            session = boto3
        options = {} if self._region is None else {"region_name": self._region}
        return session.client(self._service, **options)


def region_of(arn: str) -> str | None:
    """Region of an ARN, or ``None`` if it names none."""
    parts = arn.split(":")
    return (parts[3] or None) if len(parts) >= 6 and parts[0] == "arn" else None
