"""When a job that comes again and again is due.

A **slot** is one moment at which it is due, a whole second in UTC. Two days of the year are odd where clocks are
put forward and back. The rule is that of EventBridge Scheduler, so that it does not matter who keeps the time:

- a local time that does not exist (the hour that is left out) has no slot;
- a local time that comes twice (the hour that is repeated) has one slot, the first.

``every=`` counts seconds and knows no such days; so does ``cron=`` in ``UTC``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqs_workers.cron import Cron
from sqs_workers.exceptions import ConfigurationError

__all__ = ["CatchUp", "Periodic", "SlotClaim", "slot_id"]

CatchUp: TypeAlias = Literal["none", "one", "all"]

# https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html
_NAME = re.compile(r"[0-9A-Za-z_.\-]{1,64}")
_ZONE = re.compile(r"[A-Za-z0-9_+\-/]{1,50}")
_LAST_YEAR = 9990


def slot_id(name: str, moment: str) -> str:
    """Deduplication id and stable id of the job of one slot.

    :param moment: the slot in UTC: ``2026-03-29T01:00:00Z``.
    """
    return f"{name}@{moment}"


@dataclass(frozen=True, slots=True)
class SlotClaim:
    """The answer to whoever wants to send the job of a slot.

    :ivar won: whether the slot is the caller's; ``False`` if another beat was faster.
    :ivar transaction: the transaction in which it was claimed, if there is one.
    """

    won: bool
    transaction: Any = None


@dataclass(frozen=True)
class Periodic:
    """A job that comes again and again.

    :param name: of the schedule: 1 to 64 letters, digits, ``-``, ``_`` and ``.``.
    :param queue_name: queue, as ``env.queue(...)`` takes it.
    :param job_name: the job.
    :param kwargs: its arguments.
    :param cron: when, as a cron expression.
    :param every: or how often, in seconds; slots are the multiples of it since the Unix epoch.
    :param timezone: zone of the cron expression.
    :param catch_up: what a beat does about slots that passed while none ran: ``none``, ``one`` (the last) or
        ``all``.
    :param group_id: message group, on FIFO queues.
    :param codec: name of the codec.
    :raises ConfigurationError: a value that cannot work.
    """

    name: str
    queue_name: str
    job_name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    cron: Cron | None = None
    every: int | None = None
    timezone: str = "UTC"
    catch_up: CatchUp = "one"
    group_id: str | None = None
    codec: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r} cannot be the name of a schedule: 1 to 64 letters, digits, '-', '_' and '.'. "
                "Give it one by name="
            )
        if (self.cron is None) == (self.every is None):
            raise ConfigurationError(f"schedule {self.name!r} needs cron= or every=, and not both")
        every: Any = self.every
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ConfigurationError(
                f"every= of schedule {self.name!r} must be whole seconds, 1 or more, not {every!r}"
            )
        if self.every is not None and self.timezone != "UTC":
            raise ConfigurationError(
                f"schedule {self.name!r}: every= counts seconds and has no time zone; leave timezone= out"
            )
        if self.catch_up not in ("none", "one", "all"):
            raise ConfigurationError(
                f"catch_up of schedule {self.name!r} must be 'none', 'one' or 'all', not {self.catch_up!r}"
            )
        zone: Any = self.timezone
        if not isinstance(zone, str):
            raise ConfigurationError(
                f"timezone= of schedule {self.name!r} is a name such as Europe/Berlin, not {zone!r:.80}"
            )
        _ = self._zone

    @cached_property
    def _zone(self) -> ZoneInfo:
        try:
            # A name is a path for the library: none that could leave its directory.
            return ZoneInfo(self.timezone if _ZONE.fullmatch(self.timezone) else "")
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"schedule {self.name!r}: there is no time zone {self.timezone!r} on this machine. Write it as "
                "Europe/Berlin; where the system has no time zones, install the package tzdata"
            ) from error

    def next_slot(self, after: float) -> int | None:
        """The first slot after ``after`` (both in seconds since the Unix epoch); ``None`` if there is none."""
        if self.every is not None:
            return (int(after // self.every) + 1) * self.every
        assert self.cron is not None
        zone = self._zone
        local: datetime | None = datetime.fromtimestamp(after, timezone.utc).astimezone(zone)
        while local is not None and local.year < _LAST_YEAR:
            local = self.cron.next_after(local)
            if local is None:
                return None
            moment = local.replace(tzinfo=zone, fold=0).astimezone(timezone.utc)
            # A local time that is left out comes back as another one.
            exists = moment.astimezone(zone).replace(tzinfo=None, fold=0) == local
            # In the second pass of a repeated hour, its first pass lies behind.
            if exists and moment.timestamp() > after:
                return int(moment.timestamp())
        return None

    def slots(self, after: float, until: float) -> Iterator[int]:
        """The slots after ``after`` and not after ``until``, in order."""
        slot = self.next_slot(after)
        while slot is not None and slot <= until:
            yield slot
            slot = self.next_slot(slot)

    def latest_slot(self, after: float, until: float) -> int | None:
        """The last of :meth:`slots`; ``None`` if there is none. Looks at the end first."""
        window = 3600.0
        while True:
            start = max(after, until - window)
            last = deque(self.slots(start, until), maxlen=1)
            if last or start == after:
                return last[0] if last else None
            window *= 8

    def id_of(self, slot: int) -> str:
        """Deduplication id and stable id of the job of a slot."""
        moment = datetime.fromtimestamp(slot, timezone.utc)
        return slot_id(self.name, moment.strftime("%Y-%m-%dT%H:%M:%SZ"))

    @property
    def when(self) -> str:
        """When, in words of the declaration."""
        if self.cron is not None:
            return f"{self.cron} ({self.timezone})"
        return f"every {timedelta(seconds=self.every or 0)}"
