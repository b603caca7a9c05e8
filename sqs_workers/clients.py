"""boto3 clients, built at first use and once a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakSet

from sqs_workers.clock import Clock

__all__ = ["BOTO3", "ClientPool", "memory_clock"]

CONNECTIONS = 64
"""Connections that one client keeps open: a worker's jobs, receives and acknowledgements share them."""

CONNECT_TIMEOUT = 10
READ_TIMEOUT = 40
"""Seconds; above the 20 of a long poll, with room for a slow answer."""


class ClientPool:
    """The client and the resource of an environment.

    Both are built under a lock when they are first asked for. One client serves all threads. A forked process
    gets new ones, unless they were given.

    :param get_session: answers with the boto3 session, or whatever has ``client`` and ``resource``.
    :param retries: botocore's retry configuration: ``max_attempts`` and ``mode``.
    :param client: use this client.
    :param resource: use this resource.
    """

    def __init__(
        self,
        get_session: Callable[[], Any],
        retries: dict[str, Any],
        *,
        client: Any = None,
        resource: Any = None,
    ) -> None:
        self._get_session = get_session
        self._retries: Any = retries
        self.given_client = client
        self.given_resource = resource
        self._after_fork()
        _POOLS.add(self)

    def _after_fork(self) -> None:
        # The lock may have been held by a thread that does not exist in the child.
        self._lock = threading.RLock()
        self._client: Any = None
        self._resource: Any = None

    def client(self) -> Any:
        """The client of this process."""
        if self.given_client is not None:
            return self.given_client
        client = self._client
        if client is None:
            with self._lock:
                if self._client is None:
                    self._client = self._build_client()
                client = self._client
        return client

    def resource(self) -> Any:
        """The service resource of this process."""
        if self.given_resource is not None:
            return self.given_resource
        resource = self._resource
        if resource is None:
            with self._lock:
                if self._resource is None:
                    self._resource = self._build_resource()
                resource = self._resource
        return resource

    def _build_client(self) -> Any:
        if self.given_resource is not None:
            # Whoever gives a resource alone means its endpoint and credentials for everything.
            return self.given_resource.meta.client
        session = self._get_session()
        if memory_clock(session) is not None:
            return session.client("sqs")
        # The library checks what it sends itself; botocore's check costs a fifth of a call.
        return session.client("sqs", config=self._config(parameter_validation=False))

    def _build_resource(self) -> Any:
        session = self._get_session()
        if memory_clock(session) is not None:
            return session.resource("sqs")
        client_meta = getattr(self.given_client, "meta", None)
        if client_meta is None:
            return session.resource("sqs", config=self._config())
        resource = session.resource(
            "sqs",
            config=self._config(),
            region_name=client_meta.region_name,
            endpoint_url=client_meta.endpoint_url,
        )
        # Not only its endpoint: its credentials, event handlers and stubs, too.
        resource.meta.client = self.given_client
        return resource

    def _config(self, **options: Any) -> Any:
        from botocore.config import Config

        return Config(
            retries=self._retries,
            max_pool_connections=CONNECTIONS,
            tcp_keepalive=True,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            **options,
        )


def memory_clock(session: Any) -> Clock | None:
    """The clock of a ``MemorySession``; ``None`` for other sessions."""
    clock = getattr(session, "clock", None)
    # By its class: a mock has whatever it is asked for.
    if clock is not None and all(hasattr(type(clock), name) for name in ("monotonic", "time", "wait")):
        return cast("Clock", clock)
    return None


class _Boto3:
    """Stands for the boto3 module until somebody asks for it: importing it takes half a second."""

    def __repr__(self) -> str:
        return "boto3"


BOTO3: Any = _Boto3()


_POOLS: WeakSet[ClientPool] = WeakSet()


def _forget_clients() -> None:
    for pool in list(_POOLS):
        pool._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_clients)
