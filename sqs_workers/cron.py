"""Cron expressions: the part that Vixie's cron and EventBridge Scheduler understand alike.

Five fields: minute, hour, day of month, month, day of week.

==================  ==========================================================================
``*``               every value; ``?`` is the same in the two fields of days
``5`` ``MON``       one value; months and days of the week have names of three letters
``1-5`` ``MON-FRI`` from ... to; Sunday is 0 or 7
``*/15`` ``8-18/2`` every so many, counted from the first value
``1,15``            a list of these
``L``               as day of month: the last one
``@daily`` ...      ``@hourly`` ``@daily`` ``@weekly`` ``@monthly`` ``@yearly``
==================  ==========================================================================

An expression that restricts both fields of days is refused: cron takes it for "or", and EventBridge takes
none.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqs_workers.exceptions import ConfigurationError

__all__ = ["Cron"]

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# The names that calendar has are those of the locale.
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(r"(?P<first>\*|\?|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>[0-9]+))?")
_LONGEST_MONTHS = dict.fromkeys(range(1, 13), 31) | {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}

# From one 29 February to the next there may be eight years.
_HORIZON_DAYS = 8 * 366 + 1


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)


@dataclass(frozen=True)
class Cron:
    """A cron expression.

    :param expression: five fields, or one of the names that begin with ``@``.
    :raises ConfigurationError: it cannot be read, or never comes true.
    """

    expression: str
    minutes: frozenset[int] = field(init=False, repr=False, compare=False)
    hours: frozenset[int] = field(init=False, repr=False, compare=False)
    days: frozenset[int] = field(init=False, repr=False, compare=False)
    months: frozenset[int] = field(init=False, repr=False, compare=False)
    weekdays: frozenset[int] = field(init=False, repr=False, compare=False)
    last_day: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise ConfigurationError(f"a cron expression is text, not {self.expression!r}")
        texts = _MACROS.get(self.expression.strip().lower(), self.expression).upper().split()
        if len(texts) != 5:
            raise ConfigurationError(
                f"cron expression {self.expression!r} has {len(texts)} fields: minute, hour, day of month, "
                "month and day of week are five"
            )
        last_day = texts[2] == "L"
        values = [
            frozenset(_parse(self.expression, part, "*" if last_day and part is _FIELDS[2] else text))
            for part, text in zip(_FIELDS, texts, strict=True)
        ]
        weekdays = frozenset(day % 7 for day in values[4])
        if (last_day or texts[2] not in ("*", "?")) and texts[4] not in ("*", "?"):
            raise ConfigurationError(
                f"cron expression {self.expression!r} restricts the day of the month and the day of the week: "
                "that means 'or' to some and nothing to others. Declare two schedules"
            )
        names = ("minutes", "hours", "days", "months", "weekdays")
        for name, value in zip(names, [*values[:4], weekdays], strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "last_day", last_day)
        if min(self.days) > max(_LONGEST_MONTHS[month] for month in self.months):
            raise ConfigurationError(f"cron expression {self.expression!r} never comes true: no such date")

    def __str__(self) -> str:
        return self.expression

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after ``moment`` at which it comes true; both without a time zone."""
        start = moment.replace(second=0, microsecond=0, tzinfo=None, fold=0) + timedelta(minutes=1)
        day = start.replace(hour=0, minute=0)
        try:
            for _ in range(_HORIZON_DAYS):
                if self._is_day(day):
                    found = self._time_of(day, start)
                    if found is not None:
                        return found
                day += timedelta(days=1)
        except OverflowError:
            # The last year that a datetime can be in.
            return None
        return None

    def _is_day(self, day: datetime) -> bool:
        if day.month not in self.months or day.isoweekday() % 7 not in self.weekdays:
            return False
        if self.last_day:
            return day.day == calendar.monthrange(day.year, day.month)[1]
        return day.day in self.days

    def _time_of(self, day: datetime, start: datetime) -> datetime | None:
        for hour in sorted(self.hours):
            if day.date() == start.date() and hour < start.hour:
                continue
            for minute in sorted(self.minutes):
                found = day.replace(hour=hour, minute=minute)
                if found >= start:
                    return found
        return None

    def for_eventbridge(self) -> str:
        """The expression as EventBridge Scheduler writes it: six fields, of which one of the days is ``?``.

        https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
        """
        minute, hour, day, month = (
            _listed(values, part.low, part.high)
            for values, part in zip(
                (self.minutes, self.hours, self.days, self.months), _FIELDS[:4], strict=True
            )
        )
        weekday = "?"
        if self.last_day:
            day = "L"
        elif len(self.weekdays) < 7:
            day, weekday = "?", ",".join(_DAYS[number] for number in sorted(self.weekdays))
        return f"cron({minute} {hour} {day} {month} {weekday} *)"


def _parse(expression: str, part: _Field, text: str) -> Iterable[int]:
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _unreadable(expression, part, item)
        first, last, step = match["first"], match["last"], match["step"]
        everything = first == "*" or (first == "?" and part.name.startswith("day"))
        if everything:
            if last is not None:
                raise _unreadable(expression, part, item)
            low, high = part.low, part.high - (part.name == "day of week")
        else:
            low = _number(expression, part, first)
            high = low if last is None else _number(expression, part, last)
            if last == "SUN" and low:
                high = 7
            if step is not None and last is None:
                raise ConfigurationError(
                    f"cron expression {expression!r}: {item!r} is read in two ways; write "
                    f"{low}-{part.high}/{step}"
                )
        if low > high or (step is not None and int(step) == 0):
            raise _unreadable(expression, part, item)
        yield from range(low, high + 1, int(step or 1))


def _number(expression: str, part: _Field, text: str) -> int:
    if text in part.names:
        return part.names[text]
    # Only ASCII digits: int() would take those of other scripts, too.
    if text.isascii() and text.isdigit() and part.low <= int(text) <= part.high:
        return int(text)
    raise _unreadable(expression, part, text)


def _unreadable(expression: str, part: _Field, item: str) -> ConfigurationError:
    return ConfigurationError(
        f"cron expression {expression!r}: {item[:40]!r} cannot be the {part.name}, which is {part.low} to "
        f"{part.high}{' or a name' if part.names else ''}, '*', a range, a list or a step"
    )


def _listed(values: frozenset[int], low: int, high: int) -> str:
    if len(values) == high - low + 1:
        return "*"
    first, last = min(values), max(values)
    if len(values) > 2 and len(values) == last - first + 1:
        # The service takes 256 characters, which lists of most minutes and hours would exceed.
        return f"{first}-{last}"
    return ",".join(str(value) for value in sorted(values))
