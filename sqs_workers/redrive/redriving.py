"""Sending dead letters back, one by one, under control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqs_workers.clock import Clock
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError, SQSError
from sqs_workers.limits import MAX_BATCH_ENTRIES
from sqs_workers.redrive.finding import SourceQueue, depth, queue_attributes, url_of_arn
from sqs_workers.redrive.holding import Hold, pause
from sqs_workers.redrive.letters import Letter, Where
from sqs_workers.redrive.sending import DEDUPLICATED, EARLIER_FAILED, Refused, ReturnPost, Target
from sqs_workers.transport import error_code

__all__ = ["DEFAULT_FIRST", "DEFAULT_WAIT", "SOURCE_MISSING", "Plan", "Redrive", "RedriveReport"]

SOURCE_MISSING = "SourceQueueMissing"
"""Code of a letter whose queue is gone, or hidden from these credentials."""

DEFAULT_FIRST = 5
"""Letters that go back before anything else does."""
DEFAULT_WAIT = 60.0
"""Seconds to wait for letters that come back. SQS's own counts are up to a minute late.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html"""
GROWTH = 10
_LOOK_SECONDS = 2.0
_PATIENCE = 3

_SLICE_SECONDS = 1.0

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How letters go back.

    :param where: which.
    :param to: URL of the queue that they go to; by default the queue that each failed in.
    :param first: letters that go back first, of which none may return before ten times as many follow, and so
        on; 0 sends all without looking.
    :param wait: seconds to wait after each such step.
    :param rate: letters a second; ``None`` for as fast as possible.
    :param limit: letters at most; ``None`` for all.
    :param look_at: letters to look at, at most.
    :param dry_run: only say what would be done. The letters are received for that, and released.
    """

    where: Where = field(default_factory=Where)
    to: str | None = None
    first: int = DEFAULT_FIRST
    wait: float = DEFAULT_WAIT
    rate: float | None = None
    limit: int | None = None
    look_at: int = 100_000
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.where, Where):
            raise ConfigurationError(f"where is a Where(job=..., error=...), not {self.where!r:.80}")
        numbers = (self.first, self.wait, self.rate, self.limit, self.look_at)
        wrong = [
            n for n in numbers if n is not None and (isinstance(n, bool) or not isinstance(n, (int, float)))
        ]
        if wrong:
            raise ConfigurationError(
                f"first, wait, rate, limit and look_at are numbers, not {wrong[0]!r:.80}"
            )
        if self.first < 0 or self.wait < 0:
            raise ConfigurationError("first and wait are 0 or more")
        if self.rate is not None and not self.rate > 0:
            raise ConfigurationError(f"rate is above 0 letters a second, not {self.rate!r}")
        if (self.limit is not None and self.limit < 1) or self.look_at < 1:
            raise ConfigurationError("limit and look_at are 1 or more")


@dataclass
class RedriveReport:
    """What became of the letters.

    :ivar seen: letters that were received.
    :ivar matched: those of them that were meant.
    :ivar sent: those that went back and were deleted from the dead-letter queue, or would be in a dry run.
    :ivar by_target: the same by URL of the target.
    :ivar by_job: the same by name of the job.
    :ivar refused: letters that a target did not take; they stay.
    :ivar not_deleted: message ids of letters that went back and could not be deleted: they are in both queues.
    :ivar came_back: message ids of letters that were received again after they had been sent back.
    :ivar unseen: messages of a FIFO queue that wait behind others of their group, which were not meant.
    :ivar stopped: why it ended before all was done; ``None`` if it did not.
    """

    seen: int = 0
    matched: int = 0
    sent: int = 0
    by_target: Counter[str] = field(default_factory=Counter)
    by_job: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    not_deleted: list[str] = field(default_factory=list)
    came_back: list[str] = field(default_factory=list)
    unseen: int = 0
    stopped: str | None = None

    @property
    def clean(self) -> bool:
        """Whether everything that was meant went back."""
        return not (self.refused or self.not_deleted or self.stopped)


class Redrive:
    """One run.

    :param sources: the queues whose dead letters these are, for letters that do not say it themselves.
    :param progress: called with a line for people now and then.
    :param stop: asked between two calls of SQS whether to end; those under way are finished.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        plan: Plan,
        *,
        clock: Clock,
        sources: Sequence[SourceQueue],
        hold: Hold,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self._client = client
        self._url = url
        self._plan = plan
        self._clock = clock
        self._sources = sources
        self._hold = hold
        self._say: Progress = progress or (lambda _: None)
        self._stop = stop or (lambda: False)
        self._taken: list[Letter] = []
        self._post = ReturnPost(client, clock, self._taken.append, self._proceed)
        self._targets: dict[str, Target] = {}
        self._urls: dict[str, str | None] = {}
        self._due = clock.monotonic()
        self.report = RedriveReport()

    def run(self) -> RedriveReport:
        """Send back what the plan says; what is not sent is visible again when this returns or raises.

        Once letters have gone back, an error ends the run and is told by ``report.stopped``.

        :raises ConfigurationError: a letter does not say where it failed, and there is more than one queue
            that it may be from.
        """
        before = depth(queue_attributes(self._client, self._url))
        try:
            self._run(before)
        except Exception as error:
            if not self.report.sent:
                raise
            # Whoever has to go on must know what is done.
            self.report.stopped = (
                str(error) if isinstance(error, SQSError) else f"{error_code(error)}: {error}"
            )
        return self.report

    def _run(self, before: int) -> None:
        step = self._plan.first
        with self._hold:
            while not self._step(step or None):
                self._watch(before)
                if self.report.stopped:
                    break
                step *= GROWTH
            if self._url.endswith(".fifo") and len(self._hold):
                left = queue_attributes(self._client, self._url)
                self.report.unseen = int(left.get("ApproximateNumberOfMessages", 0))

    # One step

    def _step(self, size: int | None) -> bool:
        """Send ``size`` letters, all if it is ``None``; whether that was the end of it."""
        plan, report = self._plan, self.report
        end = None if size is None else report.sent + size
        while not report.stopped:
            wanted = min([bound - report.sent for bound in (end, plan.limit) if bound is not None] or [10])
            if self._told_to_stop():
                return True
            if wanted <= 0:
                return plan.limit is not None and report.sent >= plan.limit
            if report.seen >= plan.look_at:
                report.stopped = f"{report.seen} letters were looked at, and no more were to be"
                return True
            letters = self._hold.receive(min(wanted, self._batch(), plan.look_at - report.seen))
            if not letters:
                return True
            self._handle(letters)
        return True

    def _batch(self) -> int:
        rate = self._plan.rate
        return MAX_BATCH_ENTRIES if rate is None else max(1, min(MAX_BATCH_ENTRIES, int(rate)))

    def _handle(self, letters: Sequence[Letter]) -> None:
        report = self.report
        report.seen += len(letters)
        for letter in letters:
            if self._has_come_back(letter):
                report.came_back.append(letter.id)
        if report.came_back:
            report.stopped = f"{len(report.came_back)} letter(s) that had been sent back are here again"
            return
        meant = [letter for letter in letters if self._plan.where.matches(letter)]
        report.matched += len(meant)
        by_target: dict[str, list[Letter]] = {}
        for letter in meant:
            url = self._target_of(letter)
            if url is None:
                report.refused.append(Refused(letter, SOURCE_MISSING))
            else:
                by_target.setdefault(url, []).append(letter)
        for url, chosen in by_target.items():
            if report.stopped or self._told_to_stop():
                return
            if self._plan.dry_run:
                self._count(url, chosen)
            else:
                self._send(self._targets.setdefault(url, Target(url)), chosen)

    def _send(self, target: Target, letters: Sequence[Letter]) -> None:
        self._keep_to_the_rate(len(letters))
        if self._told_to_stop():
            return
        try:
            refused = self._post.send(target, letters)
        finally:
            # Also after Ctrl-C: a letter that its queue has taken must not stay here.
            self._delete_taken(target.url)
        self.report.refused += refused
        codes = {letter.code for letter in refused} - {EARLIER_FAILED, DEDUPLICATED}
        if codes and len(refused) == len(letters):
            self.report.stopped = f"{target.url} takes none of {len(letters)}: {', '.join(sorted(codes))}"

    def _delete_taken(self, url: str) -> None:
        taken, self._taken[:] = self._taken[:], []
        if not taken:
            return
        self._count(url, taken)
        left = self._hold.delete(taken)
        self.report.not_deleted += left
        if left:
            self.report.stopped = f"{len(left)} letter(s) went back and cannot be deleted here"

    def _count(self, url: str, letters: Sequence[Letter]) -> None:
        self.report.sent += len(letters)
        self.report.by_target[url] += len(letters)
        self.report.by_job.update(letter.job for letter in letters)

    def _keep_to_the_rate(self, count: int) -> None:
        if self._plan.rate is None:
            return
        now = self._clock.monotonic()
        if self._due > now:
            self._rest(self._due - now)
        self._due = max(self._due, now) + count / self._plan.rate

    def _rest(self, seconds: float) -> None:
        """Wait, and go on holding what is in hand."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0 and not self._told_to_stop():
            pause(self._clock, min(left, _SLICE_SECONDS))
            self._hold.keep()

    def _proceed(self) -> bool:
        # Letters of a FIFO queue may take a call each: those at the end must not slip out of our hands.
        self._hold.keep()
        return not self._told_to_stop()

    def _told_to_stop(self) -> bool:
        if self.report.stopped is None and self._stop():
            self.report.stopped = "told to"
        return self.report.stopped is not None

    # Where to

    def _target_of(self, letter: Letter) -> str | None:
        """URL of the queue that a letter goes to; ``None`` if that is gone."""
        if self._plan.to is not None:
            return self._plan.to
        arn = letter.source_arn
        if arn is None:
            if len(self._sources) == 1:
                return self._sources[0].url
            known = ", ".join(source.name for source in self._sources)
            raise ConfigurationError(
                f"message {letter.id} does not say which queue it failed in"
                + (f", and it may be from {known}" if known else ", and no queue names this one as its own")
                + ": say where the letters are to go"
            )
        if arn not in self._urls:
            by_arn = {source.arn: source.url for source in self._sources}
            try:
                self._urls[arn] = by_arn.get(arn) or url_of_arn(self._client, arn)
            except QueueNotFoundError as error:
                self._say(
                    f"{error}; letters that failed there stay: send them elsewhere with --where and --to"
                )
                self._urls[arn] = None
        return self._urls[arn]

    # Whether they come back

    def _has_come_back(self, letter: Letter) -> bool:
        return any(
            letter.id in target.sent or letter.original_id in target.sent for target in self._targets.values()
        )

    def _watch(self, before: int) -> None:
        """Wait, and stop the run if the dead-letter queue holds more than was left in it."""
        plan, report = self._plan, self.report
        if plan.dry_run:
            return
        self._say(f"{report.sent} sent back; waiting {plan.wait:g} s to see whether they return")
        end = self._clock.monotonic() + plan.wait
        more, looks = 0, 0
        while True:
            more = depth(queue_attributes(self._client, self._url)) - (before - report.sent)
            # Counts waver: more than expected counts if it stays, or if it is there at the end.
            looks = looks + 1 if more > 0 else 0
            left = end - self._clock.monotonic()
            if looks > _PATIENCE or left <= 0 or self._told_to_stop():
                break
            self._rest(min(left, _LOOK_SECONDS))
        if more > 0 and report.stopped is None:
            report.stopped = (
                f"after {report.sent} had been sent back, the dead-letter queue holds {more} more than were "
                "left in it: the cause is still there, or other jobs fail"
            )
