"""Fields of the environment of which something else is made than what was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from sqs_workers.clients import BOTO3, MadeField, memory_clock, pool_of
from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.codecs import accepted_content_types, accepted_names
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport import DeferredTransport, Mode, Transport, open_transport

__all__ = [
    "ACCEPT",
    "CLIENT",
    "CLOCK",
    "RESOURCE",
    "SESSION",
    "TRANSPORT",
    "accepts_by_codec",
    "open_own_transport",
]

# Transports that an environment has opened by itself. A copy of it (dataclasses.replace) opens its own:
# they send through the clients of one environment.
_OPENED: WeakKeyDictionary[Transport, Mode] = WeakKeyDictionary()


class _ByCodec(frozenset[str]):
    """What is accepted because of the codec alone. A copy with another codec accepts other ones."""


def _write_session(env: Any, session: Any) -> None:
    vars(env)["_session"] = session


def _read_session(env: Any) -> Any:
    return pool_of(env).session()


def _write_client(env: Any, client: Any) -> None:
    pool_of(env).given_client = client
    opened = vars(env).get("_transport")
    if isinstance(opened, DeferredTransport):
        opened.choose_again()


def _read_client(env: Any) -> Any:
    return pool_of(env).client()


def _write_resource(env: Any, resource: Any) -> None:
    pool_of(env).given_resource = resource


def _read_resource(env: Any) -> Any:
    return pool_of(env).resource()


def _write_accept(env: Any, accept: Iterable[str] | None) -> None:
    if accept is None or isinstance(accept, _ByCodec):
        vars(env)["_accept"] = _ByCodec(accepted_content_types(env.codec))
    elif "settings" in vars(env):
        # Set later, by code that knows what it does: its codec may be registered later, too.
        vars(env)["_accept"] = frozenset(accept)
    else:
        vars(env)["_accept"] = accepted_names(accept)


def _read_accept(env: Any) -> frozenset[str]:
    accept: frozenset[str] = vars(env)["_accept"]
    return accept


def accepts_by_codec(env: Any) -> bool:
    """Whether nobody said what the environment accepts."""
    return isinstance(env.accept, _ByCodec)


def _write_clock(env: Any, clock: Clock | None) -> None:
    vars(env)["_clock"] = clock or memory_clock(vars(env)["_session"]) or SYSTEM_CLOCK


def _read_clock(env: Any) -> Clock:
    clock: Clock = vars(env)["_clock"]
    return clock


def _write_transport(env: Any, transport: Mode | Transport) -> None:
    if not isinstance(transport, str) and not hasattr(transport, "receive"):
        raise ConfigurationError(
            f"transport of the environment must be 'boto3', 'lean', 'auto' or an object with the methods of "
            f"sqs_workers.transport.Transport, not {transport!r}"
        )
    mode = transport if isinstance(transport, str) else _OPENED.get(transport)
    # Opened by open_own_transport(): the clock of the environment is not known yet.
    vars(env)["_transport"] = mode or transport
    if "_clock" in vars(env):
        open_own_transport(env)


def open_own_transport(env: Any) -> None:
    """Open the transport that was asked for by its name.

    :raises ConfigurationError: there is none of that name.
    """
    mode = vars(env)["_transport"]
    if isinstance(mode, str):
        opened = open_transport(
            lambda: env.session,
            mode=mode,  # type: ignore[arg-type]
            get_client=pool_of(env).client,
            clock=env.clock,
        )
        _OPENED[opened] = mode  # type: ignore[assignment]
        vars(env)["_transport"] = opened


def _read_transport(env: Any) -> Transport:
    transport: Transport = vars(env)["_transport"]
    return transport


SESSION: Any = MadeField(_write_session, _read_session, BOTO3)
CLIENT: Any = MadeField(_write_client, _read_client, None)
RESOURCE: Any = MadeField(_write_resource, _read_resource, None)
ACCEPT: MadeField[Iterable[str] | None, frozenset[str]] = MadeField(_write_accept, _read_accept, None)
CLOCK: MadeField[Clock | None, Clock] = MadeField(_write_clock, _read_clock, None)
TRANSPORT: MadeField[Mode | Transport, Transport] = MadeField(_write_transport, _read_transport, "boto3")
