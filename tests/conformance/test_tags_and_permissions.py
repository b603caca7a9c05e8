"""Tags, and the calls that write a queue's policy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.backend import Sqs
from tests.conformance.pages import api, documented, guide


def tags_of(sqs: Sqs, url: str) -> dict[str, str]:
    return sqs.client.list_queue_tags(QueueUrl=url).get("Tags", {})  # type: ignore[no-any-return]


@documented(api("CreateQueue"))
def test_tags_given_on_create_are_listed(sqs: Sqs) -> None:
    url = sqs.client.create_queue(QueueName=sqs.name(), tags={"team": "mail"})["QueueUrl"]
    assert tags_of(sqs, url) == {"team": "mail"}


@documented(api("ListQueueTags"))
def test_a_queue_without_tags_lists_none(sqs: Sqs) -> None:
    assert tags_of(sqs, sqs.queue()) == {}


@documented(api("TagQueue"))
def test_a_tag_of_the_same_key_is_overwritten_and_others_stay(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.tag_queue(QueueUrl=url, Tags={"team": "mail", "stage": "test"})
    sqs.client.tag_queue(QueueUrl=url, Tags={"team": "web"})
    assert tags_of(sqs, url) == {"team": "web", "stage": "test"}


@documented(api("TagQueue"))
def test_tag_keys_are_case_sensitive(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.tag_queue(QueueUrl=url, Tags={"team": "1", "Team": "2"})
    assert tags_of(sqs, url) == {"team": "1", "Team": "2"}


@documented(guide("quotas-queues"))
def test_a_tag_may_have_an_empty_value(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.tag_queue(QueueUrl=url, Tags={"flag": ""})
    assert tags_of(sqs, url) == {"flag": ""}


@documented(api("UntagQueue"))
def test_untag_removes_the_named_keys_and_ignores_unknown_ones(sqs: Sqs) -> None:
    url = sqs.queue()
    sqs.client.tag_queue(QueueUrl=url, Tags={"team": "mail", "stage": "test"})
    sqs.client.untag_queue(QueueUrl=url, TagKeys=["team", "unknown"])
    assert tags_of(sqs, url) == {"stage": "test"}


@documented(api("CreateQueue"))
def test_creating_a_queue_again_leaves_its_tags(sqs: Sqs) -> None:
    name = sqs.name()
    url = sqs.client.create_queue(QueueName=name, tags={"team": "mail"})["QueueUrl"]
    sqs.client.create_queue(QueueName=name)
    assert tags_of(sqs, url) == {"team": "mail"}


def statements(sqs: Sqs, url: str) -> list[dict[str, Any]]:
    policy = sqs.attributes(url, "Policy").get("Policy")
    return json.loads(policy)["Statement"] if policy else []


def allow(sqs: Sqs, url: str, label: str, *actions: str) -> None:
    sqs.client.add_permission(
        QueueUrl=url, Label=label, AWSAccountIds=["111122223333"], Actions=list(actions)
    )


@documented(api("AddPermission"))
def test_add_permission_writes_a_statement_into_the_policy(sqs: Sqs) -> None:
    url = sqs.queue()
    allow(sqs, url, "partner", "ReceiveMessage")
    (statement,) = statements(sqs, url)
    assert statement["Sid"] == "partner"
    assert statement["Effect"] == "Allow"
    assert str(statement["Action"]).strip("[']").lower() == "sqs:receivemessage"
    assert statement["Resource"] == sqs.arn(url)
    assert "111122223333" in json.dumps(statement["Principal"])


@documented(api("AddPermission"))
def test_a_label_can_be_used_once(sqs: Sqs) -> None:
    url = sqs.queue()
    allow(sqs, url, "partner", "ReceiveMessage")
    with sqs.refused("InvalidParameterValue"):
        allow(sqs, url, "partner", "SendMessage")


@documented(api("AddPermission"))
@pytest.mark.parametrize("label", ["l" * 81, "with space"], ids=["81-characters", "space"])
def test_a_label_outside_of_the_rules_is_refused(sqs: Sqs, label: str) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        allow(sqs, url, label, "ReceiveMessage")


@documented(api("AddPermission"))
def test_an_action_that_does_not_exist_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        allow(sqs, url, "partner", "EatMessage")


@documented(api("AddPermission"))
def test_a_statement_has_seven_actions_at_most(sqs: Sqs) -> None:
    url = sqs.queue()
    actions = [
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
    ]
    with sqs.refused("OverLimit", modeled="OverLimit"):
        allow(sqs, url, "partner", *actions)


@documented(api("RemovePermission"))
def test_remove_permission_takes_out_the_labelled_statement(sqs: Sqs) -> None:
    url = sqs.queue()
    allow(sqs, url, "first", "ReceiveMessage")
    allow(sqs, url, "second", "SendMessage")
    sqs.client.remove_permission(QueueUrl=url, Label="first")
    assert [statement["Sid"] for statement in statements(sqs, url)] == ["second"]


@documented(api("RemovePermission"))
def test_removing_an_unknown_label_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidParameterValue"):
        sqs.client.remove_permission(QueueUrl=url, Label="nobody")


@documented(api("SetQueueAttributes"))
def test_a_policy_set_as_an_attribute_is_returned(sqs: Sqs) -> None:
    url = sqs.queue()
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": sqs.arn(url)}],
    }
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    assert json.loads(sqs.attributes(url, "Policy")["Policy"])["Statement"][0]["Effect"] == "Deny"


@documented(api("SetQueueAttributes"))
def test_an_empty_policy_removes_the_policy(sqs: Sqs) -> None:
    url = sqs.queue()
    allow(sqs, url, "partner", "ReceiveMessage")
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert sqs.attributes(url, "Policy") == {}


@documented(api("SetQueueAttributes"))
def test_a_policy_that_is_not_json_is_refused(sqs: Sqs) -> None:
    url = sqs.queue()
    with sqs.refused("InvalidAttributeValue", modeled="InvalidAttributeValue"):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": "{"})
