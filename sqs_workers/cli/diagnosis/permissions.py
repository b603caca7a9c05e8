"""Which calls these credentials may not make, found by making calls that change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sqs_workers.cli.diagnosis.signs import Sign
from sqs_workers.transport import ErrorKind, classify, error_code

__all__ = ["check_permissions"]


def check_permissions(
    sqs: Any, kms: Callable[[], Any], name: str, url: str, attributes: dict[str, str]
) -> Iterator[Sign]:
    """Try what workers and senders do, with requests that SQS refuses for another reason if it permits them.

    A batch without entries sends, deletes and changes nothing, and a receive of no messages receives none.

    :param kms: makes a client of KMS.
    """
    tries: dict[str, Callable[[], Any]] = {
        "sqs:SendMessage": lambda: sqs.send_message_batch(QueueUrl=url, Entries=[]),
        "sqs:ReceiveMessage": lambda: sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=0, VisibilityTimeout=0, WaitTimeSeconds=0
        ),
        "sqs:DeleteMessage": lambda: sqs.delete_message_batch(QueueUrl=url, Entries=[]),
        "sqs:ChangeMessageVisibility": lambda: sqs.change_message_visibility_batch(QueueUrl=url, Entries=[]),
        "sqs:ListDeadLetterSourceQueues": lambda: sqs.list_dead_letter_source_queues(QueueUrl=url),
    }
    key = attributes.get("KmsMasterKeyId")
    arn = attributes.get("QueueArn", url)
    denied = [action for action, call in tries.items() if _denied(call)]
    if denied:
        yield _sign(name, arn, denied)
    if key and _denied(lambda: kms().generate_data_key(KeyId=key, KeySpec="AES_256", DryRun=True)):
        yield _sign(name, key, ["kms:GenerateDataKey", "kms:Decrypt"])
    elif not denied:
        yield Sign("ok", name, f"none of {len(tries)} kinds of calls is denied")


def _denied(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any refusal but this one is what was asked for
        return classify(error) is ErrorKind.DENIED and error_code(error) != "DryRunOperationException"
    return False


def _sign(name: str, resource: str, actions: list[str]) -> Sign:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resource}
    return Sign(
        "error",
        name,
        f"these credentials may not {', '.join(actions)}",
        "permission",
        "A worker needs to receive, delete and change visibility, a sender to send; the list of sources is "
        "for `sqs-workers dlq`.",
        f"add to the policy of the role or user: {json.dumps(statement)}",
    )
