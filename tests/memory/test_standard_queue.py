from __future__ import annotations

from typing import Any

import pytest

from tests.memory.driver import bodies, counts, receive, refused


def test_a_received_message_is_hidden_until_its_timeout_and_then_comes_back_with_a_new_receipt(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue(VisibilityTimeout="30")
    client.send_message(QueueUrl=url, MessageBody="one")
    (first,) = receive(client, url)
    clock.advance(29.5)
    assert receive(client, url) == []
    clock.advance(0.5)
    (second,) = receive(client, url)
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert [m["Attributes"]["ApproximateReceiveCount"] for m in (first, second)] == ["1", "2"]
    stamps = [m["Attributes"]["ApproximateFirstReceiveTimestamp"] for m in (first, second)]
    assert stamps[0] == stamps[1] == str(int(clock.time() * 1000) - 30_000)


def test_a_receive_may_choose_its_own_timeout_and_zero_leaves_the_message_visible(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    assert bodies(receive(client, url, VisibilityTimeout=0)) == ["one"]
    assert bodies(receive(client, url, VisibilityTimeout=5)) == ["one"]
    clock.advance(4)
    assert receive(client, url) == []
    clock.advance(1)
    assert receive(client, url)[0]["Attributes"]["ApproximateReceiveCount"] == "3"


def test_a_delete_with_an_older_receipt_succeeds_and_deletes_nothing(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    (first,) = receive(client, url)
    clock.advance(30)
    (second,) = receive(client, url)
    client.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert counts(client, url) == (0, 1, 0)
    client.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    assert counts(client, url) == (0, 0, 0)
    client.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])


def test_the_newest_receipt_deletes_a_message_that_has_become_visible_again(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    (message,) = receive(client, url)
    clock.advance(31)
    assert counts(client, url) == (1, 0, 0)
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert counts(client, url) == (0, 0, 0)
    assert receive(client, url) == []


@pytest.mark.parametrize("handle", ["x", "AQEB", "AQEB####", "AQEBMTox"])
def test_a_receipt_that_was_never_given_out_is_refused(client: Any, make_queue: Any, handle: str) -> None:
    url = make_queue()
    with refused("ReceiptHandleIsInvalid"):
        client.delete_message(QueueUrl=url, ReceiptHandle=handle)
    with refused("ReceiptHandleIsInvalid"):
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=1)


def test_the_receipt_of_another_queue_is_refused(client: Any, make_queue: Any) -> None:
    url, other = make_queue("one"), make_queue("other")
    client.send_message(QueueUrl=url, MessageBody="x")
    client.send_message(QueueUrl=other, MessageBody="x")
    (message,) = receive(client, url)
    with refused("ReceiptHandleIsInvalid"):
        client.delete_message(QueueUrl=other, ReceiptHandle=message["ReceiptHandle"])


def test_a_heartbeat_counts_from_now_and_shortening_works_as_well(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue(VisibilityTimeout="30")
    client.send_message(QueueUrl=url, MessageBody="one")
    handle = receive(client, url)[0]["ReceiptHandle"]
    for _ in range(5):
        clock.advance(20)
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=30)
    clock.advance(29)
    assert counts(client, url) == (0, 1, 0)
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=3)
    clock.advance(2)
    assert counts(client, url) == (0, 1, 0)
    clock.advance(1)
    assert counts(client, url) == (1, 0, 0)


def test_a_message_that_timed_out_stays_visible_whatever_its_receiver_asks(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    handle = receive(client, url)[0]["ReceiptHandle"]
    clock.advance(30)
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=100)
    assert counts(client, url) == (1, 0, 0)


def test_a_released_message_is_not_in_flight_and_an_older_receipt_cannot_hold_it(
    client: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    handle = receive(client, url)[0]["ReceiptHandle"]
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    with refused("AWS.SimpleQueueService.MessageNotInflight"):
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=10)
    with pytest.raises(client.exceptions.MessageNotInflight):
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=10)
    assert len(receive(client, url)) == 1
    with refused("InvalidParameterValue", "not available for visibility timeout change"):
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=10)


def test_a_message_stays_in_flight_for_twelve_hours_from_its_receipt_at_most(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    handle = receive(client, url, VisibilityTimeout=43_200)[0]["ReceiptHandle"]
    clock.advance(100)
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=43_100)
    with refused("InvalidParameterValue", "beyond the limit [43200 seconds]"):
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=43_101)
    clock.advance(43_100)
    assert counts(client, url) == (1, 0, 0)


def test_delays_of_the_message_and_of_the_queue(client: Any, clock: Any, make_queue: Any) -> None:
    url = make_queue(DelaySeconds="10")
    client.send_message(QueueUrl=url, MessageBody="queue's")
    client.send_message(QueueUrl=url, MessageBody="none", DelaySeconds=0)
    client.send_message(QueueUrl=url, MessageBody="own", DelaySeconds=900)
    assert counts(client, url) == (1, 0, 2)
    assert bodies(receive(client, url)) == ["none"]
    clock.advance(10)
    assert bodies(receive(client, url)) == ["queue's"]
    clock.advance(889)
    assert "own" not in bodies(receive(client, url))
    clock.advance(1)
    assert "own" in bodies(receive(client, url))


def test_a_message_expires_with_its_retention_period_even_in_flight(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue(MessageRetentionPeriod="60")
    client.send_message(QueueUrl=url, MessageBody="one")
    clock.advance(59)
    client.send_message(QueueUrl=url, MessageBody="two")
    assert len(receive(client, url)) == 2
    clock.advance(1)
    assert counts(client, url) == (0, 1, 0)
    clock.advance(59)
    assert counts(client, url) == (0, 0, 0)


def test_a_shorter_retention_period_applies_to_messages_already_there(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="one")
    clock.advance(120)
    client.send_message(QueueUrl=url, MessageBody="two")
    client.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": "100"})
    assert bodies(receive(client, url)) == ["two"]


def test_the_in_flight_limit_is_an_error_for_a_short_poll_alone(
    session: Any, client: Any, clock: Any, make_queue: Any
) -> None:
    session.backend.max_in_flight = 3
    url = make_queue()
    for number in range(5):
        client.send_message(QueueUrl=url, MessageBody=str(number))
    assert len(receive(client, url)) == 3
    with refused("OverLimit"):
        receive(client, url)
    with pytest.raises(client.exceptions.OverLimit):
        receive(client, url)
    assert session.backend.receive_now({"QueueUrl": url, "WaitTimeSeconds": 5}).answer == {}
    clock.advance(30)
    assert len(receive(client, url)) == 3


def test_purging_removes_what_is_visible_delayed_and_in_flight_once_in_sixty_seconds(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    for delay in (0, 0, 50):
        client.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay)
    receive(client, url, 1)
    assert counts(client, url) == (1, 1, 1)
    client.purge_queue(QueueUrl=url)
    assert counts(client, url) == (0, 0, 0)
    clock.advance(59)
    with pytest.raises(client.exceptions.PurgeQueueInProgress):
        client.purge_queue(QueueUrl=url)
    clock.advance(1)
    client.purge_queue(QueueUrl=url)


def test_a_name_can_be_used_again_sixty_seconds_after_its_queue_was_deleted(
    client: Any, clock: Any, make_queue: Any
) -> None:
    url = make_queue()
    client.send_message(QueueUrl=url, MessageBody="old")
    client.delete_queue(QueueUrl=url)
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        receive(client, url)
    clock.advance(59)
    with refused("AWS.SimpleQueueService.QueueDeletedRecently"):
        make_queue()
    clock.advance(1)
    assert make_queue() == url
    assert receive(client, url) == []


def test_the_group_of_a_message_on_a_standard_queue_comes_with_it_and_blocks_nothing(
    client: Any, make_queue: Any
) -> None:
    url = make_queue()
    for number in range(3):
        client.send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId="tenant")
    first = receive(client, url, 1) + receive(client, url, 1)
    assert bodies(first) == ["0", "1"]
    assert first[0]["Attributes"]["MessageGroupId"] == "tenant"
    assert "SequenceNumber" not in first[0]["Attributes"]
