"""A topic that takes messages, and a queue that gets none.

https://docs.aws.amazon.com/sns/latest/dg/subscribe-sqs-queue-to-sns-topic.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqs_workers.cli.diagnosis.keys import check_key
from sqs_workers.cli.diagnosis.policies import Request, Verdict, judge, new_sid, statements_of
from sqs_workers.cli.diagnosis.signs import Sign, aws, set_queue
from sqs_workers.redrive.finding import arn_name
from sqs_workers.transport import ErrorKind, classify, error_code

__all__ = ["TopicArn", "check_topic"]

_SNS = "sns.amazonaws.com"
_MISSES = {
    "": "has no policy that lets anybody send",
    "principal": f"has a policy that does not name the principal {_SNS}",
    "action": f"has a policy that lets {_SNS} do other things than sqs:SendMessage",
    "resource": "has a policy for another queue",
    "condition": "has a policy whose condition is not met by this topic",
}


@dataclass(frozen=True)
class TopicArn:
    """``arn:aws:sns:region:account:name``."""

    text: str
    region: str
    account: str

    @classmethod
    def parse(cls, text: str) -> TopicArn:
        """:raises ValueError: the text is no ARN of a topic."""
        parts = text.split(":")
        if len(parts) != 6 or parts[0] != "arn" or parts[2] != "sns" or not all(parts[3:]):
            raise ValueError(f"{text!r} is no ARN of a topic: write arn:aws:sns:REGION:ACCOUNT:NAME")
        return cls(text, parts[3], parts[4])

    @property
    def name(self) -> str:
        """Its name."""
        return arn_name(self.text)


def check_topic(
    sns: Any, kms: Callable[[], Any], topic: TopicArn, name: str, url: str, attributes: dict[str, str]
) -> Iterator[Sign]:
    """Look at the way from a topic to a queue.

    :param sns: client of SNS in the topic's region.
    :param kms: makes a client of KMS in the queue's region.
    """
    try:
        sns.get_topic_attributes(TopicArn=topic.text)
    except Exception as error:  # noqa: BLE001 - told as a sign
        if error_code(error) in ("NotFound", "NotFoundException"):
            yield Sign(
                "error",
                topic.name,
                f"there is no topic {topic.text}",
                "topic-missing",
                "Its region and account stand in the ARN: look there.",
                aws("sns", "list-topics", region=topic.region),
            )
            return
        yield _not_permitted(topic, "sns:GetTopicAttributes", error)
    arn = attributes.get("QueueArn", "")
    context = {
        "aws:sourcearn": topic.text,
        "aws:sourceaccount": topic.account,
        "aws:securetransport": "true",
        "aws:principalservicename": _SNS,
        "aws:principalisawsservice": "true",
    }
    yield from _kinds(topic, name, url)
    yield from _subscription(sns, topic, name, arn)
    yield from _queue_policy(topic, name, url, arn, attributes, context)
    yield from check_key(kms, name, url, attributes, context)


def _kinds(topic: TopicArn, name: str, url: str) -> Iterator[Sign]:
    topic_fifo, queue_fifo = topic.text.endswith(".fifo"), url.endswith(".fifo")
    if queue_fifo and not topic_fifo:
        yield Sign(
            "error",
            name,
            f"a FIFO queue, and {topic.name} is a standard topic",
            "standard-to-fifo",
            "SNS does not deliver from a standard topic to a FIFO queue: its messages have no group.",
            "take a FIFO topic, or a standard queue between the two",
        )
    elif topic_fifo and not queue_fifo:
        yield Sign(
            "warning",
            name,
            f"a standard queue, and {topic.name} is a FIFO topic",
            "fifo-to-standard",
            "Messages arrive, but in no order, and some twice.",
            f"if the order matters: sqs-workers create {name}.fifo, and subscribe that",
        )


def _subscription(sns: Any, topic: TopicArn, name: str, arn: str) -> Iterator[Sign]:
    try:
        pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic.text)
        subscriptions = [found for page in pages for found in page.get("Subscriptions") or ()]
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield _not_permitted(topic, "sns:ListSubscriptionsByTopic", error)
        return
    of_queues = [found for found in subscriptions if found.get("Protocol") == "sqs"]
    own = next((found for found in of_queues if found.get("Endpoint") == arn), None)
    if own is None:
        yield from _not_subscribed(topic, name, arn, [str(found.get("Endpoint")) for found in of_queues])
        return
    subscription = str(own.get("SubscriptionArn"))
    details: dict[str, str] = {}
    if subscription.startswith("arn:"):
        try:
            details = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
        except Exception as error:  # noqa: BLE001 - told as a sign
            yield _not_permitted(topic, "sns:GetSubscriptionAttributes", error)
            return
    if not subscription.startswith("arn:") or details.get("PendingConfirmation") == "true":
        yield Sign(
            "error",
            name,
            f"its subscription to {topic.name} waits for a confirmation",
            "not-confirmed",
            "SNS delivers nothing before. A subscription made by another account than the queue's has to be "
            "confirmed with the token in the message that SNS has sent to the queue.",
            _subscribe(topic, arn) + "  # as the owner of the queue, or: aws sns confirm-subscription",
        )
        return
    yield Sign("ok", name, f"subscribed to {topic.name}")
    yield from _delivery(topic, name, subscription, details)


def _not_subscribed(topic: TopicArn, name: str, arn: str, endpoints: list[str]) -> Iterator[Sign]:
    elsewhere = [endpoint for endpoint in endpoints if arn_name(endpoint) == arn_name(arn)]
    if elsewhere:
        yield Sign(
            "error",
            name,
            f"not subscribed to {topic.name}, but a queue of the same name is: {', '.join(elsewhere)}",
            "subscribed-elsewhere",
            f"That one is in another region or account than {arn}, and gets the messages, or nothing does.",
            _subscribe(topic, arn),
        )
        return
    yield Sign(
        "error",
        name,
        f"not subscribed to {topic.name}",
        "not-subscribed",
        f"The topic delivers to {len(endpoints)} other queue(s).",
        _subscribe(topic, arn),
    )
    region, account = (arn.split(":") + [""] * 6)[3:5]
    if region != topic.region:
        yield Sign(
            "warning",
            name,
            f"in {region}, and the topic in {topic.region}",
            "region",
            "SNS delivers to other regions, but perhaps another queue is meant. Where a region had to be opted "
            "into, the queue's policy must name sns.REGION.amazonaws.com.",
            f"sqs-workers doctor --topic {topic.text} --queue {name} --region {topic.region}",
        )
    if account != topic.account:
        yield Sign(
            "warning",
            name,
            f"of account {account}, and the topic of {topic.account}",
            "account",
            "The owner of the queue has to confirm a subscription that the owner of the topic makes.",
            _subscribe(topic, arn) + "  # as the owner of the queue; the topic's policy must allow it",
        )


def _delivery(topic: TopicArn, name: str, subscription: str, details: dict[str, str]) -> Iterator[Sign]:
    def setting(attribute: str, value: str) -> str:
        return aws(
            *("sns", "set-subscription-attributes", "--subscription-arn", subscription),
            *("--attribute-name", attribute, "--attribute-value", value),
            region=topic.region,
        )

    if details.get("FilterPolicy") not in (None, "", "{}"):
        scope = "bodies" if details.get("FilterPolicyScope") == "MessageBody" else "attributes"
        yield Sign(
            "warning",
            name,
            f"its subscription has a filter policy: {details['FilterPolicy']}",
            "filter-policy",
            f"Messages whose {scope} do not match are not delivered, and nobody is told. A change of the "
            "policy takes up to 15 minutes to have effect.",
            setting("FilterPolicy", "{}"),
        )
    if details.get("RawMessageDelivery") != "true":
        yield Sign(
            "warning",
            name,
            "its subscription delivers in the envelope of SNS",
            "raw-delivery",
            "Messages arrive, but the body is a JSON object around the message, and the attributes are in it: "
            "jobs are not recognized unless the queue unwraps envelopes.",
            setting("RawMessageDelivery", "true"),
        )


def _queue_policy(
    topic: TopicArn, name: str, url: str, arn: str, attributes: dict[str, str], context: dict[str, str]
) -> Iterator[Sign]:
    statements = statements_of(attributes.get("Policy"))
    verdict = judge(statements, Request(_SNS, "sqs:SendMessage", arn, context))
    if verdict.allowed:
        yield Sign("ok", name, f"its policy lets {topic.name} send")
        return
    if verdict.allowed is None:
        yield Sign(
            "warning",
            name,
            "its policy has conditions that cannot be judged from here",
            "queue-policy-unclear",
            f"It must let {_SNS} call sqs:SendMessage for {topic.text}.",
            aws("sqs", "get-queue-attributes", "--queue-url", url, "--attribute-names", "Policy"),
        )
        return
    kept = [statement for statement in statements if statement is not verdict.denied_by]
    wanted = {
        "Sid": new_sid(kept, topic.name),
        "Effect": "Allow",
        "Principal": {"Service": _SNS},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic.text}},
    }
    policy = {"Version": "2012-10-17", "Statement": [*kept, wanted]}
    message, code = _described(verdict)
    note = "" if verdict.denied_by is None else "  # without the statement that denies it"
    yield Sign(
        "error",
        name,
        message,
        code,
        "SNS takes what is published, tries to deliver it, is refused, and drops it.",
        set_queue(url, {"Policy": policy}) + note,
    )


def _described(verdict: Verdict) -> tuple[str, str]:
    if verdict.denied_by is not None:
        return f"has a policy that denies it: {json.dumps(verdict.denied_by)}", "queue-policy-deny"
    message = _MISSES[verdict.misses]
    if verdict.misses == "condition" and verdict.nearest is not None:
        message += f": {json.dumps(verdict.nearest.get('Condition'))}"
    return message, f"queue-policy-{verdict.misses or 'missing'}"


def _subscribe(topic: TopicArn, arn: str) -> str:
    return aws(
        *("sns", "subscribe", "--topic-arn", topic.text, "--protocol", "sqs"),
        *("--notification-endpoint", arn, "--attributes", "RawMessageDelivery=true"),
        region=topic.region,
    )


def _not_permitted(topic: TopicArn, action: str, error: Exception) -> Sign:
    denied = classify(error) is ErrorKind.DENIED or error_code(error) == "AuthorizationError"
    seen = f"these credentials may not {action}" if denied else f"{action}: {error_code(error)}"
    statement = {"Effect": "Allow", "Action": action, "Resource": topic.text}
    return Sign(
        "warning",
        topic.name,
        f"cannot be looked at: {seen}",
        "topic-unseen",
        "What is not seen cannot be judged.",
        f"add to the policy of the role or user: {json.dumps(statement)}",
    )
