"""Choosing the transport.

``SQSEnv(transport="...")`` and ``sqs-workers run --transport ...`` end here::

    self.transport = open_transport(
        lambda: self.session, mode=mode, get_client=self._clients.client, clock=self.clock
    )

``get_client`` returns the boto3 client of the calling process: made on first use, and again after a fork. It
must have been made from the session without ``verify=``, or with the ``verify`` that is passed here.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport.boto3_client import Boto3Transport
from sqs_workers.transport.forwarding import Forwarding
from sqs_workers.transport.protocol import Transport

if TYPE_CHECKING:
    from sqs_workers.transport.lean.client import LeanTransport
    from sqs_workers.transport.lean.settings import Verify

__all__ = ["DeferredTransport", "Mode", "open_transport"]

_log = logging.getLogger(__name__)

Mode = Literal["boto3", "lean", "auto"]
"""``boto3``: through the client. ``lean``: past it, or an error that says why not. ``auto``: lean if that can
honour everything about the client, else boto3."""


def open_transport(
    get_session: Callable[[], Any],
    *,
    mode: Mode = "boto3",
    get_client: Callable[[], Any],
    verify: Verify | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Transport:
    """The transport for the queues of one session. Nothing is asked of the session before the first request.

    :param get_session: returns the boto3 session, or the module ``boto3``; asked for its CA bundle.
    :param mode: see :data:`Mode`.
    :param get_client: returns the SQS client of this process.
    :param verify: which certificates to trust if the clients were made with that argument; ``None`` asks
        the environment and the profile, as a client made without it does.
    :param clock: for receive times and for the lean transport's signatures and waiting.
    :raises ConfigurationError: ``mode`` is unknown. At the first request or when a worker starts, if ``mode``
        is ``lean``: the client has something that only boto3 honours.
    """
    if mode not in get_args(Mode):
        raise ConfigurationError(f"unknown transport {mode!r}: it is one of {', '.join(get_args(Mode))}")
    through_boto3 = Boto3Transport(get_client, monotonic=clock.monotonic)
    if mode == "boto3":
        return through_boto3

    def find_verify() -> Verify:
        from sqs_workers.transport.lean.settings import session_verify

        return session_verify(get_session()) if verify is None else verify

    def choose() -> Boto3Transport | LeanTransport:
        # Here, because most programs use boto3, which has a network stack of its own to load.
        from sqs_workers.transport.lean.client import LeanTransport

        try:
            return LeanTransport(get_client, verify=find_verify, clock=clock)
        except ConfigurationError as error:
            if mode == "lean":
                raise
            _log.info("requests to SQS go through boto3: %s", error)
            return through_boto3

    return DeferredTransport(choose)


class DeferredTransport(Forwarding):
    """A transport that is chosen at the first request.

    An environment is often declared when a module is imported: before the region is known, and before a test
    has started its mock.

    :param choose: returns the transport; called again after it has raised.
    """

    def __init__(self, choose: Callable[[], Boto3Transport | LeanTransport]) -> None:
        self._choose = choose
        self._chosen: Boto3Transport | LeanTransport | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def beneath(self) -> Boto3Transport | LeanTransport:
        """The same as :attr:`chosen`."""
        return self.chosen

    @property
    def chosen(self) -> Boto3Transport | LeanTransport:
        """The transport that carries the requests.

        :raises ConfigurationError: there is none.
        """
        chosen = self._chosen
        if chosen is None:
            if os.getpid() != self._pid:
                # A thread of the other process may have held the lock when this one was forked.
                self._lock, self._pid = threading.Lock(), os.getpid()
            with self._lock:
                chosen = self._chosen
                if chosen is None:
                    chosen = self._chosen = self._choose()
        return chosen

    def open(self) -> None:
        """Choose now, so that a refusal comes before any work.

        :raises ConfigurationError: there is none that may be chosen.
        """
        _ = self.chosen

    def choose_again(self) -> None:
        """Forget the choice: the client is another one now. Calls under way end as they began."""
        self.close()
        self._chosen = None

    def close(self) -> None:
        """Close idle connections of a lean transport; a client's are the client's."""
        close = getattr(self._chosen, "close", None)
        if close is not None:
            close()
