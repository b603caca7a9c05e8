"""The relay: sends what transactions have left in the outbox."""

from __future__ import annotations

import logging
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from typing_extensions import assert_never

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import HookRegistry
from sqs_workers.sql import faults
from sqs_workers.sql.claims import Claim, Claims, make_claims
from sqs_workers.sql.dispatch import Dispatch, Trouble
from sqs_workers.sql.errors import classify, describe, is_temporary, translate, translated
from sqs_workers.sql.events import OutboxRefused, OutboxSent, RelayPaused
from sqs_workers.sql.outbox import Outbox
from sqs_workers.sql.rows import OutboxRow, Postponed, Refused, RowResult, Sent
from sqs_workers.sql.sqla import sa
from sqs_workers.sql.wakers import Waker, make_waker
from sqs_workers.transport.protocol import Transport

__all__ = ["Relay"]

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0


class Relay:
    """Sends the messages of an outbox to SQS, at least once and in the order of each FIFO group.

    Start as many as you like, in threads, processes or machines. A relay that dies between SQS's answer and
    its own commit has the messages sent once more. While it works it has one connection beside the engine's
    pool, and on PostgreSQL a second one that listens.

    :param outbox: made with a synchronous engine.
    :param env: an :class:`~sqs_workers.sqs_env.SQSEnv`: has a ``transport``, a method
        ``resolve_queue_url(name)`` and ``hooks``. Or give what follows.
    :param transport: sends.
    :param resolve_url: answers with the URL of a queue by the name that the job was stored under; answers are
        kept.
    :param batch: rows of one claim, 10 by default: a call to SQS takes 10.
    :param min_poll: seconds between looks at the table while there is work, 0.1 by default.
    :param max_poll: seconds between looks while there has been none for long, 5 by default. On PostgreSQL
        with psycopg a commit that stored a job ends the waiting.
    :param lease: seconds for which rows are held where the database has no ``SKIP LOCKED`` (SQLite, MySQL
        5.7); must be longer than 10 calls to SQS may take; 120 by default.
    :param pack_groups: on a FIFO queue, let a call carry several messages of a group, as in
        :meth:`~sqs_workers.queue.GenericQueue.add_batch`: up to ten times fewer calls for a single group, and
        its order given up where SQS takes some entries of a call and refuses others. ``False`` by default.
    :param hooks: gets ``OutboxSent``, ``OutboxRefused`` and ``RelayPaused``.
    :raises ConfigurationError: there is no engine, no transport, or a value is out of range.
    """

    def __init__(
        self,
        outbox: Outbox,
        env: Any = None,
        *,
        transport: Transport | None = None,
        resolve_url: Callable[[str], str] | None = None,
        batch: int = 10,
        min_poll: float = 0.1,
        max_poll: float = 5.0,
        lease: float = 120.0,
        pack_groups: bool = False,
        hooks: HookRegistry | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(outbox.engine, sa.Engine):
            raise ConfigurationError("a relay needs an outbox made with a synchronous SQLAlchemy engine")
        chosen = transport if transport is not None else getattr(env, "transport", None)
        resolve = resolve_url if resolve_url is not None else getattr(env, "resolve_queue_url", None)
        if chosen is None or resolve is None:
            raise ConfigurationError("a relay needs an env, or transport= and resolve_url=")
        if not 1 <= batch <= 1000 or not 0 < min_poll <= max_poll or lease <= 0:
            raise ConfigurationError(
                f"batch must be 1 to 1000, 0 < min_poll <= max_poll, lease above 0; not {batch!r}, "
                f"{min_poll!r}, {max_poll!r}, {lease!r}"
            )
        self.hooks = hooks or getattr(env, "hooks", None) or HookRegistry()
        self._transport: Transport = chosen
        self._resolve_url: Callable[[str], str] = resolve
        self._urls: dict[str, str] = {}
        self._outbox = outbox
        self._engine = outbox.engine
        self._batch = batch
        self._min_poll = min_poll
        self._max_poll = max_poll
        self._lease = lease
        self._pack_groups = pack_groups
        self._clock = clock
        self._claims: Claims | None = None
        self._waker: Waker | None = None
        self._stopping = threading.Event()

    def __repr__(self) -> str:
        return f"<Relay {self._outbox!r}>"

    def run(self, *, handle_signals: bool = True) -> None:
        """Send until :meth:`stop`, SIGTERM or SIGINT. What is being sent is finished first.

        :param handle_signals: end at SIGTERM and SIGINT, if this is the main thread.
        :raises DatabaseError: the database refused for a reason that waiting does not cure, for instance a
            missing table: run ``create_tables``.
        """
        idle, pauses = self._min_poll, 0
        with self._signals(handle_signals):
            try:
                while not self._stopping.is_set():
                    try:
                        self._prepare_waker()
                        claimed, trouble = self._step()
                    except Exception as error:  # noqa: BLE001 - raised again unless it is temporary
                        claimed, trouble = 0, self._database_trouble(error)
                    if trouble is not None:
                        pauses += 1
                        self._pause(trouble, pauses)
                        continue
                    pauses = 0
                    if claimed or self._wait(idle):
                        idle = self._min_poll
                    else:
                        idle = min(idle * 2, self._max_poll)
            finally:
                self.close()

    def run_once(self) -> int:
        """Claim and send one batch in the calling thread; returns how many rows were claimed.

        It keeps its connection for the next call, until :meth:`close`.

        :raises DatabaseError: the database failed; rows stay as they were.
        """
        with translated(f"the relay of {self._outbox!r}"):
            try:
                claimed, _ = self._step()
            except BaseException:
                self._drop_claims()
                raise
        return claimed

    def drain(self) -> int:
        """:meth:`run_once` until nothing is due; returns how many rows were claimed."""
        total = 0
        try:
            while claimed := self.run_once():
                total += claimed
        finally:
            self._drop_claims()
        return total

    def stop(self) -> None:
        """End :meth:`run` after what is being sent. Safe in signal handlers and from other threads."""
        self._stopping.set()
        waker = self._waker
        if waker is not None:
            waker.wake()

    def close(self) -> None:
        """Give back connections; :meth:`run` does so at its end."""
        self._drop_claims()
        waker, self._waker = self._waker, None
        if waker is not None:
            waker.close()

    def _step(self) -> tuple[int, Trouble | None]:
        if self._claims is None:
            self._claims = make_claims(
                self._engine, self._outbox.table, self._clock, size=self._batch, lease=self._lease
            )
        with self._claims.open() as claim:
            dispatch = self._send(claim)
        for row in claim.rows:
            result = claim.results.get(row.id)
            if result is not None:
                self._report(row, result)
        return len(claim.rows), dispatch.trouble

    def _send(self, claim: Claim) -> Dispatch:
        dispatch = Dispatch(
            self._transport, self._url, self._clock.time, claim.results, pack_groups=self._pack_groups
        )
        if claim.rows:
            faults.BEFORE_SEND.reach()
            dispatch.send(claim.rows)
            faults.AFTER_SEND.reach()
        return dispatch

    def _url(self, queue_name: str) -> str:
        url = self._urls.get(queue_name)
        if url is None:
            url = self._urls[queue_name] = self._resolve_url(queue_name)
        return url

    def _report(self, row: OutboxRow, result: RowResult) -> None:
        fields = {"queue_name": row.queue_name, "job_name": row.message.job_name, "outbox_id": row.outbox_id}
        match result:
            case Sent(message_id):
                if self.hooks.wants(OutboxSent):
                    now = datetime.fromtimestamp(self._clock.time(), timezone.utc)
                    waited = max((now - row.created_at).total_seconds(), 0.0)
                    self.hooks.emit(OutboxSent(message_id=message_id, waited=waited, **fields))
            case Refused(reason):
                logger.error(
                    "Message %s for queue %r cannot be sent and is set aside: %s",
                    row.outbox_id,
                    row.queue_name,
                    reason,
                    extra=fields,
                )
                if self.hooks.wants(OutboxRefused):
                    self.hooks.emit(OutboxRefused(reason=reason, **fields))
            case Postponed(delay, reason):
                logger.warning(
                    "Message %s for queue %r is tried again in %.0f s: %s",
                    row.outbox_id,
                    row.queue_name,
                    delay,
                    reason,
                    extra=fields,
                )
            case _:
                assert_never(result)

    def _database_trouble(self, error: Exception) -> Trouble:
        self._drop_claims()
        if not is_temporary(error):
            raise translate(error, f"the relay of {self._outbox!r}") from None
        return Trouble("", classify(error).value, " ".join(describe(error)))

    def _drop_claims(self) -> None:
        claims, self._claims = self._claims, None
        if claims is not None:
            claims.close()

    def _pause(self, trouble: Trouble, pauses: int) -> None:
        longest = min(FIRST_PAUSE * 2 ** min(pauses, 10), LONGEST_PAUSE)
        delay = random.uniform(longest / 2, longest)  # noqa: S311
        logger.warning(
            "Relay waits %.1f s: %s %s (%s)",
            delay,
            f"queue {trouble.queue_name!r}" if trouble.queue_name else "database",
            trouble.code,
            trouble.kind,
            extra={"queue_name": trouble.queue_name},
        )
        if self.hooks.wants(RelayPaused):
            self.hooks.emit(RelayPaused(queue_name=trouble.queue_name, kind=trouble.kind, delay=delay))
        deadline = self._clock.monotonic() + delay
        while not self._stopping.is_set():
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                return
            self._wait(remaining)

    def _prepare_waker(self) -> None:
        if self._waker is None:
            # Before the first look at the table, so that no notification is missed in between.
            self._waker = make_waker(
                self._engine, self._outbox.channel, self._clock, listen=self._outbox.notify
            )

    def _wait(self, timeout: float) -> bool:
        if self._waker is None or self._stopping.is_set():
            return False
        return self._waker.wait(timeout)

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        if not wanted or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {
            number: signal.signal(number, lambda *_: self.stop())
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
