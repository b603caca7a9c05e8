"""Finding dead-letter queues, and looking at what is in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sqs_workers import MemorySession, SQSEnv
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.redrive import DeadLetters, Where, find_dead_letter_queues, masked, parse_where
from tests.redrive.conftest import World


def test_dead_letter_queues_are_found_by_their_attributes_and_never_by_their_names(world: World) -> None:
    dead = world.queue("graveyard")
    policy = json.dumps({"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 7})
    world.queue("shop-mail", RedrivePolicy=policy, VisibilityTimeout="90")
    world.queue("shop-dead")
    world.queue("report", RedrivePolicy=policy)
    world.send(dead, "x")
    for prefix in ("", "shop-", "grave"):
        (found,) = find_dead_letter_queues(world.client, prefix)
        assert (found.name, found.messages) == ("graveyard", 1)
        assert [source.name for source in found.sources] == ["report", "shop-mail"]
    mail = found.sources[1]
    assert (mail.max_receives, mail.visibility) == (7, 90)


def test_an_endpoint_without_the_list_of_sources_is_searched_by_redrive_policies(world: World) -> None:
    from botocore.exceptions import ClientError

    _, dead = world.pair()

    def absent(**request: Any) -> Any:
        raise ClientError(
            {"Error": {"Code": "InvalidAction"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "X"
        )

    world.client.list_dead_letter_source_queues = absent
    (found,) = find_dead_letter_queues(world.client)
    assert (found.url, [source.name for source in found.sources]) == (dead, ["jobs"])


def test_a_dead_letter_queue_that_is_gone_is_passed_over(world: World) -> None:
    _, dead = world.pair()
    world.client.delete_queue(QueueUrl=dead)
    assert find_dead_letter_queues(world.client) == []


def test_a_sample_is_grouped_by_job_and_error_and_released(world: World) -> None:
    url, dead = world.pair()
    for _ in range(3):
        world.send(
            dead, "{}", job="mail", DeadLetterReason="permanent error", DeadLetterErrorType="ValueError"
        )
    world.send(url, "{}", job="report")
    world.fail(url)
    sample = world.letters(dead).sample()
    assert sample.groups == {
        ("mail", "permanent error", "ValueError"): 3,
        ("report", "redrive policy", ""): 1,
    }
    assert world.counts(dead) == (4, 0, 0)


def test_a_sample_holds_no_more_than_asked_for(world: World) -> None:
    _, dead = world.pair()
    for number in range(40):
        world.send(dead, str(number), job="even" if number % 2 == 0 else "odd")
    assert len(world.letters(dead).sample(12).letters) == 12
    assert {letter.job for letter in world.letters(dead).sample(5, Where(job="odd")).letters} == {"odd"}
    assert world.counts(dead) == (40, 0, 0)


def test_letters_are_held_for_as_long_as_they_are_looked_at(world: World) -> None:
    _, dead = world.pair()
    for number in range(30):
        world.send(dead, str(number))
    lines = []
    for line in world.letters(dead, visibility=30).export():
        # Slower than the visibility: without an extension, the first would be seen again.
        world.clock.advance(4)
        lines.append(json.loads(line)["body"])
    assert sorted(map(int, lines)) == list(range(30))
    assert world.counts(dead) == (30, 0, 0)


def test_the_letters_of_a_queue_of_an_environment(world: World) -> None:
    sqs = SQSEnv(MemorySession(), codec="json")
    sqs.sqs_client.create_queue(QueueName="mail_dead")
    sqs.queue("mail_dead").add_job("send_mail", to="ada@example.com")
    (letter,) = DeadLetters.of(sqs.queue("mail_dead"), wait_seconds=0).sample().letters
    assert (letter.job, letter.reason) == ("send_mail", "redrive policy")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            '{"to": "ada@example.com", "n": 1.5, "ok": true, "no": null, "l": [1], "o": {"a": 1}}',
            "{to: <text of 15>, n: <number>, ok: <bool>, no: <null>, l: <list of 1>, o: <object of 1>}",
        ),
        ("secret", "<text of 6 bytes>"),
        ('"secret"', "<text of 6>"),
        ("[" * 100_000, "<text of 100000 bytes>"),
    ],
)
def test_a_masked_body_shows_its_shape_and_nothing_else(body: str, shown: str) -> None:
    assert masked(body) == shown


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("job=mail", True),
        ("job=m*", True),
        ("job=Mail", False),
        ("error=Value*", True),
        ("error=", False),
        ("reason=permanent error", True),
        ("id=original", True),
        ("attribute.tenant=7", True),
        ("attribute.tenant=8", False),
        ("group=*", True),
        ("source=jobs", False),
    ],
)
def test_a_condition_picks_letters(world: World, condition: str, matches: bool) -> None:
    _, dead = world.pair()
    world.send(
        dead,
        "{}",
        job="mail",
        tenant="7",
        DeadLetterReason="permanent error",
        DeadLetterErrorType="ValueError",
        DeadLetterMessageId="original",
    )
    (letter,) = world.letters(dead).sample().letters
    assert parse_where([condition]).matches(letter) is matches


@pytest.mark.parametrize("condition", ["job", "jobs=x", "=x", "attribute.=x", ""])
def test_what_is_no_condition_is_refused_with_the_names_that_are(condition: str) -> None:
    with pytest.raises(ConfigurationError, match=r"job, error, reason, group, id, source or attribute\.NAME"):
        parse_where([condition])
