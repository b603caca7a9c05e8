"""A redrive that cannot go on says what is done, and letters that cannot go back do not hold up the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.redrive.redriving import SOURCE_MISSING
from tests.redrive.conftest import World


def denied(**_: Any) -> Any:
    answer: Any = {
        "Error": {"Code": "AccessDenied", "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": 403},
    }
    raise ClientError(answer, "ReceiveMessage")


def test_letters_whose_queue_is_gone_stay_and_the_others_go_back(world: World) -> None:
    url, dead = world.pair()
    policy = json.dumps({"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 1})
    old = world.queue("old", RedrivePolicy=policy)
    for number in range(3):
        world.send(old, f"old {number}")
        world.send(url, f"new {number}")
    world.fail(old)
    world.fail(url)
    world.client.delete_queue(QueueUrl=old)
    said: list[str] = []
    report = world.letters(dead).redrive(first=2, wait=1, progress=said.append)
    assert (report.sent, report.by_target, report.stopped) == (3, {url: 3}, None)
    assert [(refused.code, refused.letter.message.body) for refused in report.refused] == [
        (SOURCE_MISSING, f"old {number}") for number in range(3)
    ]
    assert not report.clean
    assert sum(":old, or these credentials" in line for line in said) == 1
    assert sorted(world.bodies(url)) == ["new 0", "new 1", "new 2"]
    assert world.counts(dead) == (3, 0, 0)
    new_home = world.queue("home")
    assert world.letters(dead).redrive(first=0, to=new_home).by_target == {new_home: 3}


@pytest.mark.parametrize("operation", ["receive_message", "get_queue_attributes"])
def test_an_error_after_letters_went_back_does_not_hide_that(
    world: World, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, dead = world.pair()
    for number in range(12):
        world.send(url, str(number))
    world.fail(url)
    letters = world.letters(dead)
    real = world.client.delete_message_batch

    def delete(**request: Any) -> Any:
        monkeypatch.setattr(world.client, operation, denied)
        return real(**request)

    monkeypatch.setattr(world.client, "delete_message_batch", delete)
    report = letters.redrive(first=5, wait=1)
    monkeypatch.undo()
    assert report.sent == 5
    assert report.stopped is not None
    assert "AccessDenied" in report.stopped
    assert not report.clean
    assert world.counts(url)[0] == 5
    assert world.counts(dead) == (7, 0, 0)


def test_an_error_before_any_went_back_is_raised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, dead = world.pair()
    world.send(dead, "x")
    letters = world.letters(dead)
    monkeypatch.setattr(world.client, "receive_message", denied)
    with pytest.raises(ClientError):
        letters.redrive(first=0)


def test_a_letter_that_does_not_say_where_it_failed_ends_a_run_that_has_begun(world: World) -> None:
    url, dead = world.pair()
    world.queue(
        "second", RedrivePolicy=json.dumps({"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 1})
    )
    world.send(url, "known")
    world.fail(url)
    world.send(dead, "unknown")
    report = world.letters(dead).redrive(first=1, wait=1)
    assert report.sent == 1
    assert report.stopped is not None
    assert "say where the letters are to go" in report.stopped
    with pytest.raises(ConfigurationError, match="say where the letters are to go"):
        world.letters(dead).redrive(first=1, wait=1)
