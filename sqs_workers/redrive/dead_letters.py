"""A dead-letter queue as its operator sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import Self

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError, SQSError, UndecodableMessageError
from sqs_workers.limits import MAX_ATTRIBUTES
from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.outgoing import check_size, check_text, make_outgoing
from sqs_workers.redrive.audit import AuditLog
from sqs_workers.redrive.finding import SourceQueue, source_queues
from sqs_workers.redrive.holding import Hold
from sqs_workers.redrive.letters import Letter, Where
from sqs_workers.redrive.lines import Importer, ImportReport, line_of
from sqs_workers.redrive.moving import MoveTask, cancel_move, follow_move, move_tasks, start_move
from sqs_workers.redrive.redriving import Plan, Redrive, RedriveReport
from sqs_workers.redriven import sendable_attributes
from sqs_workers.s3_payload import is_marked, read_pointer

__all__ = ["DeadLetters", "Discarded", "Sample"]


@dataclass(frozen=True)
class Sample:
    """Letters that were looked at.

    :ivar letters: the letters. Their receipts are used up.
    :ivar groups: how many there are of each job, reason and error.
    """

    letters: tuple[Letter, ...]
    groups: Counter[tuple[str, str, str]] = field(default_factory=Counter)


@dataclass
class Discarded:
    """What became of letters that were to be discarded.

    :ivar ids: message ids of those that are gone.
    :ivar left: message ids of those that could not be deleted.
    """

    ids: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class DeadLetters:
    """Looks at the messages of a dead-letter queue, sends them back, repairs, keeps and discards them.

    ::

        letters = DeadLetters.of(sqs.queue("emails_dead"))
        report = letters.redrive(first=5, rate=10, where=Where(job="send_email"))

    SQS shows a message only by handing it out. Each look therefore counts as a receive, hides the messages
    from others for as long as it takes, and on a FIFO queue blocks their groups. What is not sent or deleted
    is visible again when a method returns, also when it raises; after a kill, within ``visibility`` seconds.

    :param client: boto3's SQS client.
    :param url: URL of the dead-letter queue.
    :param clock: for waits.
    :param visibility: seconds for which letters in hand are hidden; extended while they are needed.
    :param wait_seconds: 0 to 20, of long polling until the queue counts as empty. With 0, SQS looks on a part
        of its servers only, and letters are missed.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        visibility: int = 120,
        wait_seconds: int = 1,
    ) -> None:
        self.client = client
        self.url = url
        self._clock = clock
        self._visibility = visibility
        self._wait_seconds = wait_seconds

    @classmethod
    def of(cls, queue: Any, **options: Any) -> Self:
        """The letters of a queue of an environment: ``DeadLetters.of(sqs.queue("emails_dead"))``."""
        if not hasattr(queue, "env"):
            raise ConfigurationError(f'DeadLetters.of() takes a queue, sqs.queue("name"), not {queue!r:.80}')
        options.setdefault("clock", queue.env.clock)
        return cls(queue.env.sqs_client, queue.url, **options)

    def sources(self) -> tuple[SourceQueue, ...]:
        """The queues that SQS moves messages here from."""
        return source_queues(self.client, self.url)

    # Looking

    def sample(self, count: int = 50, where: Where | None = None) -> Sample:
        """Look at up to ``count`` letters that match, and release them.

        With a condition, looks at 1,000, or at ten times as many, at most.
        """
        wanted = where or Where()
        found: list[Letter] = []
        with self._hold() as hold:
            for letter in hold.scan(count if wanted.everything else max(1000, count * 10)):
                if wanted.matches(letter):
                    found.append(letter)
                if len(found) >= count:
                    break
        groups = Counter((letter.job, letter.reason, letter.error) for letter in found)
        return Sample(tuple(found), groups)

    def export(self, where: Where | None = None, limit: int | None = None) -> Iterator[str]:
        """Lines of JSON, one a letter; see :mod:`sqs_workers.redrive.lines`. The letters stay."""
        wanted, count = where or Where(), 0
        with self._hold() as hold:
            for letter in hold.scan(_ALL):
                if wanted.matches(letter):
                    yield line_of(letter)
                    count += 1
                if count == limit:
                    return

    def import_lines(
        self,
        lines: Iterable[str],
        *,
        to: str | None = None,
        journal: Path | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> ImportReport:
        """Send exported letters here, or to the queue at the URL ``to``, where they are no dead letters.

        :param journal: file of what was imported where; the next import to the same queue passes those letters
            over.
        :param stop: asked between two calls of SQS whether to end.
        :raises ConfigurationError: a line is not one that an export wrote; nothing is sent then.
        """
        importer = Importer(self.client, to or self.url, clock=self._clock, journal=journal)
        return importer.run(lines, keep_reasons=to is None, stop=stop)

    # Sending back

    def redrive(
        self,
        plan: Plan | None = None,
        *,
        progress: Callable[[str], None] | None = None,
        stop: Callable[[], bool] | None = None,
        **options: Any,
    ) -> RedriveReport:
        """Send letters back, each deleted here when its queue has taken it.

        A FIFO queue keeps groups and their order. A letter in hand when the process is killed may go back
        twice; none is lost.

        :param plan: how; or give the fields of :class:`Plan` as ``options``.
        :param progress: called with a line for people now and then.
        :param stop: asked between two calls of SQS whether to end; those under way are finished. An exception
            instead, such as ``KeyboardInterrupt``, may interrupt a call whose letters then are in both queues.
        :raises ConfigurationError: an option out of range, or a letter that may be from several queues.
        """
        run = Redrive(
            self.client,
            self.url,
            plan or Plan(**options),
            clock=self._clock,
            sources=self.sources(),
            hold=self._hold(),
            progress=progress,
            stop=stop,
        )
        return run.run()

    def start_move(self, *, to: str | None = None, rate: int | None = None) -> str:
        """Let SQS move all letters by a task; see :func:`sqs_workers.redrive.moving.start_move`."""
        return start_move(self.client, self.url, to=to, rate=rate)

    def moves(self) -> list[MoveTask]:
        """The last tasks, the newest first."""
        return move_tasks(self.client, self.url)

    def cancel_move(self) -> int:
        """End the running task; returns how many messages it has moved.

        :raises SQSError: no task runs.
        """
        return cancel_move(self.client, self.url)

    def follow_move(self, progress: Callable[[MoveTask], None] | None = None) -> MoveTask:
        """Wait for the end of the newest task, and cancel it if letters come back.

        :raises SQSError: there is no task.
        """
        return follow_move(self.client, self.url, clock=self._clock, progress=progress)

    # Repairing and discarding

    def edit(
        self,
        message_id: str,
        change: Callable[[Letter], str | None],
        *,
        reason: str,
        audit: AuditLog | None = None,
        to: str | None = None,
    ) -> str | None:
        """Replace the body of a letter: a new message is sent, then the old one is deleted.

        Attributes and group are kept. On a FIFO queue the new message stands at the end of its group.

        :param message_id: of the letter, here or in the queue that it failed in.
        :param change: called with the letter for its new body; ``None`` leaves it as it is.
        :param reason: for the audit log.
        :param to: URL of the queue that the new message goes to; by default it stays here.
        :returns: the id of the new message; ``None`` if nothing was changed.
        :raises SQSError: there is no such letter, or the new message was sent and the old could not be
            deleted.
        :raises InvalidMessageError: SQS would refuse the new body.
        """
        log = audit or AuditLog(clock=self._clock)
        with self._hold() as hold:
            letter = next(
                (found for found in hold.scan(_ALL) if message_id in (found.id, found.original_id)), None
            )
            if letter is None:
                raise SQSError(f"there is no visible message {message_id} in {self.url}")
            body = change(letter)
            hold.keep()
            if body is None or (body == letter.message.body and to is None):
                return None
            new = self._edited(letter, body, to)
            log.write("edit", self.url, letter, reason)
            answer = self.client.send_message(QueueUrl=to or self.url, **new.to_request())
            if hold.delete([letter]):
                log.write("edit failed", self.url, letter, "the old message could not be deleted")
                raise SQSError(
                    f"message {answer['MessageId']} was sent, and message {letter.id} could not be deleted: "
                    "both are there"
                )
        new_id: str = answer["MessageId"]
        return new_id

    def _edited(self, letter: Letter, body: str, to: str | None) -> OutgoingMessage:
        where = f"the new body of message {letter.id}"
        check_text(where, body)
        _check_pointer(letter, body)
        attributes = sendable_attributes(letter.message.message_attributes)
        if to is None and letter.source_arn and len(attributes) < MAX_ATTRIBUTES:
            # SQS knows where a letter failed only until it is replaced.
            attributes.setdefault("DeadLetterSourceArn", string_attribute(letter.source_arn))
        fifo = (to or self.url).endswith(".fifo")
        if to is not None:
            attributes = {n: a for n, a in attributes.items() if not n.startswith("DeadLetter")}
        new = make_outgoing(
            body,
            attributes,
            fifo=fifo,
            where=where,
            deduplication_id=f"edited-{letter.id}-{letter.receives}" if fifo else None,
            group_id=letter.group,
        )
        check_size(new, where)
        return new

    def discard(
        self,
        where: Where,
        *,
        reason: str,
        audit: AuditLog | None = None,
        limit: int | None = None,
        confirm: Callable[[list[Letter]], bool] | None = None,
    ) -> Discarded:
        """Delete letters for good. What is deleted is in the audit log before it is gone.

        :param where: which; ``Where()`` for all.
        :param reason: why, for the audit log.
        :param limit: letters at most.
        :param confirm: called with the letters; ``False`` releases them.
        """
        log = audit or AuditLog(clock=self._clock)
        result = Discarded()
        with self._hold() as hold:
            chosen: list[Letter] = []
            for letter in hold.scan(_ALL):
                if where.matches(letter):
                    chosen.append(letter)
                if len(chosen) == limit:
                    break
            if not chosen or (confirm is not None and not confirm(chosen)):
                return result
            for start in range(0, len(chosen), 10):
                chunk = chosen[start : start + 10]
                hold.keep()
                for letter in chunk:
                    log.write("discard", self.url, letter, reason)
                left = hold.delete(chunk)
                for letter in chunk:
                    if letter.id in left:
                        log.write("discard failed", self.url, letter, "could not be deleted")
                result.left += left
                result.ids += [letter.id for letter in chunk if letter.id not in left]
        return result

    def _hold(self) -> Hold:
        return Hold(
            self.client,
            self.url,
            clock=self._clock,
            visibility=self._visibility,
            wait_seconds=self._wait_seconds,
        )


def _check_pointer(letter: Letter, body: str) -> None:
    if not is_marked(letter.message):
        return
    try:
        read_pointer(letter.id, body)
    except UndecodableMessageError:
        raise InvalidMessageError(
            f"the body of message {letter.id} is a pointer to S3, and its new body is none: no worker could read "
            "it. Repair the object that it points to and leave the message, or send a new job"
        ) from None


_ALL = 1_000_000
