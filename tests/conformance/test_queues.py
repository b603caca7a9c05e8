"""Queues: names, creating, finding, listing, deleting."""

from __future__ import annotations

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide, memory_only

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


@documented(api("CreateQueue"))
def test_create_queue_returns_a_url_that_ends_with_the_name(sqs: Sqs) -> None:
    name = sqs.name()
    answer = sqs.client.create_queue(QueueName=name)
    assert answer["QueueUrl"].startswith("http")
    assert answer["QueueUrl"].endswith(f"/{name}")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@documented(api("GetQueueAttributes"))
def test_the_arn_names_service_region_account_and_queue(sqs: Sqs) -> None:
    url = sqs.queue()
    prefix, partition, service, region, account, name = sqs.arn(url).split(":")
    assert (prefix, partition, service, region) == ("arn", "aws", "sqs", "us-east-1")
    assert account.isdigit()
    assert len(account) == 12
    assert url.endswith(f"/{account}/{name}")


@documented(guide("quotas-queues"))
def test_a_name_of_80_characters_is_accepted(sqs: Sqs) -> None:
    name = sqs.name().ljust(80, "n")
    assert sqs.client.create_queue(QueueName=name)["QueueUrl"].endswith(name)


@documented(guide("quotas-queues"))
@pytest.mark.parametrize(
    "name",
    ["n" * 81, "with space", "with.dot", "with/slash", "ünicode", "bang!"],
    ids=["81-characters", "space", "dot", "slash", "umlaut", "punctuation"],
)
def test_a_name_outside_of_the_rules_is_refused(sqs: Sqs, name: str) -> None:
    with sqs.refused("InvalidParameterValue"):
        sqs.client.create_queue(QueueName=name)


@documented(api("CreateQueue"))
def test_a_fifo_queue_must_end_with_the_fifo_suffix(sqs: Sqs) -> None:
    with sqs.refused("InvalidParameterValue"):
        sqs.client.create_queue(QueueName=sqs.name(), Attributes={"FifoQueue": "true"})


@documented(api("CreateQueue"))
def test_the_fifo_suffix_alone_does_not_make_a_fifo_queue(sqs: Sqs) -> None:
    with sqs.refused("InvalidParameterValue"):
        sqs.client.create_queue(QueueName=sqs.name(".fifo"))


@documented(guide("quotas-fifo"))
def test_the_fifo_suffix_counts_towards_the_80_characters(sqs: Sqs) -> None:
    attributes = {"FifoQueue": "true"}
    sqs.client.create_queue(QueueName=sqs.name().ljust(75, "n") + ".fifo", Attributes=attributes)
    with sqs.refused("InvalidParameterValue"):
        sqs.client.create_queue(QueueName=sqs.name().ljust(76, "n") + ".fifo", Attributes=attributes)


@documented(guide("quotas-queues"))
def test_names_are_case_sensitive(sqs: Sqs) -> None:
    name = sqs.name("-lower")
    sqs.client.create_queue(QueueName=name)
    with sqs.refused(NO_QUEUE, modeled="QueueDoesNotExist"):
        sqs.client.get_queue_url(QueueName=name.upper())


@documented(api("CreateQueue"))
def test_creating_a_queue_again_with_the_same_attributes_returns_its_url(sqs: Sqs) -> None:
    name, attributes = sqs.name(), {"VisibilityTimeout": "40", "DelaySeconds": "5"}
    first = sqs.client.create_queue(QueueName=name, Attributes=attributes)
    assert sqs.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"] == first["QueueUrl"]


@documented(api("CreateQueue"))
def test_creating_a_queue_again_without_attributes_returns_its_url(sqs: Sqs) -> None:
    name = sqs.name()
    first = sqs.client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "40"})
    assert sqs.client.create_queue(QueueName=name)["QueueUrl"] == first["QueueUrl"]
    assert sqs.attributes(first["QueueUrl"], "VisibilityTimeout") == {"VisibilityTimeout": "40"}


@documented(api("CreateQueue"))
def test_creating_a_queue_again_with_another_value_is_refused_and_changes_nothing(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})["QueueUrl"]
    with sqs.refused("QueueAlreadyExists", modeled="QueueNameExists"):
        sqs.client.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})
    assert sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "1"}


@documented(api("CreateQueue"))
def test_creating_a_fifo_queue_again_with_another_deduplication_is_refused(sqs: Sqs) -> None:
    name = sqs.name(".fifo")
    sqs.client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})
    with sqs.refused("QueueAlreadyExists", modeled="QueueNameExists"):
        sqs.client.create_queue(
            QueueName=name, Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        )


@documented(api("GetQueueUrl"))
def test_get_queue_url_finds_a_queue_by_name(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name)["QueueUrl"]
    assert sqs.client.get_queue_url(QueueName=name)["QueueUrl"] == url


@documented(api("GetQueueUrl"))
def test_get_queue_url_of_a_missing_queue_is_refused(sqs: Sqs) -> None:
    with sqs.refused(NO_QUEUE, modeled="QueueDoesNotExist") as caught:
        sqs.client.get_queue_url(QueueName=sqs.name())
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


@documented(api("SendMessage"))
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        pytest.param(operation, arguments, id=operation)
        for operation, arguments in {
            "send_message": {"MessageBody": "body"},
            "send_message_batch": {"Entries": [{"Id": "1", "MessageBody": "body"}]},
            "receive_message": {},
            "delete_message": {"ReceiptHandle": "receipt"},
            "change_message_visibility": {"ReceiptHandle": "receipt", "VisibilityTimeout": 1},
            "get_queue_attributes": {"AttributeNames": ["All"]},
            "set_queue_attributes": {"Attributes": {"VisibilityTimeout": "1"}},
            "purge_queue": {},
            "list_queue_tags": {},
            "tag_queue": {"Tags": {"key": "value"}},
            "list_dead_letter_source_queues": {},
        }.items()
    ],
)
def test_every_call_on_a_missing_queue_is_refused(
    sqs: Sqs, operation: str, arguments: dict[str, object]
) -> None:
    url = sqs.queue()
    missing = url.rpartition("/")[0] + "/" + sqs.name()
    with sqs.refused(NO_QUEUE, modeled="QueueDoesNotExist"):
        getattr(sqs.client, operation)(QueueUrl=missing, **arguments)


@documented(api("ListQueues"))
def test_list_queues_finds_queues_by_prefix(sqs: Sqs) -> None:
    prefix = sqs.name("-")
    urls = [sqs.client.create_queue(QueueName=prefix + letter)["QueueUrl"] for letter in "ab"]
    sqs.queue()
    assert sorted(sqs.client.list_queues(QueueNamePrefix=prefix)["QueueUrls"]) == urls


@documented(api("ListQueues"))
def test_list_queues_without_a_match_has_no_urls(sqs: Sqs) -> None:
    assert not sqs.client.list_queues(QueueNamePrefix=sqs.name()).get("QueueUrls")


@documented(api("ListQueues"))
def test_list_queues_gives_pages_of_max_results_with_a_token(sqs: Sqs) -> None:
    prefix = sqs.name("-")
    urls = {sqs.client.create_queue(QueueName=f"{prefix}{number}")["QueueUrl"] for number in range(5)}
    first = sqs.client.list_queues(QueueNamePrefix=prefix, MaxResults=3)
    assert len(first["QueueUrls"]) == 3
    second = sqs.client.list_queues(QueueNamePrefix=prefix, MaxResults=3, NextToken=first["NextToken"])
    assert len(second["QueueUrls"]) == 2
    assert "NextToken" not in second
    assert {*first["QueueUrls"], *second["QueueUrls"]} == urls


@documented(api("ListQueues"))
def test_list_queues_works_with_the_paginator_of_boto3(sqs: Sqs) -> None:
    prefix = sqs.name("-")
    urls = {sqs.client.create_queue(QueueName=f"{prefix}{number}")["QueueUrl"] for number in range(5)}
    pages = sqs.client.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )
    found = [page.get("QueueUrls", []) for page in pages]
    assert [len(page) for page in found] == [2, 2, 1]
    assert {url for page in found for url in page} == urls


@documented(api("ListQueues"))
@pytest.mark.parametrize("limit", [0, 1001])
def test_list_queues_refuses_a_limit_out_of_range(sqs: Sqs, limit: int) -> None:
    with sqs.refused("InvalidParameterValue"):
        sqs.client.list_queues(QueueNamePrefix=sqs.name(), MaxResults=limit)


@documented(api("DeleteQueue"))
def test_a_deleted_queue_is_no_longer_found(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name)["QueueUrl"]
    sqs.client.delete_queue(QueueUrl=url)
    sqs.propagate()
    with sqs.refused(NO_QUEUE, modeled="QueueDoesNotExist"):
        sqs.client.get_queue_url(QueueName=name)
    assert not sqs.client.list_queues(QueueNamePrefix=name).get("QueueUrls")


@documented(api("DeleteQueue"))
def test_deleting_a_queue_takes_no_account_of_its_messages(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name)["QueueUrl"]
    sqs.send(url)
    answer = sqs.client.delete_queue(QueueUrl=url)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@documented(api("CreateQueue"))
def test_a_name_deleted_within_60_seconds_is_refused(sqs: Sqs) -> None:
    name = sqs.name()
    sqs.client.delete_queue(QueueUrl=sqs.client.create_queue(QueueName=name)["QueueUrl"])
    with sqs.refused("AWS.SimpleQueueService.QueueDeletedRecently", modeled="QueueDeletedRecently"):
        sqs.client.create_queue(QueueName=name)


@documented(api("CreateQueue"))
@memory_only("60 seconds pass")
def test_a_name_deleted_60_seconds_ago_makes_a_new_and_empty_queue(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name, Attributes={"DelaySeconds": "7"})["QueueUrl"]
    sqs.send(url, "old", DelaySeconds=0)
    sqs.client.delete_queue(QueueUrl=url)
    sqs.elapse(61)
    assert sqs.client.create_queue(QueueName=name)["QueueUrl"] == url
    assert sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "0"}
    assert sqs.receive(url) == []
