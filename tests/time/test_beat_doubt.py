"""Beats in doubt: an answer that cannot be read, a clock that was far ahead."""

from __future__ import annotations

from typing import Any

import pytest

from sqs_workers.schedules import Beat
from tests.time.test_beat import DAY, HOUR, Place, Skewed, utc


@pytest.fixture
def place() -> Any:
    made = Place(utc("2026-03-26T00:00:30"))
    yield made
    made.engine.dispose()


def test_a_slot_whose_answer_cannot_be_read_is_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    beat = Beat(place.env, place.lease())
    beat.tick()
    place.clock.advance(HOUR)
    send = place.env.transport.send

    def unreadable(url: str, message: Any) -> str:
        send(url, message)
        return ""

    monkeypatch.setattr(place.env.transport, "send", unreadable)
    beat.tick()
    monkeypatch.undo()
    beat.tick()
    assert list(place.collect().values()) == [1]


def test_a_clock_that_ran_far_ahead_is_said_once_and_does_not_send_twice(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.declare("plain", "hourly", cron="0 * * * *")
    wrong = Skewed(place.clock)
    beat = Beat(place.env, place.lease(), clock=wrong)
    beat.tick()
    wrong.wrong_by = 30 * DAY
    assert beat.tick() == 1
    wrong.wrong_by = 0.0
    for _ in range(3):
        place.clock.advance(HOUR)
        assert beat.tick() == 0
    [said] = [record for record in caplog.records if "ahead" in record.getMessage()]
    assert said.levelname == "ERROR"
    assert "schedule hourly lies" in said.getMessage()
    place.clock.advance(30 * DAY)
    assert beat.tick() == 1
