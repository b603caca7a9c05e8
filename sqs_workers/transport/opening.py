"""Choosing the transport.

``SQSEnv(transport=...)`` and ``sqs-workers run --transport`` end here::

    transport = open_transport(session, mode=mode, get_client=env.get_client)

``session`` is a boto3 session, or the module ``boto3`` itself; ``get_client`` returns the boto3 client of the
calling process, made on first use and again after a fork. It must be a client that was made from ``session``
without ``verify=``, or with the ``verify`` that is passed here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport.boto3_client import Boto3Transport
from sqs_workers.transport.protocol import Transport

if TYPE_CHECKING:
    from sqs_workers.transport.lean.settings import Verify

__all__ = ["Mode", "open_transport"]

_log = logging.getLogger(__name__)

Mode = Literal["boto3", "lean", "auto"]
"""``boto3``: through the client. ``lean``: past it, or an error that says why not. ``auto``: lean if that can
honour everything about the client, else boto3."""


def open_transport(
    session: Any,
    *,
    mode: Mode = "boto3",
    get_client: Callable[[], Any],
    verify: Verify | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Transport:
    """The transport for the queues of one session.

    :param session: where the clients come from; asked for its CA bundle.
    :param mode: see :data:`Mode`. The default makes no client before the first request.
    :param get_client: returns the SQS client of this process.
    :param verify: which certificates to trust if the clients were made with that argument; ``None`` asks
        the environment and the profile, as a client made without it does.
    :param clock: for receive times and for the lean transport's signatures and waiting.
    :raises ConfigurationError: ``mode`` is unknown, or it is ``lean`` and the client has something that only
        boto3 honours.
    """
    if mode not in get_args(Mode):
        raise ConfigurationError(f"unknown transport {mode!r}: it is one of {', '.join(get_args(Mode))}")
    if mode == "boto3":
        return Boto3Transport(get_client, monotonic=clock.monotonic)
    # Here, because most programs use boto3, which has a network stack of its own to load.
    from sqs_workers.transport.lean.client import LeanTransport
    from sqs_workers.transport.lean.settings import session_verify

    def find_verify() -> Verify:
        return session_verify(session) if verify is None else verify

    try:
        return LeanTransport(get_client, verify=find_verify, clock=clock)
    except ConfigurationError as error:
        if mode == "lean":
            raise
        _log.info("requests to SQS go through boto3: %s", error)
        return Boto3Transport(get_client, monotonic=clock.monotonic)
