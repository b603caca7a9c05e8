"""Letters as lines of JSON, to keep and to send again.

A line is an object::

    {"message_id": "...", "body": "...", "group": null, "receives": 4, "sent_at": 1750000000.0,
     "source": "arn:aws:sqs:...", "attributes": {"JobName": {"type": "String", "text": "send_email"},
                                                 "Picture": {"type": "Binary", "base64": "..."}}}
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sqs_workers.delivery import RetryPolicy, deliver
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.limits import MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES
from sqs_workers.outgoing import check_attributes, make_outgoing
from sqs_workers.redrive.letters import Letter
from sqs_workers.redriven import DEAD_LETTER_PREFIX
from sqs_workers.transport import Boto3Transport

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.messages import OutgoingMessage

__all__ = ["ImportReport", "Importer", "line_of", "message_of"]


def line_of(letter: Letter) -> str:
    """A letter as a line of JSON, without the end of the line."""
    message = letter.message
    return json.dumps(
        {
            "message_id": letter.id,
            "body": message.body,
            "group": letter.group,
            "receives": letter.receives,
            "sent_at": letter.sent_at,
            "source": letter.source_arn,
            "attributes": {
                name: _attribute(attribute) for name, attribute in message.message_attributes.items()
            },
        }
    )


def _attribute(attribute: dict[str, Any]) -> dict[str, str]:
    kind = attribute["DataType"]
    if "BinaryValue" in attribute:
        return {"type": kind, "base64": base64.b64encode(attribute["BinaryValue"]).decode()}
    return {"type": kind, "text": attribute["StringValue"]}


def message_of(
    line: str, *, fifo: bool, where: str, keep_reasons: bool = True
) -> tuple[str, OutgoingMessage]:
    """The message id in a line, and the message to send.

    :param fifo: whether it goes to a FIFO queue. Its deduplication id then follows from the message id, so
        that SQS drops the second of two imports within five minutes.
    :param where: which line it is, for errors.
    :param keep_reasons: keep the attributes that say why it was a dead letter.
    :raises ConfigurationError: the line is not one that an export wrote.
    :raises InvalidMessageError: SQS would refuse the message.
    """
    try:
        value = json.loads(line)
        message_id, body = value["message_id"], value["body"]
        attributes = {
            name: _received(attribute)
            for name, attribute in value.get("attributes", {}).items()
            if keep_reasons or not name.startswith(DEAD_LETTER_PREFIX)
        }
        group = value.get("group")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise ConfigurationError(f"{where} is no exported letter: {type(error).__name__}") from None
    if not isinstance(message_id, str) or not isinstance(body, str):
        raise ConfigurationError(f"{where} is no exported letter: message_id and body are texts")
    check_attributes(attributes, where)
    outgoing = make_outgoing(
        body,
        attributes,
        fifo=fifo,
        where=where,
        deduplication_id=f"imported-{message_id}" if fifo else None,
        group_id=group,
    )
    return message_id, outgoing


def _received(attribute: dict[str, str]) -> dict[str, Any]:
    if "base64" in attribute:
        return {
            "DataType": attribute["type"],
            "BinaryValue": base64.b64decode(attribute["base64"], validate=True),
        }
    return {"DataType": attribute["type"], "StringValue": attribute["text"]}


@dataclass
class ImportReport:
    """What became of the lines.

    :ivar sent: letters that SQS took.
    :ivar known: letters that the journal says were imported before.
    :ivar failed: message id and error code of letters that SQS did not take.
    :ivar stopped: whether it was told to end before all was sent.
    """

    sent: int = 0
    known: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    stopped: bool = False


class Importer:
    """Sends exported letters to a queue, each once.

    The message ids of letters that SQS has taken are appended to a journal with the URL of the queue, and are
    passed over by the next import with the same journal to that queue. A process killed between the answer of
    SQS and the journal sends up to ten letters twice to a standard queue; a FIFO queue drops the second within
    five minutes.

    :param url: URL of the queue.
    :param journal: path of the journal; ``None`` for none.
    """

    def __init__(self, client: Any, url: str, *, clock: Clock, journal: Path | None) -> None:
        self._transport = Boto3Transport(lambda: client)
        self._url = url
        self._clock = clock
        self._journal = journal

    def run(
        self,
        lines: Iterable[str],
        *,
        keep_reasons: bool = True,
        stop: Callable[[], bool] | None = None,
    ) -> ImportReport:
        """Read all lines, then send.

        :param stop: asked between two calls of SQS whether to end.
        :raises ConfigurationError: a line is not one that an export wrote; nothing is sent then.
        """
        fifo = self._url.endswith(".fifo")
        letters: dict[str, OutgoingMessage] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip():
                message_id, outgoing = message_of(
                    line, fifo=fifo, where=f"line {number}", keep_reasons=keep_reasons
                )
                letters.setdefault(message_id, outgoing)
        report = ImportReport()
        done = self._done()
        waiting = [(message_id, message) for message_id, message in letters.items() if message_id not in done]
        report.known = len(letters) - len(waiting)
        blocked: set[str | None] = set()
        # One at a time on a FIFO queue, where a refused letter holds back those behind it.
        size = 1 if fifo else MAX_BATCH_ENTRIES
        for chunk in _calls(waiting, size):
            if stop is not None and stop():
                report.stopped = True
                break
            self._send([entry for entry in chunk if entry[1].group_id not in blocked or not fifo], report)
            failed = {message_id for message_id, _ in report.failed}
            for message_id, message in chunk:
                if fifo and message.group_id in blocked:
                    report.failed.append((message_id, "EarlierMessageFailed"))
                elif message_id in failed:
                    blocked.add(message.group_id)
        return report

    def _done(self) -> set[str]:
        if self._journal is None or not self._journal.exists():
            return set()
        lines = self._journal.read_text(encoding="utf-8").splitlines()
        entries = [line.split(maxsplit=1) for line in lines if line.strip()]
        # A line without a queue counts for any.
        return {entry[0] for entry in entries if len(entry) == 1 or entry[1].strip() == self._url}

    def _send(self, chunk: list[tuple[str, OutgoingMessage]], report: ImportReport) -> None:
        if not chunk:
            return
        positioned = [(position, message) for position, (_, message) in enumerate(chunk)]
        failures = deliver(
            lambda messages: self._transport.send_batch(self._url, messages),
            positioned,
            clock=self._clock,
            retry=RetryPolicy(),
            queue_name=self._url,
        )
        failed = {failure.position: failure.error.code for failure in failures}
        taken = [message_id for position, (message_id, _) in enumerate(chunk) if position not in failed]
        report.failed += [(chunk[position][0], code) for position, code in failed.items()]
        report.sent += len(taken)
        if self._journal is not None and taken:
            with self._journal.open("a", encoding="utf-8") as file:
                _write(file, taken, self._url)


def _write(file: TextIO, ids: list[str], url: str) -> None:
    file.write("".join(f"{message_id} {url}\n" for message_id in ids))


def _calls(
    letters: list[tuple[str, OutgoingMessage]], size: int
) -> Iterable[list[tuple[str, OutgoingMessage]]]:
    chunk: list[tuple[str, OutgoingMessage]] = []
    total = 0
    for entry in letters:
        if chunk and (len(chunk) == size or total + entry[1].size > MAX_MESSAGE_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(entry)
        total += entry[1].size
    if chunk:
        yield chunk
