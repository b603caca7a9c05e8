"""The visibility timeout, and the receipts that come and go with it."""

from __future__ import annotations

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

TWELVE_HOURS = 43_200


@documented(guide("sqs-visibility-timeout"))
def test_a_received_message_is_hidden(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    assert len(sqs.receive(url)) == 1
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 1, 0)


@documented(guide("sqs-visibility-timeout"))
def test_a_message_comes_back_after_its_timeout_with_a_higher_count_and_a_new_receipt(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    first = sqs.receive_one(url)
    sqs.elapse(1)
    second = sqs.receive_again(url)
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"


@documented(guide("sqs-visibility-timeout"))
@memory_only("30 seconds pass")
def test_the_default_timeout_is_30_seconds(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    sqs.receive_one(url)
    sqs.elapse(29)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert len(sqs.receive(url)) == 1


@documented(api("ReceiveMessage"))
@memory_only("50 seconds pass")
def test_a_receive_may_bring_its_own_timeout(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="10")
    sqs.send(url)
    sqs.receive_one(url, VisibilityTimeout=50)
    sqs.elapse(49)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert len(sqs.receive(url)) == 1


@documented(api("ReceiveMessage"))
def test_a_receive_with_a_timeout_of_zero_hides_nothing(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    counts = [
        sqs.receive_one(url, VisibilityTimeout=0)["Attributes"]["ApproximateReceiveCount"] for _ in range(3)
    ]
    assert counts == ["1", "2", "3"]


@documented(api("ChangeMessageVisibility"))
def test_a_timeout_changed_to_zero_shows_the_message_at_once(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    sqs.hide(url, sqs.receive_one(url), 0)
    assert sqs.receive_one(url)["Attributes"]["ApproximateReceiveCount"] == "2"


@documented(api("ChangeMessageVisibility"))
def test_a_longer_timeout_keeps_the_message_hidden(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    sqs.hide(url, sqs.receive_one(url), 600)
    sqs.elapse(1.2)
    assert sqs.receive(url) == []


@documented(api("ChangeMessageVisibility"))
@memory_only("70 seconds pass")
def test_the_new_timeout_counts_from_the_call(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="60")
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.elapse(15)
    sqs.hide(url, message, 10)
    sqs.elapse(9)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert len(sqs.receive(url)) == 1


@documented(api("ChangeMessageVisibility"))
@memory_only("30 seconds pass")
def test_the_new_timeout_is_not_kept_for_the_next_receive(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="20")
    sqs.send(url)
    sqs.hide(url, sqs.receive_one(url), 1)
    sqs.elapse(1)
    sqs.receive_one(url)
    sqs.elapse(19)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert len(sqs.receive(url)) == 1


@documented(api("ChangeMessageVisibility"))
@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_a_new_timeout_out_of_range_is_refused(sqs: Sqs, seconds: int) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url)
    with sqs.refused("InvalidParameterValue"):
        sqs.hide(url, message, seconds)


@documented(guide("sqs-visibility-timeout"))
@memory_only("an hour passes")
def test_a_message_is_in_flight_for_12_hours_from_its_receipt_at_most(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="7200")
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.elapse(3600)
    with sqs.refused("InvalidParameterValue"):
        sqs.hide(url, message, TWELVE_HOURS)
    with sqs.refused("InvalidParameterValue"):
        sqs.hide(url, message, TWELVE_HOURS - 3599)
    sqs.hide(url, message, TWELVE_HOURS - 3600)


@documented(guide("sqs-visibility-timeout"))
@memory_only("12 hours pass")
def test_extending_again_and_again_ends_at_12_hours_and_a_new_receive_starts_afresh(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url, VisibilityTimeout=14_400)
    for _ in range(2):
        sqs.elapse(14_000)
        sqs.hide(url, message, 14_400)
    sqs.elapse(14_000)
    with sqs.refused("InvalidParameterValue"):
        sqs.hide(url, message, 1_201)
    sqs.hide(url, message, 1_200)
    sqs.elapse(1_200)
    sqs.hide(url, sqs.receive_one(url), TWELVE_HOURS)


@documented(api("ChangeMessageVisibility"))
def test_an_expired_message_that_is_hidden_again_stays_visible(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.elapse(1.2)
    sqs.hide(url, message, 600)
    sqs.receive_one(url)


@documented(api("ChangeMessageVisibility"))
def test_the_timeout_of_a_deleted_message_cannot_be_changed(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.delete(url, message)
    with sqs.refused("InvalidParameterValue", "AWS.SimpleQueueService.MessageNotInflight"):
        sqs.hide(url, message, 10)


@documented(api("ChangeMessageVisibility"))
def test_the_timeout_cannot_be_changed_by_something_that_is_no_receipt(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("ReceiptHandleIsInvalid", modeled="ReceiptHandleIsInvalid"):
        sqs.client.change_message_visibility(QueueUrl=url, ReceiptHandle="no receipt", VisibilityTimeout=1)


@documented(api("SetQueueAttributes"))
@memory_only("60 seconds pass")
def test_a_new_timeout_of_the_queue_holds_for_later_receives(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="10")
    sqs.send(url)
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "100"})
    sqs.propagate()
    sqs.receive_one(url)
    sqs.elapse(99)
    assert sqs.receive(url) == []
    sqs.elapse(1)
    assert len(sqs.receive(url)) == 1


# Deleting


@documented(api("DeleteMessage"))
def test_a_deleted_message_never_comes_back(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    sqs.delete(url, sqs.receive_one(url))
    sqs.elapse(1.2)
    assert sqs.receive(url) == []
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("DeleteMessage"))
def test_deleting_twice_succeeds(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.delete(url, message)
    sqs.delete(url, message)


@documented(api("DeleteMessage"))
def test_deleting_by_something_that_is_no_receipt_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("ReceiptHandleIsInvalid", modeled="ReceiptHandleIsInvalid"):
        sqs.client.delete_message(QueueUrl=url, ReceiptHandle="no receipt")


@documented(api("DeleteMessage"))
def test_deleting_by_the_message_id_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    message = sqs.receive_one(url)
    with sqs.refused("ReceiptHandleIsInvalid", modeled="ReceiptHandleIsInvalid"):
        sqs.client.delete_message(QueueUrl=url, ReceiptHandle=message["MessageId"])


@documented(api("DeleteMessage"))
def test_an_old_receipt_succeeds_and_the_newest_one_deletes(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url)
    old = sqs.receive_one(url, VisibilityTimeout=0)
    new = sqs.receive_one(url)
    sqs.delete(url, old)
    sqs.delete(url, new)
    assert sqs.counts(url) == (0, 0, 0)


@documented(api("DeleteMessage"))
def test_the_receipt_of_an_expired_message_deletes_it_from_a_standard_queue(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="1")
    sqs.send(url)
    message = sqs.receive_one(url)
    sqs.elapse(1.2)
    sqs.delete(url, message)
    assert sqs.receive(url) == []


@documented(guide("FIFO-queues-understanding-logic"))
def test_the_receipt_of_an_expired_message_is_refused_by_a_fifo_queue(sqs: Sqs) -> None:
    url = sqs.fifo(VisibilityTimeout="1")
    sqs.send_in_group(url, "body")
    message = sqs.receive_one(url)
    sqs.elapse(1.2)
    with sqs.refused("InvalidParameterValue"):
        sqs.delete(url, message)
    assert sqs.receive_again(url)["MessageId"] == message["MessageId"]
