"""Sending claimed rows, batch by batch, and what each answer of SQS means for its row."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqs_workers.delays import timely
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage
from sqs_workers.sql.rows import OutboxRow, Postponed, Refused, RowResult, Sent
from sqs_workers.transport.errors import ErrorKind, classify, classify_code, error_code
from sqs_workers.transport.protocol import EntryError, Transport

__all__ = ["Dispatch", "Trouble", "retry_delay"]

MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the relay had better wait before it goes on."""

    queue_name: str
    kind: str
    code: str


@dataclass
class Dispatch:
    """Sends the rows of one claim.

    :param now: answers with seconds since the Unix epoch.
    :ivar pack_groups: let a call carry several messages of a group.
    :ivar results: id of the row -> result; rows that were not tried have none.
    :ivar trouble: what concerns more than one row, or ``None``.
    """

    transport: Transport
    resolve_url: Callable[[str], str]
    now: Callable[[], float]
    results: dict[int, RowResult] = field(default_factory=dict)
    trouble: Trouble | None = None
    pack_groups: bool = False

    def send(self, rows: Sequence[OutboxRow]) -> None:
        """Send ``rows``, those of one queue after those of another."""
        by_queue: dict[str, list[OutboxRow]] = {}
        for row in rows:
            by_queue.setdefault(row.queue_name, []).append(row)
        for queue_name, queue_rows in by_queue.items():
            url = self._url(queue_name, queue_rows)
            if url is not None:
                self._send_to(url, queue_rows)

    def _url(self, queue_name: str, rows: Sequence[OutboxRow]) -> str | None:
        try:
            return self.resolve_url(queue_name)
        except (QueueNotFoundError, ConfigurationError) as error:
            reason = f"{type(error).__name__}: no queue {queue_name!r}{_hint(queue_name)}"
            for row in rows:
                self.results[row.id] = Refused(reason[:MAX_REASON])
        except Exception as error:  # noqa: BLE001 - a row must never end the relay
            self._call_failed(rows, error)
        return None

    def _send_to(self, url: str, rows: Sequence[OutboxRow]) -> None:
        batches = _Batches(rows, fifo=url.endswith(".fifo"), pack_groups=self.pack_groups)
        for batch in batches:
            failed_groups = self._send_batch(url, batch)
            if failed_groups is None:
                return
            batches.hold_back(failed_groups)

    def _send_batch(self, url: str, batch: Sequence[OutboxRow]) -> set[tuple[str, str]] | None:
        """Groups that must wait for their failed message, or ``None`` if the queue takes nothing now."""
        messages = [timely(_outgoing(row, url), self.now()) for row in batch]
        try:
            answers = self.transport.send_batch(url, messages)
        except Exception as error:  # noqa: BLE001 - a row must never end the relay
            if classify(error) is ErrorKind.INVALID and len(batch) > 1:
                # One entry can spoil the whole request: find it.
                return self._send_singly(url, batch)
            self._call_failed(batch, error)
            refused = isinstance(self.results[batch[0].id], Refused)
            return set() if refused and len(batch) == 1 else None
        failed: set[tuple[str, str]] = set()
        for row, answer in zip(batch, answers, strict=True):
            if answer.message_id is not None:
                self.results[row.id] = Sent(answer.message_id)
                continue
            result = self._entry_failed(row, answer.error or EntryError("Unknown"))
            self.results[row.id] = result
            if isinstance(result, Postponed) and row.order_key is not None:
                failed.add(row.order_key)
        return failed

    def _send_singly(self, url: str, batch: Sequence[OutboxRow]) -> set[tuple[str, str]] | None:
        failed: set[tuple[str, str]] = set()
        for row in batch:
            groups = self._send_batch(url, [row])
            if groups is None:
                return None
            failed |= groups
        return failed

    def _entry_failed(self, row: OutboxRow, error: EntryError) -> RowResult:
        kind = classify_code(error.code)
        reason = f"{error.code}: {error.message}"[:MAX_REASON]
        hopeless = kind in (ErrorKind.INVALID, ErrorKind.MISSING)
        if hopeless or (error.sender_fault and kind is ErrorKind.OTHER):
            return Refused(reason)
        if kind.temporary:
            self.trouble = Trouble(row.queue_name, kind.value, error.code)
        return Postponed(retry_delay(row.attempts), reason)

    def _call_failed(self, rows: Sequence[OutboxRow], error: Exception) -> None:
        kind, code = classify(error), error_code(error)
        reason = _words(error, code)
        for row in rows:
            if kind in (ErrorKind.INVALID, ErrorKind.MISSING):
                self.results[row.id] = Refused(reason)
            else:
                self.results[row.id] = Postponed(retry_delay(row.attempts), reason)
        if kind.temporary:
            self.trouble = Trouble(rows[0].queue_name, kind.value, code)


class _Batches:
    """Batches that SQS takes: 10 entries, 1 MiB.

    In a FIFO queue a batch has one message of a group at most, unless told otherwise: entries fail singly, and
    one behind a failed entry would overtake it.
    """

    def __init__(self, rows: Sequence[OutboxRow], *, fifo: bool, pack_groups: bool) -> None:
        self._waiting = deque(rows)
        self._fifo = fifo
        self._pack_groups = pack_groups
        self._held_back: set[tuple[str, str]] = set()

    def hold_back(self, groups: set[tuple[str, str]]) -> None:
        """Send nothing more of ``groups``."""
        self._held_back |= groups

    def __iter__(self) -> Iterator[list[OutboxRow]]:
        while True:
            batch = self._next()
            if not batch:
                return
            yield batch

    def _next(self) -> list[OutboxRow]:
        batch: list[OutboxRow] = []
        size = 0
        full: set[tuple[str, str]] = set()
        later: deque[OutboxRow] = deque()
        while self._waiting:
            row = self._waiting.popleft()
            key = row.order_key if self._fifo else None
            if key is not None and key in self._held_back:
                continue
            fits = len(batch) < MAX_BATCH_ENTRIES and size + row.message.size <= MAX_MESSAGE_BYTES
            taken = key not in full and (fits or not batch)
            if taken:
                batch.append(row)
                size += row.message.size
            else:
                later.append(row)
            if key is not None and not (taken and self._pack_groups):
                full.add(key)
        self._waiting = later
        return batch


def retry_delay(attempts: int) -> float:
    """Seconds before the next try of a row: from about 1 to about 300, spread."""
    return random.uniform(0.5, 1.0) * min(2.0 ** min(attempts + 1, 9), 300.0)  # noqa: S311


def _outgoing(row: OutboxRow, url: str) -> OutgoingMessage:
    if url.endswith(".fifo") and row.message.deduplication_id is None:
        # SQS itself then drops what is sent again within 5 minutes, and keeps two equal jobs apart.
        return replace(row.message, deduplication_id=row.outbox_id)
    return row.message


def _hint(name: str) -> str:
    elsewhere = name.startswith(("arn:", "event-bus:"))
    return ": topics and buses need Relay(outbox, with_events(env))" if elsewhere else ""


def _words(error: Exception, code: str) -> str:
    """SQS's own words; those of anybody else may quote the message."""
    response = getattr(error, "response", None)
    text = response.get("Error", {}).get("Message", "") if isinstance(response, dict) else ""
    return f"{code}: {text}"[:MAX_REASON] if text else code
