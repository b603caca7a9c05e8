"""Dead letters that go back: all of them, in order, once, and under control."""

from __future__ import annotations

from typing import Any

import pytest

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.redrive import Where
from tests.redrive.conftest import World


def dead_letters(world: World, count: int = 30, name: str = "jobs", **options: Any) -> tuple[str, str]:
    url, dead = world.pair(name)
    for number in range(count):
        world.send(url, str(number), group=f"g{number % 3}", **options)
    world.fail(url)
    assert world.counts(dead)[0] == count
    return url, dead


def test_all_letters_go_back_and_none_stays(world: World) -> None:
    url, dead = dead_letters(world)
    report = world.letters(dead).redrive(first=0)
    assert (report.sent, report.clean) == (30, True)
    assert world.counts(dead) == (0, 0, 0)
    assert sorted(map(int, world.bodies(url))) == list(range(30))


def test_a_letter_goes_back_to_the_queue_that_it_failed_in(world: World) -> None:
    one, dead = world.pair("one")
    policy = world.client.get_queue_attributes(QueueUrl=one, AttributeNames=["RedrivePolicy"])["Attributes"]
    two = world.queue("two", **policy)
    world.send(one, "of one")
    world.send(two, "of two")
    world.fail(one)
    world.fail(two)
    report = world.letters(dead).redrive(first=0)
    assert report.by_target == {one: 1, two: 1}
    assert (world.bodies(one), world.bodies(two)) == (["of one"], ["of two"])


def test_a_letter_that_does_not_say_where_it_failed_is_not_sent_anywhere_by_guess(world: World) -> None:
    one, dead = world.pair("one")
    policy = world.client.get_queue_attributes(QueueUrl=one, AttributeNames=["RedrivePolicy"])["Attributes"]
    world.queue("two", **policy)
    world.send(dead, "copied by a worker")
    with pytest.raises(ConfigurationError, match="may be from one, two"):
        world.letters(dead).redrive(first=0)
    assert world.counts(dead) == (1, 0, 0)
    assert world.letters(dead).redrive(first=0, to=one).sent == 1


def test_with_one_source_a_copied_letter_goes_there_and_leaves_its_reasons_behind(world: World) -> None:
    url, dead = world.pair()
    world.send(dead, "x", job="mail", DeadLetterReason="permanent error", DeadLetterErrorType="ValueError")
    world.letters(dead).redrive(first=0)
    answer = world.client.receive_message(QueueUrl=url, MessageAttributeNames=["All"])
    assert answer["Messages"][0]["MessageAttributes"].keys() == {"JobName"}


def test_letters_that_are_not_meant_stay_and_are_visible_after(world: World) -> None:
    url, dead = world.pair()
    for number in range(25):
        world.send(url, f"a{number}", job="mail" if number % 5 else "report")
    world.fail(url)
    report = world.letters(dead).redrive(first=0, where=Where(job="rep*"))
    assert (report.sent, report.matched, report.seen) == (5, 5, 25)
    assert world.counts(dead) == (20, 0, 0)


def test_a_dry_run_moves_nothing(world: World) -> None:
    url, dead = dead_letters(world, 12, job="mail")
    report = world.letters(dead).redrive(dry_run=True, limit=11)
    assert (report.sent, report.by_job) == (11, {"mail": 11})
    assert (world.counts(dead), world.counts(url)) == ((12, 0, 0), (0, 0, 0))


def test_no_more_go_back_than_the_limit(world: World) -> None:
    url, dead = dead_letters(world, 30)
    assert world.letters(dead).redrive(limit=13, wait=1).sent == 13
    assert (world.counts(dead)[0], world.counts(url)[0]) == (17, 13)


@pytest.mark.parametrize(("rate", "seconds"), [(10, 2.0), (1, 29.0), (0.5, 58.0)])
def test_letters_go_back_at_the_rate_asked_for(world: World, rate: float, seconds: float) -> None:
    _, dead = dead_letters(world)
    began = world.clock.monotonic()
    assert world.letters(dead, visibility=20).redrive(first=0, rate=rate).sent == 30
    assert world.clock.monotonic() - began == pytest.approx(seconds)


# Stopping by itself


def test_ten_times_as_many_follow_when_the_first_do_not_come_back(world: World) -> None:
    _, dead = dead_letters(world, 200)
    said: list[str] = []
    began = world.clock.monotonic()
    report = world.letters(dead).redrive(first=5, wait=60, progress=said.append)
    assert (report.sent, report.stopped) == (200, None)
    assert [line.split()[0] for line in said] == ["5", "55"]
    assert world.clock.monotonic() - began == pytest.approx(120, abs=5)


def test_it_stops_after_the_first_when_they_come_back(world: World) -> None:
    url, dead = dead_letters(world, 200)
    report = world.letters(dead).redrive(first=5, wait=60, progress=lambda _: world.fail(url))
    assert report.sent == 5
    assert report.stopped is not None
    assert "holds 5 more" in report.stopped
    assert world.counts(dead) == (200, 0, 0)


def test_it_stops_at_a_letter_that_it_has_sent_back_before(world: World) -> None:
    url, dead = dead_letters(world, 30)
    letters = world.letters(dead)
    sends = world.client.send_message_batch

    def send_and_fail(**request: Any) -> Any:
        answer = sends(**request)
        world.fail(url)
        return answer

    world.client.send_message_batch = send_and_fail
    report = letters.redrive(first=0)
    assert report.came_back
    assert report.sent == 30
    assert world.counts(dead) == (30, 0, 0)


def test_it_stops_at_a_copy_of_what_it_has_sent_back_before(world: World) -> None:
    url, dead = dead_letters(world, 3)
    sends = world.client.send_message_batch

    def send_and_copy(**request: Any) -> Any:
        answer = sends(**request)
        world.send(dead, "copy", DeadLetterMessageId=answer["Successful"][0]["MessageId"])
        return answer

    world.client.send_message_batch = send_and_copy
    report = world.letters(dead).redrive(first=0)
    assert len(report.came_back) == 1
    assert world.counts(url)[0] == 3


# FIFO


def test_a_fifo_queue_keeps_groups_and_order(world: World) -> None:
    url, dead = dead_letters(world, 60, "jobs.fifo")
    report = world.letters(dead).redrive(first=5, wait=1)
    assert (report.sent, report.clean) == (60, True)
    numbers = list(map(int, world.bodies(url)))
    for group in range(3):
        assert [number for number in numbers if number % 3 == group] == list(range(group, 60, 3))


def test_a_letter_goes_back_within_the_five_minutes_of_its_deduplication_id(world: World) -> None:
    url, dead = world.pair("jobs.fifo")
    world.send(url, "x")
    world.fail(url)
    assert world.letters(dead).redrive(first=0).clean
    world.fail(url)
    # The same letter, dead again at once.
    assert world.letters(dead).redrive(first=0).clean
    assert world.bodies(url) == ["x"]


def test_a_copy_that_sqs_drops_as_a_duplicate_is_not_deleted(world: World) -> None:
    url, dead = world.pair("jobs.fifo")
    for number in range(3):
        world.send(url, str(number))
    world.fail(url)
    sends = world.client.send_message_batch

    def send_as_one(**request: Any) -> Any:
        for entry in request["Entries"]:
            entry["MessageDeduplicationId"] = "always-the-same"
        return sends(**request)

    world.client.send_message_batch = send_as_one
    report = world.letters(dead).redrive(first=0)
    assert (report.sent, report.clean) == (1, False)
    assert [refused.code for refused in report.refused] == ["Deduplicated", "EarlierMessageFailed"]
    assert world.counts(dead) == (2, 0, 0)
    assert world.bodies(url) == ["0"]


def test_a_duplicate_of_a_message_that_another_has_sent_is_told_by_its_sequence_number(world: World) -> None:
    url, dead = world.pair("jobs.fifo")
    for number in range(3):
        world.send(url, str(number))
    world.fail(url)
    request = {"MessageGroupId": "g", "MessageDeduplicationId": "taken"}
    world.client.send_message(QueueUrl=url, MessageBody="of another", **request)
    sends = world.client.send_message_batch

    def second_as_taken(**request: Any) -> Any:
        for entry in request["Entries"]:
            if entry["MessageBody"] == "1":
                entry["MessageDeduplicationId"] = "taken"
        return sends(**request)

    world.client.send_message_batch = second_as_taken
    report = world.letters(dead).redrive(first=0)
    assert [refused.code for refused in report.refused] == ["Deduplicated", "EarlierMessageFailed"]
    assert world.bodies(url) == ["of another", "0"]
    assert world.bodies(dead) == ["1", "2"]


def test_letters_behind_one_that_is_not_meant_are_counted_as_unseen(world: World) -> None:
    url, dead = world.pair("jobs.fifo")
    for number in range(25):
        world.send(url, str(number), job="mail" if number else "report")
    world.fail(url)
    report = world.letters(dead).redrive(first=0, where=Where(job="nobody"))
    assert (report.seen, report.unseen) == (10, 15)
    assert world.counts(dead) == (25, 0, 0)


def test_letters_are_held_while_those_before_them_are_sent_slowly(world: World) -> None:
    url, dead = world.pair("jobs.fifo")
    for number in range(10):
        world.send(url, str(number))
    world.fail(url)
    sends = world.client.send_message_batch

    def slowly(**request: Any) -> Any:
        world.clock.advance(10)
        return sends(**request)

    world.client.send_message_batch = slowly
    report = world.letters(dead, visibility=30).redrive(first=0)
    assert (report.sent, report.clean) == (10, True)
    assert world.counts(dead) == (0, 0, 0)


# What goes wrong


def failing(world: World, method: str, times: int, code: str = "InternalError") -> None:
    """Let entries of a batch call fail, ``times`` calls long."""
    real, left = getattr(world.client, method), [times]

    def call(**request: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            entries = [
                {"Id": entry["Id"], "Code": code, "SenderFault": False} for entry in request["Entries"]
            ]
            return {"Failed": entries}
        return real(**request)

    setattr(world.client, method, call)


def test_what_fails_once_is_sent_again(world: World) -> None:
    url, dead = dead_letters(world, 10)
    failing(world, "send_message_batch", 2)
    assert world.letters(dead).redrive(first=0).clean
    assert world.counts(url)[0] == 10


def test_what_no_queue_takes_stays_and_ends_the_run(world: World) -> None:
    url, dead = dead_letters(world, 30)
    failing(world, "send_message_batch", 1000)
    report = world.letters(dead).redrive(first=0)
    assert report.stopped is not None
    assert "InternalError" in report.stopped
    assert world.counts(dead) == (30, 0, 0)
    assert world.counts(url) == (0, 0, 0)


def test_a_delete_that_fails_is_repeated(world: World) -> None:
    _, dead = dead_letters(world, 10)
    failing(world, "delete_message_batch", 2)
    assert world.letters(dead).redrive(first=0).clean
    assert world.counts(dead) == (0, 0, 0)


def test_a_delete_that_never_succeeds_ends_the_run_and_names_the_letters(world: World) -> None:
    url, dead = dead_letters(world, 30)
    failing(world, "delete_message_batch", 1000)
    report = world.letters(dead).redrive(first=0)
    assert (len(report.not_deleted), world.counts(url)[0]) == (10, 10)
    assert report.stopped is not None
    assert world.counts(dead) == (30, 0, 0)


def test_ctrl_c_deletes_what_went_back_and_releases_the_rest(world: World) -> None:
    url, dead = dead_letters(world, 30)
    sends = world.client.send_message_batch
    calls = []

    def interrupted(**request: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return sends(**request)

    world.client.send_message_batch = interrupted
    with pytest.raises(KeyboardInterrupt):
        world.letters(dead).redrive(first=0)
    assert (world.counts(url)[0], world.counts(dead)) == (10, (20, 0, 0))


@pytest.mark.parametrize("calls", [0, 1, 5, 20])
def test_told_to_stop_it_leaves_every_letter_in_one_queue(world: World, calls: int) -> None:
    url, dead = dead_letters(world, 30)
    left = [calls]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    report = world.letters(dead).redrive(first=3, wait=100, rate=2, stop=stop)
    assert report.stopped == "told to"
    assert report.sent < 30
    assert world.counts(url) == (report.sent, 0, 0)
    assert world.counts(dead) == (30 - report.sent, 0, 0)
    assert world.clock.monotonic() < 100


@pytest.mark.parametrize("options", [{"rate": 0}, {"limit": 0}, {"first": -1}, {"look_at": 0}])
def test_an_option_out_of_range_is_refused(world: World, options: dict[str, Any]) -> None:
    _, dead = world.pair()
    with pytest.raises(ConfigurationError):
        world.letters(dead).redrive(**options)
