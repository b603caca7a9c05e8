from __future__ import annotations

import json
from typing import Any

import pytest

from tests.memory.driver import refused


@pytest.mark.parametrize("name", ["", "a" * 81, "a b", "ä", "a.b", "x.fifo", "a/b"])
def test_names_that_no_standard_queue_can_have_are_refused(client: Any, name: str) -> None:
    with refused("InvalidParameterValue", "1 to 80 in length"):
        client.create_queue(QueueName=name)


@pytest.mark.parametrize("name", ["jobs", ".fifo", "a" * 76 + ".fifo", "a.b.fifo"])
def test_names_that_no_fifo_queue_can_have_are_refused(client: Any, name: str) -> None:
    with refused("InvalidParameterValue", "must end with .fifo"):
        client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("VisibilityTimeout", 0, 43_200),
        ("DelaySeconds", 0, 900),
        ("MaximumMessageSize", 1_024, 1_048_576),
        ("MessageRetentionPeriod", 60, 1_209_600),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
    ],
)
def test_every_number_has_its_range_when_created_and_when_set(
    client: Any, make_queue: Any, name: str, low: int, high: int
) -> None:
    url = make_queue()
    for good in (low, high):
        client.set_queue_attributes(QueueUrl=url, Attributes={name: str(good)})
        values = client.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"]
        assert values == {name: str(good)}
    for bad in (str(low - 1), str(high + 1), "x", "1.5", ""):
        if bad == "" and name.startswith("Kms"):
            continue
        with pytest.raises(client.exceptions.InvalidAttributeValue):
            client.set_queue_attributes(QueueUrl=url, Attributes={name: bad})
        with pytest.raises(client.exceptions.InvalidAttributeValue):
            client.create_queue(QueueName="other", Attributes={name: bad})


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"Unknown": "1"}, "InvalidAttributeName"),
        ({"QueueArn": "x"}, "InvalidAttributeName"),
        ({"FifoQueue": "true"}, "InvalidAttributeName"),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ({"SqsManagedSseEnabled": "maybe"}, "InvalidAttributeValue"),
        ({"Policy": "no json"}, "InvalidAttributeValue"),
        ({"Policy": "{}"}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission": "byQueue"}'}, "InvalidParameterValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission": "some"}'}, "InvalidParameterValue"),
        ({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}, "InvalidAttributeName"),
    ],
)
def test_other_attributes_are_checked_and_a_refused_set_changes_nothing(
    client: Any, make_queue: Any, attributes: dict[str, str], code: str
) -> None:
    url = make_queue()
    before = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    with refused(code):
        client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "5", **attributes})
    assert client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"] == before


def test_high_throughput_needs_deduplication_by_group(client: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo")
    with refused("InvalidAttributeValue", "DeduplicationScope"):
        client.set_queue_attributes(QueueUrl=url, Attributes={"FifoThroughputLimit": "perMessageGroupId"})
    client.set_queue_attributes(
        QueueUrl=url,
        Attributes={"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"},
    )


def test_creating_what_exists_gives_its_url_unless_an_attribute_differs(client: Any, make_queue: Any) -> None:
    dead = make_queue("dead")
    target = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"deadLetterTargetArn": target, "maxReceiveCount": 5}
    url = make_queue("jobs", DelaySeconds="5", RedrivePolicy=json.dumps(policy))
    assert make_queue("jobs") == url
    assert make_queue("jobs", DelaySeconds="5", VisibilityTimeout="30") == url
    assert make_queue("jobs", RedrivePolicy=json.dumps({**policy, "maxReceiveCount": "5"}, indent=2)) == url
    with refused("QueueAlreadyExists", "DelaySeconds"):
        make_queue("jobs", DelaySeconds="6")
    with pytest.raises(client.exceptions.QueueNameExists):
        make_queue("jobs", RedrivePolicy=json.dumps({**policy, "maxReceiveCount": 6}))


def test_an_empty_value_takes_an_optional_attribute_away(client: Any, make_queue: Any) -> None:
    dead = make_queue("dead")
    target = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 5})
    url = make_queue("jobs", RedrivePolicy=policy)
    client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    assert "Attributes" not in answer


def test_defaults_are_those_of_sqs(client: Any, clock: Any, make_queue: Any) -> None:
    url = make_queue("jobs.fifo", ContentBasedDeduplication="false")
    values = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert values == {
        "QueueArn": "arn:aws:sqs:us-east-1:123456789012:jobs.fifo",
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "CreatedTimestamp": str(int(clock.time())),
        "LastModifiedTimestamp": str(int(clock.time())),
        "VisibilityTimeout": "30",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }


def test_the_time_of_the_last_change_is_kept(client: Any, clock: Any, make_queue: Any) -> None:
    url = make_queue()
    clock.advance(100)
    client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"})
    values = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert int(values["LastModifiedTimestamp"]) - int(values["CreatedTimestamp"]) == 100


def test_queues_are_listed_by_prefix_and_in_pages(client: Any, make_queue: Any) -> None:
    urls = [make_queue(f"jobs-{n}") for n in range(5)]
    make_queue("other")
    assert client.list_queues(QueueNamePrefix="jobs-")["QueueUrls"] == urls
    assert "QueueUrls" not in client.list_queues(QueueNamePrefix="none")
    pages = client.get_paginator("list_queues").paginate(
        QueueNamePrefix="jobs-", PaginationConfig={"PageSize": 2}
    )
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]
    with refused("InvalidParameterValue", "MaxResults"):
        client.list_queues(MaxResults=1001)
    with refused("InvalidParameterValue", "next token"):
        client.list_queues(MaxResults=2, NextToken="#")


def test_tags_are_added_overwritten_removed_and_limited(client: Any, make_queue: Any) -> None:
    url = client.create_queue(QueueName="jobs", tags={"team": "a"})["QueueUrl"]
    client.tag_queue(QueueUrl=url, Tags={"team": "b", "cost": ""})
    assert client.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b", "cost": ""}
    client.untag_queue(QueueUrl=url, TagKeys=["team", "unknown"])
    assert client.list_queue_tags(QueueUrl=url)["Tags"] == {"cost": ""}
    client.tag_queue(QueueUrl=url, Tags={f"t{n}": "x" for n in range(49)})
    with refused("InvalidParameterValue", "Too many tags"):
        client.tag_queue(QueueUrl=url, Tags={"one-more": "x"})
    with refused("InvalidParameterValue", "reserved"):
        client.tag_queue(QueueUrl=make_queue("other"), Tags={"aws:x": "x"})


def test_permissions_are_statements_of_the_policy(client: Any, make_queue: Any) -> None:
    url = make_queue()
    client.add_permission(
        QueueUrl=url, Label="read", AWSAccountIds=["111111111111"], Actions=["ReceiveMessage"]
    )
    policy = client.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert json.loads(policy)["Statement"] == [
        {
            "Sid": "read",
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
            "Action": "SQS:ReceiveMessage",
            "Resource": "arn:aws:sqs:us-east-1:123456789012:jobs",
        }
    ]
    with refused("InvalidParameterValue", "Already exists"):
        client.add_permission(QueueUrl=url, Label="read", AWSAccountIds=["111111111111"], Actions=["*"])
    with refused("InvalidParameterValue", "ActionName"):
        client.add_permission(QueueUrl=url, Label="x", AWSAccountIds=["111111111111"], Actions=["Fly"])
    client.remove_permission(QueueUrl=url, Label="read")
    assert "Attributes" not in client.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
    with refused("InvalidParameterValue", "can't find label"):
        client.remove_permission(QueueUrl=url, Label="read")
