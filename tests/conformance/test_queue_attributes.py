"""Attributes of a queue: defaults, ranges, and what may be set."""

from __future__ import annotations

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

RANGES = {
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
}
BOUNDS = [pytest.param(name, bound, id=f"{name}-{bound}") for name, both in RANGES.items() for bound in both]
OUTSIDE = [
    pytest.param(name, value, id=f"{name}-{value}")
    for name, (low, high) in RANGES.items()
    for value in (low - 1, high + 1)
]


@documented(api("CreateQueue"))
def test_a_queue_created_without_attributes_has_the_defaults(sqs: Sqs) -> None:
    found = sqs.attributes(sqs.queue())
    expected = {
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "VisibilityTimeout": "30",
        "SqsManagedSseEnabled": "true",
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert int(found["CreatedTimestamp"]) == int(found["LastModifiedTimestamp"])
    assert not {"Policy", "RedrivePolicy", "RedriveAllowPolicy", "FifoQueue"} & set(found)


@documented(api("CreateQueue"))
def test_a_fifo_queue_created_without_attributes_has_the_defaults(sqs: Sqs) -> None:
    found = sqs.attributes(sqs.fifo())
    expected = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }
    assert {name: found.get(name) for name in expected} == expected


@documented(api("CreateQueue"))
@pytest.mark.parametrize(("name", "value"), BOUNDS)
def test_both_ends_of_a_range_are_accepted_on_create_and_on_set(sqs: Sqs, name: str, value: int) -> None:
    url = sqs.queue(**{name: str(value)})
    assert sqs.attributes(url, name) == {name: str(value)}
    other = sqs.queue()
    sqs.client.set_queue_attributes(QueueUrl=other, Attributes={name: str(value)})
    assert sqs.attributes(other, name) == {name: str(value)}


@documented(api("CreateQueue"))
@pytest.mark.parametrize(("name", "value"), OUTSIDE)
def test_a_value_out_of_range_is_refused_on_create(sqs: Sqs, name: str, value: int) -> None:
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.queue(**{name: str(value)})


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize(("name", "value"), OUTSIDE)
def test_a_value_out_of_range_is_refused_on_set(sqs: Sqs, name: str, value: int) -> None:
    url = sqs.queue()
    before = sqs.attributes(url, name)
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={name: str(value)})
    assert sqs.attributes(url, name) == before


@documented(api("CreateQueue"))
@pytest.mark.parametrize("value", ["ten", "1.5", "-", ""], ids=["word", "fraction", "sign", "empty"])
def test_a_value_that_is_no_integer_is_refused(sqs: Sqs, value: str) -> None:
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.queue(VisibilityTimeout=value)


@documented(api("CreateQueue"))
def test_an_unknown_attribute_is_refused_on_create(sqs: Sqs) -> None:
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.queue(Colour="red")


@documented(api("SetQueueAttributes"))
def test_an_unknown_attribute_is_refused_on_set(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"Colour": "red"})


@documented(api("GetQueueAttributes"))
def test_an_unknown_attribute_is_refused_on_get(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.attributes(url, "Colour")


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize("name", ["QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages"])
def test_what_sqs_itself_maintains_cannot_be_set(sqs: Sqs, name: str) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={name: "1"})


@documented(api("GetQueueAttributes"))
def test_only_the_attributes_that_were_asked_for_are_returned(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="7", DelaySeconds="3")
    assert sqs.attributes(url, "VisibilityTimeout", "DelaySeconds") == {
        "VisibilityTimeout": "7",
        "DelaySeconds": "3",
    }


@documented(api("GetQueueAttributes"))
def test_without_names_no_attributes_are_returned(sqs: Sqs) -> None:
    assert not sqs.client.get_queue_attributes(QueueUrl=sqs.queue()).get("Attributes")


@documented(api("SetQueueAttributes"))
def test_setting_one_attribute_leaves_the_others(sqs: Sqs) -> None:
    url = sqs.queue(VisibilityTimeout="7", DelaySeconds="3")
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "9"})
    assert sqs.attributes(url, "VisibilityTimeout", "DelaySeconds") == {
        "VisibilityTimeout": "9",
        "DelaySeconds": "3",
    }


@documented(api("SetQueueAttributes"))
def test_one_wrong_attribute_leaves_all_of_them_unset(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.client.set_queue_attributes(
            QueueUrl=url, Attributes={"VisibilityTimeout": "9", "DelaySeconds": "901"}
        )
    assert sqs.attributes(url, "VisibilityTimeout") == {"VisibilityTimeout": "30"}


@documented(api("GetQueueAttributes"))
@memory_only("the clock is compared to the second")
def test_setting_an_attribute_moves_the_time_of_the_last_change(sqs: Sqs) -> None:
    url = sqs.queue()
    created = int(sqs.attributes(url, "CreatedTimestamp")["CreatedTimestamp"])
    sqs.elapse(100)
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"})
    found = sqs.attributes(url, "CreatedTimestamp", "LastModifiedTimestamp")
    assert found == {"CreatedTimestamp": str(created), "LastModifiedTimestamp": str(created + 100)}


@documented(api("CreateQueue"))
def test_the_type_of_a_standard_queue_cannot_be_changed(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"FifoQueue": "true"})


@documented(api("CreateQueue"))
def test_the_type_of_a_fifo_queue_cannot_be_changed(sqs: Sqs) -> None:
    url = sqs.fifo()
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"FifoQueue": "false"})


@documented(api("CreateQueue"))
@pytest.mark.parametrize("name", ["ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"])
def test_attributes_of_fifo_queues_are_refused_on_a_standard_queue(sqs: Sqs, name: str) -> None:
    value = {"ContentBasedDeduplication": "true", "DeduplicationScope": "queue"}.get(name, "perQueue")
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.queue(**{name: value})


@documented(api("CreateQueue"))
@pytest.mark.parametrize("name", ["ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"])
def test_attributes_of_fifo_queues_take_only_their_own_values(sqs: Sqs, name: str) -> None:
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.fifo(by_content=False, **{name: "sometimes"})


@documented(guide("high-throughput-fifo"))
def test_a_throughput_limit_per_group_needs_deduplication_per_group(sqs: Sqs) -> None:
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.fifo(FifoThroughputLimit="perMessageGroupId", DeduplicationScope="queue")
    url = sqs.fifo(FifoThroughputLimit="perMessageGroupId", DeduplicationScope="messageGroup")
    assert sqs.attributes(url, "FifoThroughputLimit") == {"FifoThroughputLimit": "perMessageGroupId"}


@documented(api("SetQueueAttributes"))
def test_deduplication_by_content_can_be_switched_on_and_off(sqs: Sqs) -> None:
    url = sqs.fifo(by_content=True)
    assert sqs.attributes(url, "ContentBasedDeduplication") == {"ContentBasedDeduplication": "true"}
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"ContentBasedDeduplication": "false"})
    assert sqs.attributes(url, "ContentBasedDeduplication") == {"ContentBasedDeduplication": "false"}


@documented(api("SetQueueAttributes"))
@pytest.mark.parametrize("value", ["59", "86401"])
def test_the_reuse_period_of_a_data_key_has_a_range(sqs: Sqs, value: str) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"KmsDataKeyReusePeriodSeconds": value})


@documented(api("SetQueueAttributes"))
def test_only_one_kind_of_encryption_at_a_time(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeName", modeled="InvalidAttributeName"):
        sqs.client.set_queue_attributes(
            QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/aws/sqs", "SqsManagedSseEnabled": "true"}
        )


@documented(api("GetQueueAttributes"))
def test_the_counts_follow_a_message_through_its_states(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.send(url, "visible")
    sqs.send(url, "delayed", DelaySeconds=900)
    assert sqs.counts(url) == (1, 0, 1)
    message = sqs.receive_one(url)
    assert sqs.counts(url) == (0, 1, 1)
    sqs.delete(url, message)
    assert sqs.counts(url) == (0, 0, 1)
