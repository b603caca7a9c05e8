from __future__ import annotations

from typing import Any

from tests.memory.driver import bodies, counts, receive, refused


def send(client: Any, url: str, group: str, *texts: str) -> None:
    for text in texts:
        client.send_message(QueueUrl=url, MessageBody=text, MessageGroupId=group)


def delete(client: Any, url: str, *messages: dict[str, Any]) -> None:
    for message in messages:
        client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_a_group_is_blocked_while_one_of_its_messages_is_in_flight(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1", "a2", "a3")
    send(client, url, "b", "b1")
    first = receive(client, url, 2)
    assert bodies(first) == ["a1", "a2"]
    assert bodies(receive(client, url)) == ["b1"]
    delete(client, url, first[0])
    assert receive(client, url) == []
    delete(client, url, first[1])
    assert bodies(receive(client, url)) == ["a3"]


def test_a_message_that_comes_back_goes_before_the_later_ones_of_its_group(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1", "a2", "a3")
    receive(client, url, 2)
    clock.advance(30)
    again = receive(client, url, 10)
    assert bodies(again) == ["a1", "a2", "a3"]
    for message in reversed(again):
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    assert bodies(receive(client, url, 10)) == ["a1", "a2", "a3"]


def test_an_older_message_released_while_a_younger_is_in_flight_waits_for_it(
    client: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1", "a2")
    one, two = receive(client, url)
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0)
    assert receive(client, url) == []
    delete(client, url, two)
    assert bodies(receive(client, url)) == ["a1"]


def test_an_expired_receipt_neither_deletes_nor_extends(client: Any, clock: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1")
    (first,) = receive(client, url)
    clock.advance(30)
    for _ in range(2):
        with refused("InvalidParameterValue", "The receipt handle has expired."):
            delete(client, url, first)
        with refused("InvalidParameterValue", "The receipt handle has expired."):
            client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=10
            )
        receive(client, url)
    assert counts(client, url) == (0, 1, 0)


def test_sequence_numbers_grow_and_a_duplicate_gets_the_answer_of_the_first(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo")

    def put(text: str) -> Any:
        return client.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="a")

    first, second = put("x"), put("y")
    assert int(first["SequenceNumber"]) < int(second["SequenceNumber"])
    assert len(first["SequenceNumber"]) == 20
    delete(client, url, *receive(client, url))
    again = put("x")
    assert [again[k] for k in ("MessageId", "SequenceNumber")] == [
        first[k] for k in ("MessageId", "SequenceNumber")
    ]
    assert receive(client, url) == []
    clock.advance(299)
    put("x")
    assert receive(client, url) == []
    clock.advance(1)
    assert put("x")["MessageId"] != first["MessageId"]
    assert bodies(receive(client, url)) == ["x"]


def test_deduplication_spans_the_queue_or_the_group_as_configured(client: Any, make_queue: Any) -> None:
    wide = make_queue("wide.fifo")
    narrow = make_queue("narrow.fifo", DeduplicationScope="messageGroup")
    for url in (wide, narrow):
        for group in ("a", "b", "a"):
            client.send_message(
                QueueUrl=url, MessageBody=group, MessageGroupId=group, MessageDeduplicationId="same"
            )
    assert bodies(receive(client, wide)) == ["a"]
    assert bodies(receive(client, narrow)) == ["a", "b"]


def test_a_duplicate_within_one_batch_is_accepted_and_dropped(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    entries = [{"Id": str(n), "MessageBody": "same", "MessageGroupId": "a"} for n in range(3)]
    answer = client.send_message_batch(QueueUrl=url, Entries=entries)
    assert len({entry["MessageId"] for entry in answer["Successful"]}) == 1
    assert len(answer["Successful"]) == 3
    assert len(receive(client, url)) == 1


def test_a_shorter_delay_of_the_queue_shows_waiting_messages_in_their_order(
    client: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo", DelaySeconds="10")
    send(client, url, "a", "a1")
    client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
    send(client, url, "a", "a2")
    send(client, url, "b", "b1")
    assert bodies(receive(client, url)) == ["a1", "a2", "b1"]


def test_a_batch_without_groups_is_refused_as_a_whole(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    entries = [
        {"Id": "1", "MessageBody": "x", "MessageGroupId": "a"},
        {"Id": "2", "MessageBody": "y"},
    ]
    with refused("InvalidParameterValue", "MessageGroupId"):
        client.send_message_batch(QueueUrl=url, Entries=entries)
    with refused("MissingParameter", "MessageGroupId"):
        client.send_message(QueueUrl=url, MessageBody="x")
    assert counts(client, url) == (0, 0, 0)


def test_the_in_flight_limit_of_a_fifo_queue_is_no_error(session: Any, client: Any, make_queue: Any) -> None:
    session.backend.max_in_flight = 1
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1")
    send(client, url, "b", "b1")
    assert bodies(receive(client, url)) == ["a1"]
    assert receive(client, url) == []


def test_a_repeated_receive_attempt_gets_the_same_messages_and_a_fresh_timeout(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1", "a2", "a3")
    first = receive(client, url, 2, ReceiveRequestAttemptId="try")
    clock.advance(20)
    again = receive(client, url, 2, ReceiveRequestAttemptId="try")
    assert again == first
    clock.advance(20)
    assert receive(client, url, 2, ReceiveRequestAttemptId="other") == []
    assert counts(client, url) == (1, 2, 0)
    clock.advance(10)
    assert bodies(receive(client, url)) == ["a1", "a2", "a3"]


def test_a_receive_attempt_whose_messages_were_touched_is_a_new_receive(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1")
    send(client, url, "b", "b1")
    first = receive(client, url, 1, ReceiveRequestAttemptId="try")
    delete(client, url, *first)
    assert bodies(receive(client, url, 1, ReceiveRequestAttemptId="try")) == ["b1"]


def test_a_fifo_queue_takes_no_delay_of_a_single_message(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    with refused("InvalidParameterValue", "not valid for this queue type"):
        client.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a", DelaySeconds=2)
    client.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a", DelaySeconds=0)


def test_expired_messages_of_a_group_do_not_block_it(client: Any, clock: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo", MessageRetentionPeriod="60")
    send(client, url, "a", "a1")
    receive(client, url, VisibilityTimeout=600)
    clock.advance(40)
    send(client, url, "a", "a2")
    assert receive(client, url) == []
    clock.advance(20)
    assert bodies(receive(client, url)) == ["a2"]


def test_a_receive_attempt_whose_message_was_held_longer_is_a_new_receive(
    client: Any, make_queue: Any
) -> None:
    url = make_queue("jobs.fifo")
    send(client, url, "a", "a1")
    (message,) = receive(client, url, ReceiveRequestAttemptId="try")
    client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=100
    )
    assert receive(client, url, ReceiveRequestAttemptId="try") == []
