"""Slots: when a job that comes again and again is due, and the two odd days of the year."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.cron import Cron
from sqs_workers.delays import STABLE_ID
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.periodic import Periodic

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


def utc(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def shown(slots: Any) -> list[str]:
    return [datetime.fromtimestamp(slot, timezone.utc).strftime("%d %H:%M") for slot in slots]


def schedule(cron: str, zone: str = BERLIN) -> Periodic:
    return Periodic("s", "q", "j", cron=Cron(cron), timezone=zone)


def test_a_local_time_that_is_left_out_has_no_slot() -> None:
    # At 02:00 in Berlin (01:00 UTC) it becomes 03:00.
    half_past_two = schedule("30 2 * * *")
    days = half_past_two.slots(utc("2026-03-28T00:00"), utc("2026-03-31T00:00"))
    assert shown(days) == ["28 01:30", "30 00:30"]


def test_a_local_time_that_comes_twice_has_one_slot_the_first() -> None:
    # At 03:00 in Berlin (01:00 UTC) it becomes 02:00.
    half_past_two = schedule("30 2 * * *")
    days = half_past_two.slots(utc("2026-10-24T00:00"), utc("2026-10-27T00:00"))
    assert shown(days) == ["24 00:30", "25 00:30", "26 01:30"]


def test_a_schedule_of_every_half_hour_on_both_odd_days() -> None:
    often = schedule("*/30 * * * *")
    spring = often.slots(utc(f"{SPRING}T00:00"), utc(f"{SPRING}T02:00"))
    assert shown(spring) == ["29 00:30", "29 01:00", "29 01:30", "29 02:00"]
    autumn = often.slots(utc(f"{AUTUMN}T00:00"), utc(f"{AUTUMN}T02:30"))
    # Nothing in the second pass, from 01:00 to 02:00 UTC.
    assert shown(autumn) == ["25 00:30", "25 02:00", "25 02:30"]


def test_utc_and_every_know_no_odd_days() -> None:
    for steady in (schedule("*/30 * * * *", "UTC"), Periodic("s", "q", "j", every=1800)):
        for day in (SPRING, AUTUMN):
            slots = steady.slots(utc(f"{day}T00:00"), utc(f"{day}T00:00") + 86_400)
            assert len(list(slots)) == 48


def test_a_day_that_a_zone_leaves_out_has_no_slot() -> None:
    # Samoa crossed the date line and had no 30 December 2011.
    daily = schedule("0 12 * * *", "Pacific/Apia")
    slots = daily.slots(utc("2011-12-29T00:00"), utc("2012-01-01T00:00"))
    zone = ZoneInfo("Pacific/Apia")
    assert [datetime.fromtimestamp(slot, zone).day for slot in slots] == [29, 31, 1]


@given(
    st.sampled_from(["*/30 * * * *", "30 2 * * *", "15 1-3 * * SUN", "0 0 L * *", "59 23 * * *"]),
    st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]),
    st.floats(utc("2020-01-01T00:00"), utc("2030-01-01T00:00")),
)
def test_slots_come_in_order_once_and_at_the_local_time_of_the_expression(
    cron: str, zone: str, start: float
) -> None:
    declared = schedule(cron, zone)
    seen: list[datetime] = []
    at: float = start
    for _ in range(60):
        slot = declared.next_slot(at)
        assert slot is not None
        assert slot > at
        # From anywhere between two slots the same one is next.
        assert declared.next_slot((at + slot) / 2) == slot
        local = datetime.fromtimestamp(slot, ZoneInfo(zone)).replace(tzinfo=None, fold=0)
        assert Cron(cron).next_after(local - timedelta(minutes=1)) == local
        seen.append(local)
        at = slot
    assert seen == sorted(set(seen)), "no local time twice"


@given(st.integers(1, 10**6), st.floats(0, 2e9))
def test_slots_of_every_are_multiples_whenever_one_asks(every: int, at: float) -> None:
    slot = Periodic("s", "q", "j", every=every).next_slot(at)
    assert slot is not None
    assert slot % every == 0
    assert at < slot <= at + every


@pytest.fixture
def env() -> SQSEnv:
    env = SQSEnv(MemorySession(), codec="json")
    create_standard_queue(env, "reports")
    create_fifo_queue(env, "orders.fifo")
    return env


def test_a_schedule_is_declared_beside_its_job(env: SQSEnv) -> None:
    reports = env.queue("reports")

    @reports.periodic(cron="0 6 * * *", timezone=BERLIN, args={"kind": "daily"})
    @reports.periodic(every=timedelta(minutes=5), args={"kind": "quick"}, name="quick", catch_up="all")
    @reports.processor("report")
    def report(kind: str) -> None: ...

    assert [(p.name, p.job_name, p.when) for p in reports.periodic_jobs.values()] == [
        ("quick", "report", "every 0:05:00"),
        ("reports.report", "report", "0 6 * * * (Europe/Berlin)"),
    ]
    assert report.delay("now") is not None, "it is the task that it was"


def test_the_message_of_a_slot_carries_its_id(env: SQSEnv) -> None:
    orders = env.queue("orders.fifo")
    task = orders.connect_processor("close", lambda: None)
    orders.periodic(every=60, name="close", group_id="g")(task)
    declared = orders.periodic_jobs["close"]
    message = orders.periodic_message(declared, declared.id_of(1_800_000_000))
    assert message.deduplication_id == "close@2027-01-15T08:00:00Z"
    assert message.attributes[STABLE_ID]["StringValue"] == message.deduplication_id
    assert message.group_id == "g"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs cron= or every="),
        ({"cron": "* * * * *", "every": 5}, "needs cron= or every="),
        ({"every": 0}, "1 or more"),
        ({"every": 0.5}, "whole seconds"),
        ({"every": True}, "whole seconds"),
        ({"every": 60, "timezone": BERLIN}, "no time zone"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "no time zone 'Mars/Base'"),
        ({"cron": "* * * * *", "timezone": "../../etc/passwd"}, "there is no time zone"),
        ({"cron": "* * * * *", "timezone": ""}, "there is no time zone"),
        ({"cron": "nonsense"}, "cron expression"),
        ({"every": 60, "name": "with space"}, "cannot be the name of a schedule"),
        ({"every": 60, "name": "x" * 65}, "cannot be the name of a schedule"),
        ({"every": 60, "catch_up": "some"}, "catch_up"),
        ({"every": 60, "args": {"unknown": 1}}, "do not fit the job"),
        ({"every": 60, "args": {}}, "do not fit the job"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_where_it_is_made(
    env: SQSEnv, options: dict[str, Any], words: str
) -> None:
    reports = env.queue("reports")
    task = reports.connect_processor("report", lambda kind: None)
    with pytest.raises(ConfigurationError) as caught:
        reports.periodic(**{"args": {"kind": "daily"}, **options})(task)
    assert words in str(caught.value)
    assert reports.periodic_jobs == {}


def test_a_second_schedule_of_a_job_needs_a_name_and_a_function_is_no_job(env: SQSEnv) -> None:
    reports = env.queue("reports")
    task = reports.connect_processor("report", lambda: None)
    reports.periodic(every=60)(task)
    with pytest.raises(ConfigurationError, match="give name="):
        reports.periodic(every=120)(task)
    with pytest.raises(ConfigurationError, match="stands above @processor"):
        reports.periodic(every=60)(lambda: None)  # type: ignore[type-var]
