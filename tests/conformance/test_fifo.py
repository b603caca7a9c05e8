"""FIFO queues: order, groups, sequence numbers, repeated receives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

LOGIC = guide("FIFO-queues-understanding-logic")
ATTEMPTS = guide("using-receiverequestattemptid-request-parameter")


@documented(LOGIC)
def test_messages_of_a_group_come_in_the_order_of_sending(sqs: Sqs) -> None:
    url = sqs.fifo()
    bodies = [str(number) for number in range(10)]
    sqs.send_in_group(url, *bodies)
    assert sqs.bodies(url) == bodies


@documented(LOGIC)
def test_a_group_is_blocked_while_one_of_its_messages_is_in_flight(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2")
    assert sqs.bodies(url, MaxNumberOfMessages=1) == ["1"]
    assert sqs.receive(url) == []


@documented(LOGIC)
def test_other_groups_go_on_while_one_is_blocked(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "a1", "a2", group="a")
    assert sqs.bodies(url, MaxNumberOfMessages=1) == ["a1"]
    sqs.send_in_group(url, "b1", "b2", group="b")
    assert sqs.bodies(url) == ["b1", "b2"]


@documented(LOGIC)
def test_deleting_the_message_in_flight_frees_its_group(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2")
    sqs.delete(url, sqs.receive_one(url, MaxNumberOfMessages=1))
    assert sqs.bodies(url) == ["2"]


@documented(LOGIC)
def test_deleting_some_of_a_received_group_leaves_it_blocked_until_the_rest_is_settled(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2", "3")
    first, second = sqs.receive(url, MaxNumberOfMessages=2)
    sqs.delete(url, second)
    assert sqs.receive(url) == []
    sqs.delete(url, first)
    assert sqs.bodies(url) == ["3"]


@documented(LOGIC)
def test_a_released_message_comes_before_the_later_ones_of_its_group(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2", "3")
    message = sqs.receive_one(url, MaxNumberOfMessages=1)
    sqs.hide(url, message, 0)
    assert sqs.bodies(url) == ["1", "2", "3"]


@documented(api("ReceiveMessage"))
def test_a_released_message_waits_for_the_messages_of_its_group_still_in_flight(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2")
    first, second = sqs.receive(url)
    sqs.hide(url, first, 0)
    assert sqs.receive(url) == []
    sqs.hide(url, second, 0)
    assert sqs.bodies(url) == ["1", "2"]


@documented(LOGIC)
def test_a_group_comes_back_in_order_after_its_visibility_timeout(sqs: Sqs) -> None:
    url = sqs.fifo(VisibilityTimeout="1")
    sqs.send_in_group(url, "1", "2", "3")
    assert sqs.bodies(url, MaxNumberOfMessages=2) == ["1", "2"]
    sqs.elapse(1.2)
    assert sqs.eventually(lambda: sqs.bodies(url)) == ["1", "2", "3"]


@documented(LOGIC)
def test_one_receive_may_hold_several_groups_each_in_its_order(sqs: Sqs) -> None:
    url = sqs.fifo()
    for number in "123":
        sqs.send_in_group(url, f"a{number}", group="a")
        sqs.send_in_group(url, f"b{number}", group="b")
    bodies = sqs.bodies(url)
    assert [body for body in bodies if body.startswith("a")] == ["a1", "a2", "a3"]
    assert [body for body in bodies if body.startswith("b")] == ["b1", "b2", "b3"]


@documented(api("SendMessage"))
def test_sequence_numbers_grow_and_come_with_the_message(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    sent = [sqs.send(url, body, MessageGroupId="g")["SequenceNumber"] for body in "abc"]
    received = [
        message["Attributes"]["SequenceNumber"]
        for message in sqs.receive(url, MessageSystemAttributeNames=["All"])
    ]
    assert received == sent
    assert [int(number) for number in sent] == sorted({int(number) for number in sent})


@documented(api("SendMessage"))
def test_a_sequence_number_is_large_and_has_128_bits_at_most(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    number = int(sqs.send(url, MessageGroupId="g")["SequenceNumber"])
    assert 2**32 < number < 2**128


@documented(api("ReceiveMessage"))
def test_all_returns_group_deduplication_id_and_sequence_number(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send(url, MessageGroupId="group", MessageDeduplicationId="unique")
    attributes = sqs.receive_one(url)["Attributes"]
    assert attributes["MessageGroupId"] == "group"
    assert attributes["MessageDeduplicationId"] == "unique"
    assert {"SequenceNumber", "SenderId", "SentTimestamp", "ApproximateReceiveCount"} <= set(attributes)


@documented(guide("using-messagegroupid-property"))
def test_a_message_without_a_group_is_refused(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("MissingParameter"):
        sqs.send(url, MessageDeduplicationId="d")


@documented(api("SendMessage"))
@pytest.mark.parametrize("name", ["MessageGroupId", "MessageDeduplicationId"])
@pytest.mark.parametrize(
    "value", ["i" * 129, "white space", "ünicode"], ids=["129-characters", "space", "umlaut"]
)
def test_a_group_or_deduplication_id_outside_of_the_rules_is_refused(sqs: Sqs, name: str, value: str) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidParameterValue"):
        sqs.send(url, **{"MessageGroupId": "g", "MessageDeduplicationId": "d", name: value})


@documented(api("SendMessage"))
def test_ids_of_128_characters_and_all_punctuation_are_accepted(sqs: Sqs) -> None:
    url = sqs.fifo()
    value = "aZ09!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".ljust(128, "x")
    sqs.send(url, MessageGroupId=value, MessageDeduplicationId=value)
    attributes = sqs.receive_one(url)["Attributes"]
    assert attributes["MessageGroupId"] == attributes["MessageDeduplicationId"] == value


# ReceiveRequestAttemptId


def attempt(sqs: Sqs, url: str, attempt_id: str, **options: Any) -> list[str]:
    messages = sqs.receive(url, ReceiveRequestAttemptId=attempt_id, **options)
    return [message["ReceiptHandle"] for message in messages]


@documented(ATTEMPTS)
def test_a_repeated_attempt_returns_the_same_messages_and_receipts(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2")
    first = attempt(sqs, url, "attempt")
    assert len(first) == 2
    assert attempt(sqs, url, "attempt") == first
    assert attempt(sqs, url, "another") == []


@documented(ATTEMPTS)
def test_a_repeated_attempt_fails_once_a_message_was_deleted(sqs: Sqs) -> None:
    url = sqs.fifo()
    sqs.send_in_group(url, "1", "2")
    first, _second = attempt(sqs, url, "attempt")
    sqs.client.delete_message(QueueUrl=url, ReceiptHandle=first)
    assert attempt(sqs, url, "attempt") == []


@documented(ATTEMPTS)
@memory_only("29 seconds pass")
def test_a_repeated_attempt_resets_the_visibility_timeout(sqs: Sqs) -> None:
    url = sqs.fifo(VisibilityTimeout="30")
    sqs.send_in_group(url, "1")
    first = attempt(sqs, url, "attempt")
    sqs.elapse(29)
    assert attempt(sqs, url, "attempt") == first
    sqs.elapse(29)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert sqs.bodies(url) == ["1"]


@documented(ATTEMPTS)
@memory_only("5 minutes pass")
def test_an_attempt_is_remembered_for_five_minutes(sqs: Sqs) -> None:
    url = sqs.fifo(VisibilityTimeout="3600")
    sqs.send_in_group(url, "1")
    first = attempt(sqs, url, "attempt")
    sqs.elapse(299)
    assert attempt(sqs, url, "attempt") == first
    sqs.elapse(301)
    assert attempt(sqs, url, "attempt") == []


@documented(api("ReceiveMessage"))
def test_an_attempt_id_of_129_characters_is_refused(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidParameterValue"):
        attempt(sqs, url, "i" * 129)
