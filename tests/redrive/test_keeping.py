"""Export and import, repair, discard, and tasks of SQS."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.exceptions import ConfigurationError, InvalidMessageError, SQSError
from sqs_workers.redrive import AuditLog, Where
from sqs_workers.s3_payload import POINTER_CLASS
from tests.redrive.conftest import World

PICTURE = bytes(range(256))


def full(world: World, dead: str) -> list[dict[str, Any]]:
    answer = world.client.receive_message(
        QueueUrl=dead, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    found: list[dict[str, Any]] = answer.get("Messages") or []
    return found


@pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])
def test_what_is_exported_and_imported_is_as_it_was(world: World, name: str, tmp_path: Path) -> None:
    url, dead = world.pair(name)
    attributes = {
        "Picture": {"DataType": "Binary.png", "BinaryValue": PICTURE},
        "Count": {"DataType": "Number", "StringValue": "3"},
        "DeadLetterReason": {"DataType": "String", "StringValue": "permanent error"},
    }
    extra = {"MessageGroupId": "g7", "MessageDeduplicationId": "1"} if name.endswith("fifo") else {}
    body = 'q "\u00e9\U0001f600\n'
    world.client.send_message(QueueUrl=dead, MessageBody=body, MessageAttributes=attributes, **extra)
    lines = list(world.letters(dead).export())
    assert world.counts(dead)[0] == 1
    world.bodies(dead)

    report = world.letters(dead).import_lines(lines)
    assert (report.sent, report.failed) == (1, [])
    (message,) = full(world, dead)
    assert message["Body"] == body
    assert message["Attributes"].get("MessageGroupId") == extra.get("MessageGroupId")
    assert message["MessageAttributes"]["Picture"]["BinaryValue"] == PICTURE
    assert message["MessageAttributes"]["Picture"]["DataType"] == "Binary.png"
    assert message["MessageAttributes"].keys() == attributes.keys()
    assert world.letters(dead).import_lines(lines, to=url).sent == 1
    (message,) = full(world, url)
    assert message["MessageAttributes"].keys() == {"Picture", "Count"}


def test_with_a_journal_each_letter_is_imported_once(world: World, tmp_path: Path) -> None:
    _, dead = world.pair()
    for number in range(25):
        world.send(dead, str(number))
    lines = list(world.letters(dead).export())
    world.bodies(dead)
    journal = tmp_path / "journal"
    letters = world.letters(dead)
    sends = world.client.send_message_batch
    calls: list[int] = []

    def killed_in_the_second(**request: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return sends(**request)

    world.client.send_message_batch = killed_in_the_second
    with pytest.raises(KeyboardInterrupt):
        letters.import_lines(lines, journal=journal)
    report = letters.import_lines(lines, journal=journal)
    assert (report.sent, report.known) == (15, 10)
    assert letters.import_lines(lines, journal=journal).known == 25
    assert sorted(map(int, world.bodies(dead))) == list(range(25))


def test_a_fifo_queue_drops_the_second_of_two_imports(world: World) -> None:
    _, dead = world.pair("jobs.fifo")
    world.send(dead, "x")
    lines = list(world.letters(dead).export())
    world.bodies(dead)
    for _ in range(2):
        world.letters(dead).import_lines(lines)
    assert world.bodies(dead) == ["x"]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"message_id": 1, "body": "x"}',
        '{"message_id": "m", "body": "x", "attributes": {"a": {"type": "Binary", "base64": "!"}}}',
        '{"message_id": "m", "body": "x", "attributes": 3}',
    ],
)
def test_a_file_with_a_line_that_is_none_is_refused_whole(world: World, line: str) -> None:
    _, dead = world.pair()
    good = '{"message_id": "m", "body": "x"}'
    with pytest.raises(ConfigurationError, match="line 2"):
        world.letters(dead).import_lines([good, line])
    assert world.counts(dead) == (0, 0, 0)


def test_a_journal_is_about_one_queue(world: World, tmp_path: Path) -> None:
    url, dead = world.pair()
    for number in range(3):
        world.send(dead, str(number))
    letters = world.letters(dead)
    lines = list(letters.export())
    journal = tmp_path / "journal"
    other = world.queue("copies")
    assert letters.import_lines(lines, to=other, journal=journal).sent == 3
    # What is in another queue is not here.
    assert letters.import_lines(lines, to=url, journal=journal).sent == 3
    assert letters.import_lines(lines, to=url, journal=journal).known == 3
    assert (world.counts(other), world.counts(url)) == ((3, 0, 0), (3, 0, 0))
    # A journal that names no queue was written by an earlier version.
    journal.write_text("".join(f"{json.loads(line)['message_id']}\n" for line in lines))
    assert letters.import_lines(lines, to=other, journal=journal).known == 3


# Repair


def test_a_repaired_letter_takes_the_place_of_the_broken_one(world: World, tmp_path: Path) -> None:
    url, dead = world.pair()
    for body in ("fine", "broken"):
        world.send(url, body, job="mail")
    world.fail(url)
    letters = world.letters(dead)
    broken = next(letter for letter in letters.sample().letters if letter.message.body == "broken")
    audit = AuditLog(tmp_path / "audit", clock=world.clock)
    new = letters.edit(broken.id, lambda letter: letter.message.body + "!", reason="JOB-7", audit=audit)
    assert new not in (None, broken.id)
    assert world.counts(dead) == (2, 0, 0)
    (entry,) = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert (entry["action"], entry["reason"], entry["message_id"]) == ("edit", "JOB-7", broken.id)
    # SQS no longer says where it failed, and it goes back all the same.
    other = json.dumps({"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 1})
    world.queue("other", RedrivePolicy=other)
    assert letters.redrive(first=0).by_target == {url: 2}
    assert sorted(world.bodies(url)) == ["broken!", "fine"]


def test_the_old_letter_stays_when_the_new_one_is_not_taken(world: World) -> None:
    _, dead = world.pair()
    message_id = world.send(dead, "broken")
    with pytest.raises(InvalidMessageError):
        world.letters(dead).edit(message_id, lambda _: "\x00", reason="r")
    assert world.letters(dead).edit(message_id, lambda _: None, reason="r") is None
    assert world.bodies(dead) == ["broken"]


def test_a_letter_whose_body_is_in_s3_is_not_repaired_into_one_that_nobody_could_read(world: World) -> None:
    url, dead = world.pair()
    pointer = json.dumps([POINTER_CLASS, {"s3BucketName": "b", "s3Key": "old"}])
    world.send(url, pointer, job="mail", ExtendedPayloadSize="5000")
    world.fail(url)
    letters = world.letters(dead)
    [letter] = letters.sample().letters
    for body in ('{"to": "a@example.com"}', "[]", "x"):
        with pytest.raises(InvalidMessageError, match="pointer to S3"):
            letters.edit(letter.id, lambda _, body=body: body, reason="r")
    assert world.counts(dead) == (1, 0, 0)
    assert letters.edit(letter.id, lambda _: pointer.replace("old", "new"), reason="r") is not None
    assert world.bodies(dead) == [pointer.replace("old", "new")]


def test_a_letter_that_is_not_there_cannot_be_repaired(world: World) -> None:
    _, dead = world.pair()
    with pytest.raises(SQSError, match="no visible message nobody"):
        world.letters(dead).edit("nobody", lambda _: "x", reason="r")


# Discard


def test_what_is_discarded_is_in_the_audit_log_before_it_is_gone(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, dead = world.pair()
    for number in range(25):
        world.send(dead, f"secret {number}", job="mail" if number % 5 else "report")
    path = tmp_path / "audit.jsonl"
    deletes = world.client.delete_message_batch
    before: list[int] = []

    def counted(**request: Any) -> Any:
        before.append(len(path.read_text().splitlines()))
        return deletes(**request)

    world.client.delete_message_batch = counted
    with caplog.at_level(logging.WARNING, "sqs_workers.redrive"):
        done = world.letters(dead).discard(Where(job="mail"), reason="tenant is gone", audit=AuditLog(path))
    assert (len(done.ids), done.left, before) == (20, [], [10, 20])
    assert world.counts(dead) == (5, 0, 0)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert {entry["message_id"] for entry in entries} == set(done.ids)
    assert {(entry["reason"], entry["job"]) for entry in entries} == {("tenant is gone", "mail")}
    assert entries[0]["body_sha256"] in {
        hashlib.sha256(f"secret {n}".encode()).hexdigest() for n in range(25)
    }
    assert "secret" not in path.read_text()
    assert len(caplog.records) == 20
    assert "secret" not in caplog.text


def test_what_cannot_be_deleted_is_said_in_the_audit_log_too(world: World, tmp_path: Path) -> None:
    _, dead = world.pair()
    world.send(dead, "body")

    def refuse(**request: Any) -> Any:
        return {"Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in request["Entries"]]}

    world.client.delete_message_batch = refuse
    path = tmp_path / "audit.jsonl"
    done = world.letters(dead).discard(Where(), reason="r", audit=AuditLog(path, bodies=True))
    assert (done.ids, len(done.left)) == ([], 1)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["action"] for entry in entries] == ["discard", "discard failed"]
    assert entries[0]["body"] == "body"


def test_nothing_is_discarded_without_consent(world: World) -> None:
    _, dead = world.pair()
    world.send(dead, "x")
    assert world.letters(dead).discard(Where(), reason="r", confirm=lambda _: False).ids == []
    assert world.counts(dead) == (1, 0, 0)


# Tasks of SQS


def test_a_task_moves_the_whole_queue_and_is_followed_to_its_end(world: World) -> None:
    url, dead = world.pair()
    for number in range(40):
        world.send(url, str(number))
    world.fail(url)
    letters = world.letters(dead)
    letters.start_move(rate=5)
    seen: list[int] = []
    end = letters.follow_move(lambda task: seen.append(task.moved))
    assert (end.status, end.moved, end.to_move, end.rate) == ("COMPLETED", 40, 40, 5)
    assert seen == sorted(seen)
    assert len(seen) > 3
    assert world.counts(url)[0] == 40


def test_a_task_is_cancelled_and_what_is_left_stays(world: World) -> None:
    url, dead = world.pair()
    for number in range(40):
        world.send(url, str(number))
    world.fail(url)
    letters = world.letters(dead)
    letters.start_move(to=url, rate=5)
    world.clock.advance(2)
    assert letters.cancel_move() == 10
    assert (world.counts(dead)[0], world.counts(url)[0]) == (30, 10)
    assert letters.follow_move().status == "CANCELLED"
    with pytest.raises(SQSError, match="no task"):
        letters.cancel_move()


def test_a_task_whose_letters_come_back_is_cancelled(world: World) -> None:
    url, dead = world.pair()
    for number in range(100):
        world.send(url, str(number))
    world.fail(url)
    letters = world.letters(dead)
    letters.start_move(rate=5)
    end = letters.follow_move(lambda _: world.fail(url))
    assert end.status == "CANCELLED"
    assert end.moved < 40


def test_a_rate_that_sqs_does_not_take_is_refused(world: World) -> None:
    _, dead = world.pair()
    with pytest.raises(ConfigurationError, match="1 to 500"):
        world.letters(dead).start_move(rate=501)
