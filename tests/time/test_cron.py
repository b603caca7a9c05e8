"""Cron expressions: against another implementation, and what EventBridge makes of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers.cron import Cron
from sqs_workers.exceptions import ConfigurationError

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


@st.composite
def items(draw: Any, low: int, high: int, names: list[str] | None = None) -> str:
    def shown(number: int) -> str:
        if names is not None and draw(st.booleans()):
            return names[(number - low) % len(names)]
        return str(number)

    first = draw(st.integers(low, high))
    kind = draw(st.sampled_from(["value", "range", "step", "range/step"]))
    if kind == "value":
        return shown(first)
    if kind == "step":
        return f"*/{draw(st.integers(1, 40))}"
    # The other implementation takes 5-5/2 for 5-59/2.
    first = min(first, high - 1)
    last = draw(st.integers(first + 1, high))
    text = f"{first}-{last}" if names is None else f"{shown(first)}-{shown(last)}"
    return text if kind == "range" else f"{text}/{draw(st.integers(1, 20))}"


def fields(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    some = st.lists(items(low, high, names), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), some)


@st.composite
def expressions(draw: Any) -> str:
    by_date = draw(st.booleans())
    day = draw(st.one_of(fields(1, 28), st.just("L"))) if by_date else "*"
    weekday = "*" if by_date else draw(fields(0, 6, DAYS))
    return " ".join([draw(fields(0, 59)), draw(fields(0, 23)), day, draw(fields(1, 12, MONTHS)), weekday])


moments = st.datetimes(datetime(1999, 1, 1), datetime(2050, 1, 1))


@given(expressions(), moments)
def test_it_comes_true_when_another_implementation_says_so(expression: str, moment: datetime) -> None:
    theirs = list(islice(CronSim(expression, moment), 5))
    ours, at = [], moment
    for _ in range(5):
        found = Cron(expression).next_after(at)
        assert found is not None
        ours.append(found)
        at = found
    assert ours == theirs


@given(expressions(), moments)
def test_the_next_time_is_later_and_on_a_full_minute(expression: str, moment: datetime) -> None:
    found = Cron(expression).next_after(moment)
    assert found is not None
    assert found > moment
    assert (found.second, found.microsecond) == (0, 0)
    assert Cron(expression).next_after(found - timedelta(microseconds=1)) == found


@pytest.mark.parametrize(
    ("expression", "aws"),
    [
        ("* * * * *", "cron(* * * * ? *)"),
        ("*/15 * * * *", "cron(0,15,30,45 * * * ? *)"),
        ("0 6 * * MON-FRI", "cron(0 6 ? * MON,TUE,WED,THU,FRI *)"),
        ("0 6 * * 1-5", "cron(0 6 ? * MON,TUE,WED,THU,FRI *)"),
        ("0 0 * * 7", "cron(0 0 ? * SUN *)"),
        ("0 0 * * SAT-SUN", "cron(0 0 ? * SUN,SAT *)"),
        ("30 4 1,15 * *", "cron(30 4 1,15 * ? *)"),
        ("30 4 1 * ?", "cron(30 4 1 * ? *)"),
        ("0 12 L FEB *", "cron(0 12 L 2 ? *)"),
        ("@daily", "cron(0 0 * * ? *)"),
        ("@WEEKLY", "cron(0 0 ? * SUN *)"),
        ("5 8-18/2 * 1-12 *", "cron(5 8,10,12,14,16,18 * * ? *)"),
    ],
)
def test_eventbridge_gets_the_same_times(expression: str, aws: str) -> None:
    assert Cron(expression).for_eventbridge() == aws


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("60 * * * *", "cannot be the minute"),
        ("* 24 * * *", "cannot be the hour"),
        ("* * 0 * *", "cannot be the day of month"),
        ("* * * 13 *", "cannot be the month"),
        ("* * * * 8", "cannot be the day of week"),
        ("5-1 * * * *", "cannot be the minute"),
        ("*/0 * * * *", "cannot be the minute"),
        ("*-5 * * * *", "cannot be the minute"),
        ("? * * * *", "cannot be the minute"),
        ("0/15 * * * *", "write 0-59/15"),
        ("1,,2 * * * *", "cannot be the minute"),
        ("-1 * * * *", "cannot be the minute"),
        ("\u0661 * * * *", "cannot be the minute"),
        ("* * * * MON#2", "cannot be the day of week"),
        ("* * 15W * *", "cannot be the day of month"),
        ("* * 1,L * *", "cannot be the day of month"),
        ("0 0 1 * MON", "Declare two schedules"),
        ("0 0 L * MON", "Declare two schedules"),
        ("0 0 30 FEB *", "never comes true"),
        ("0 0 31 4,6,9,11 *", "never comes true"),
        ("@reboot", "1 fields"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(expression: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match="cron expression") as caught:
        Cron(expression)
    assert words in str(caught.value)


def test_a_leap_day_is_found_eight_years_away() -> None:
    assert Cron("0 0 29 2 *").next_after(datetime(2096, 3, 1)) == datetime(2104, 2, 29)


def test_the_end_of_time_is_no_error() -> None:
    assert Cron("0 0 29 2 *").next_after(datetime(9999, 1, 1)) is None
