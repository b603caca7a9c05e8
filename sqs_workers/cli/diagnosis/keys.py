"""Whether SNS can write to a queue that is encrypted.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sqs_workers.cli.diagnosis.policies import Request, judge, new_sid, statements_of
from sqs_workers.cli.diagnosis.signs import Sign, aws, set_queue
from sqs_workers.transport import ErrorKind, classify, error_code

__all__ = ["check_key"]

_MANAGED = "alias/aws/sqs"
_ACTIONS = ("kms:GenerateDataKey", "kms:Decrypt")


def check_key(
    kms: Callable[[], Any], name: str, url: str, attributes: dict[str, str], context: dict[str, str]
) -> Iterator[Sign]:
    """Look at the key of a queue, if it has one of KMS.

    :param kms: makes a client of KMS in the queue's region.
    :param context: condition keys of SNS's request.
    """
    key = attributes.get("KmsMasterKeyId")
    if not key:
        managed = attributes.get("SqsManagedSseEnabled") == "true"
        yield Sign("ok", name, "encrypted by SQS itself" if managed else "not encrypted")
        return
    if key.endswith(_MANAGED):
        yield _managed(name, url, key)
        return
    client = kms()
    try:
        found = client.describe_key(KeyId=key)["KeyMetadata"]
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield _unseen(name, key, error)
        return
    if found.get("KeyManager") == "AWS":
        yield _managed(name, url, key)
    elif found.get("KeyState", "Enabled") != "Enabled":
        yield Sign(
            "error",
            name,
            f"its key {key} is {found['KeyState']}",
            "key-state",
            "Nothing can be sent or received while the key cannot be used.",
            aws("kms", "enable-key", "--key-id", found["KeyId"]),
        )
    else:
        yield from _policy(client, name, found, context)


def _policy(client: Any, name: str, key: dict[str, Any], context: dict[str, str]) -> Iterator[Sign]:
    try:
        text = client.get_key_policy(KeyId=key["KeyId"], PolicyName="default")["Policy"]
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield _unseen(name, key["KeyId"], error)
        return
    statements = statements_of(text)
    arn = str(key.get("Arn", "*"))
    verdicts = {
        action: judge(statements, Request("sns.amazonaws.com", action, arn, context)) for action in _ACTIONS
    }
    missing = [action for action, verdict in verdicts.items() if verdict.allowed is False]
    if missing:
        wanted = {
            "Sid": new_sid(statements, "SNS"),
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": list(_ACTIONS),
            "Resource": "*",
            "Condition": {"ArnEquals": {"aws:SourceArn": context["aws:sourcearn"]}},
        }
        policy = {"Version": "2012-10-17", "Statement": [*statements, wanted]}
        yield Sign(
            "error",
            name,
            f"the policy of its key {key['KeyId']} does not let sns.amazonaws.com {', '.join(missing)}",
            "key-policy",
            "SNS must encrypt what it sends, with the queue's key. It drops what it cannot send, and the "
            "publisher is not told.",
            aws(
                *("kms", "put-key-policy", "--key-id", str(key["KeyId"]), "--policy-name", "default"),
                *("--policy", json.dumps(policy)),
            ),
        )
    elif any(verdict.allowed is None for verdict in verdicts.values()):
        yield Sign(
            "warning",
            name,
            f"the policy of its key {key['KeyId']} has conditions that cannot be judged from here",
            "key-policy-unclear",
            "SNS needs kms:GenerateDataKey and kms:Decrypt.",
            aws("kms", "get-key-policy", "--key-id", str(key["KeyId"]), "--policy-name", "default"),
        )
    else:
        yield Sign("ok", name, f"SNS may use its key {key['KeyId']}")


def _managed(name: str, url: str, key: str) -> Sign:
    return Sign(
        "error",
        name,
        f"encrypted with the key {key}, which AWS manages",
        "aws-managed-key",
        "SNS may not use that key, and its policy cannot be changed: what the topic takes never arrives. Take "
        "SQS's own encryption, or a key of yours whose policy lets sns.amazonaws.com use it.",
        set_queue(url, {"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"}),
    )


def _unseen(name: str, key: str, error: Exception) -> Sign:
    if error_code(error) in ("NotFoundException", "NotFound"):
        return Sign(
            "error",
            name,
            f"its key {key} does not exist in this region and account",
            "key-missing",
            "Nothing can be sent or received without the key.",
            "name a key that exists in the attribute KmsMasterKeyId of the queue",
        )
    seen = "these credentials may not look" if classify(error) is ErrorKind.DENIED else error_code(error)
    return Sign(
        "warning",
        name,
        f"its key {key} cannot be looked at: {seen}",
        "key-unseen",
        "Whether SNS may use the key stands in the key's policy.",
        aws("kms", "get-key-policy", "--key-id", key, "--policy-name", "default"),
    )
