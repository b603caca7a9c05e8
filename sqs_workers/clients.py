"""boto3 clients, built at first use and once a process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast
from weakref import WeakSet

from sqs_workers.clock import Clock

__all__ = ["BOTO3", "ClientPool", "MadeField", "memory_clock", "pool_of"]

CONNECTIONS = 64
"""Connections that one client keeps open: a worker's jobs, receives and acknowledgements share them."""

CONNECT_TIMEOUT = 10
READ_TIMEOUT = 40
"""Seconds; above the 20 of a long poll, with room for a slow answer."""


GivenT = TypeVar("GivenT")
MadeT = TypeVar("MadeT")


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
        retries: dict[str, Any] | None = None,
        *,
        client: Any = None,
        resource: Any = None,
    ) -> None:
        self._get_session = get_session
        self.retries: Any = retries
        self.given_client = client
        self.given_resource = resource
        self._judged: tuple[Any, Any] | None = None
        self._stand_in: Any = None
        self._after_fork()
        _POOLS.add(self)

    def _after_fork(self) -> None:
        # The lock may have been held by a thread that does not exist in the child.
        self._lock = threading.RLock()
        self._client: Any = None
        self._resource: Any = None

    def session(self) -> Any:
        """The session; the boto3 module if none was given."""
        session = self._get_session()
        if session is BOTO3:
            import boto3

            return boto3
        return session

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

    def stand_in(self) -> Any:
        """The resource, if it is none of boto3's but a mock or another class of the user's; else ``None``.

        Calls of queues go through it then: unit tests look at it for what was sent.
        """
        session = self._get_session()
        given = self.given_resource
        judged = self._judged
        if judged is None or judged[0] is not given or judged[1] is not session:
            resource = given
            if given is None and _may_stand_in(session):
                resource = self.resource()
            self._stand_in = None if resource is None or _is_boto3_resource(resource) else resource
            self._judged = given, session
        return self._stand_in

    def _build_client(self) -> Any:
        if hasattr(type(self.given_resource), "meta"):
            # Whoever gives a resource alone means its endpoint and credentials for everything.
            return self.given_resource.meta.client
        session = self.session()
        if memory_clock(session) is not None:
            return session.client("sqs")
        # The library checks what it sends itself; botocore's check costs a fifth of a call.
        return session.client("sqs", config=self._config(parameter_validation=False))

    def _build_resource(self) -> Any:
        session = self.session()
        if memory_clock(session) is not None:
            return session.resource("sqs")
        client_meta = getattr(self.given_client, "meta", None)
        if client_meta is None:
            resource = session.resource("sqs", config=self._config())
            if _is_boto3_resource(resource) and self.given_client is None:
                # One client for both: whoever hooks into or stubs one of them sees every call.
                resource.meta.client = self.client()
            return resource
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
            retries=self.retries,
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


def _is_boto3_resource(resource: Any) -> bool:
    base = sys.modules.get("boto3.resources.base")
    return base is not None and isinstance(resource, base.ServiceResource)


def _may_stand_in(session: Any) -> bool:
    """Whether a session is neither boto3's nor a ``MemorySession``, and has resources."""
    if session is BOTO3 or session is sys.modules.get("boto3") or memory_clock(session) is not None:
        return False
    base = sys.modules.get("boto3.session")
    return not (base is not None and isinstance(session, base.Session)) and hasattr(session, "resource")


def pool_of(env: Any) -> ClientPool:
    """The clients of an environment. Made by the first of its fields that is set."""
    pool = vars(env).get("_clients")
    if pool is None:
        pool = vars(env)["_clients"] = ClientPool(lambda: vars(env)["_session"])
    return cast("ClientPool", pool)


class MadeField(Generic[GivenT, MadeT]):
    """A field of the environment's dataclass of which something else is made than what was given.

    :param write: keeps what was given.
    :param read: answers with what is made of it; called at each reading.
    :param default: of the parameter.
    """

    def __init__(
        self, write: Callable[[Any, GivenT], None], read: Callable[[Any], MadeT], default: GivenT
    ) -> None:
        self._write, self._read, self._default = write, read, default

    def __get__(self, env: Any, owner: Any = None) -> MadeT:
        # Dataclasses ask the class itself, for the default of the parameter.
        return self._default if env is None else self._read(env)  # type: ignore[return-value]

    def __set__(self, env: Any, value: GivenT) -> None:
        self._write(env, value)


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
