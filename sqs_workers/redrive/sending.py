"""Sending letters back: what the target took, what it dropped as a duplicate, and what it refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqs_workers.delivery import Packer, RetryPolicy, deliver
from sqs_workers.exceptions import InvalidMessageError
from sqs_workers.redriven import redriven
from sqs_workers.transport import EntryError, SendResult

if TYPE_CHECKING:
    from sqs_workers.clock import Clock
    from sqs_workers.messages import OutgoingMessage
    from sqs_workers.redrive.letters import Letter

__all__ = ["DEDUPLICATED", "EARLIER_FAILED", "Refused", "ReturnPost", "Target", "deduplication_id"]

EARLIER_FAILED = "EarlierMessageFailed"
DEDUPLICATED = "Deduplicated"


@dataclass(frozen=True, slots=True)
class Refused:
    """A letter that the target did not take.

    :ivar code: SQS's error code; ``Deduplicated`` if SQS dropped the copy as a duplicate;
        ``EarlierMessageFailed`` if it was held back behind such a letter of its group.
    """

    letter: Letter
    code: str


@dataclass
class Target:
    """A queue that letters go back to, and what its answers have been.

    :ivar sent: message ids of the copies that it took.
    """

    url: str
    sent: set[str] = field(default_factory=set)
    last_sequence: dict[str | None, int] = field(default_factory=dict)
    blocked: set[str | None] = field(default_factory=set)

    @property
    def fifo(self) -> bool:
        """Whether it is a FIFO queue."""
        return self.url.endswith(".fifo")

    def took(self, answer: dict[str, Any], group: str | None) -> bool:
        """Whether an answer is about a new message, and not about an earlier one that SQS takes it for.

        A copy that SQS drops as a duplicate is answered with the message id and the sequence number of the
        message that was first. Sequence numbers of a group rise.
        """
        message_id = str(answer["MessageId"])
        if message_id in self.sent:
            return False
        sequence = int(answer.get("SequenceNumber") or 0)
        if sequence:
            if sequence <= self.last_sequence.get(group, 0):
                return False
            self.last_sequence[group] = sequence
        self.sent.add(message_id)
        return True


def deduplication_id(letter: Letter) -> str:
    """Deduplication id of a letter's copy: another one for each time that the letter was received.

    The dead letter's own would make SQS drop the copy within five minutes of the message that failed, and
    one that is the same for each attempt would make it drop the copy of an attempt whose outcome is not known.
    """
    return f"redriven-{letter.id}-{letter.receives}"


class ReturnPost:
    """Sends copies of letters to their queues.

    :param taken: called with each letter as soon as its target has taken the copy.
    :param proceed: asked before each call of SQS whether to make it.
    """

    def __init__(
        self,
        client: Any,
        clock: Clock,
        taken: Callable[[Letter], None],
        proceed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._clock = clock
        self._taken = taken
        self._proceed = proceed
        self._retry = RetryPolicy()

    def send(self, target: Target, letters: Sequence[Letter]) -> list[Refused]:
        """Send up to 10 letters to one queue; in order, if it is a FIFO queue. Returns what it did not take.

        After a letter that was not taken, the later ones of its group are held back, in this call and in
        those that follow.
        """
        refused: dict[int, Refused] = {}
        packer = Packer(target.fifo)
        invalid: set[str | None] = set()
        for position, letter in enumerate(letters):
            if target.fifo and letter.group in invalid:
                refused[position] = Refused(letter, EARLIER_FAILED)
                continue
            try:
                packer.add(position, self._copy(target, letter))
            except InvalidMessageError as error:
                refused[position] = Refused(letter, type(error).__name__)
                invalid.add(letter.group)
        while (chunk := packer.next_call()) and self._proceed():
            ready = []
            for position, copy in chunk:
                if target.fifo and letters[position].group in target.blocked:
                    refused[position] = Refused(letters[position], EARLIER_FAILED)
                else:
                    ready.append((position, copy))
            for position, code in self._call(target, letters, ready):
                refused[position] = Refused(letters[position], code)
                target.blocked.add(letters[position].group)
        target.blocked |= invalid
        return [refused[position] for position in sorted(refused)]

    def _copy(self, target: Target, letter: Letter) -> OutgoingMessage:
        return redriven(
            letter.message,
            fifo=target.fifo,
            where=f"message {letter.id} for {target.url}",
            deduplication_id=deduplication_id(letter),
        )

    def _call(
        self, target: Target, letters: Sequence[Letter], ready: Sequence[tuple[int, OutgoingMessage]]
    ) -> list[tuple[int, str]]:
        if not ready:
            return []
        positions = {id(copy): position for position, copy in ready}
        dropped: list[tuple[int, str]] = []

        def call(copies: list[OutgoingMessage]) -> list[SendResult]:
            entries = [{"Id": str(index), **copy.to_request()} for index, copy in enumerate(copies)]
            answer = self._client.send_message_batch(QueueUrl=target.url, Entries=entries)
            taken = {entry["Id"]: entry for entry in answer.get("Successful") or ()}
            failed = {entry["Id"]: entry for entry in answer.get("Failed") or ()}
            results = []
            for index, copy in enumerate(copies):
                entry = taken.get(str(index))
                if entry is None:
                    results.append(SendResult(None, _entry_error(failed.get(str(index)))))
                    continue
                results.append(SendResult(entry["MessageId"]))
                position = positions[id(copy)]
                if target.took(entry, letters[position].group):
                    self._taken(letters[position])
                else:
                    dropped.append((position, DEDUPLICATED))
            return results

        failures = deliver(call, ready, clock=self._clock, retry=self._retry, queue_name=target.url)
        return [*((failure.position, failure.error.code) for failure in failures), *dropped]


def _entry_error(failed: dict[str, Any] | None) -> EntryError:
    if failed is None:
        return EntryError("NotAnswered", "SQS named the entry neither as done nor as failed")
    return EntryError(
        str(failed.get("Code", "Unknown")),
        str(failed.get("Message", "")),
        bool(failed.get("SenderFault", False)),
    )
