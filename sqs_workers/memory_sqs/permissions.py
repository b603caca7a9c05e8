"""AddPermission and RemovePermission: statements of a queue's policy. Nothing enforces the policy.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_AddPermission.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.attributes import QueueSettings
from sqs_workers.memory_sqs.faults import invalid_parameter, missing_parameter, over_limit
from sqs_workers.memory_sqs.queue_state import QueueState

__all__ = ["add_permission", "remove_permission"]

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ACCOUNT = re.compile(r"\d{12}")
_ACTIONS = frozenset(
    (
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    )
)
_MAX_ACTIONS = 7
_MAX_STATEMENTS = 20


def add_permission(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    label, accounts, actions = params["Label"], params["AWSAccountIds"], params["Actions"]
    _check(label, accounts, actions)
    document = _policy(queue)
    if any(statement.get("Sid") == label for statement in document["Statement"]):
        raise invalid_parameter(f"Value {label} for parameter Label is invalid. Reason: Already exists.")
    if len(document["Statement"]) >= _MAX_STATEMENTS:
        raise over_limit(
            f"{len(document['Statement']) + 1} statements were found, maximum allowed is {_MAX_STATEMENTS}."
        )
    principals = [f"arn:aws:iam::{account_id}:root" for account_id in accounts]
    names = [f"SQS:{action}" for action in actions]
    document["Statement"].append(
        {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": principals if len(principals) > 1 else principals[0]},
            "Action": names if len(names) > 1 else names[0],
            "Resource": queue.arn,
        }
    )
    _store(account, queue, document)
    return {}


def remove_permission(account: Account, params: Mapping[str, Any]) -> dict[str, Any]:
    queue = account.queue_by_url(params["QueueUrl"])
    label = params["Label"]
    document = _policy(queue)
    kept = [statement for statement in document["Statement"] if statement.get("Sid") != label]
    if len(kept) == len(document["Statement"]):
        raise invalid_parameter(f"Value {label} for parameter Label is invalid. Reason: can't find label.")
    document["Statement"] = kept
    _store(account, queue, document)
    return {}


def _check(label: str, accounts: list[str], actions: list[str]) -> None:
    if not _LABEL.fullmatch(label):
        raise invalid_parameter(
            f"Value {label} for parameter Label is invalid. "
            "Reason: Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
        )
    if not accounts:
        raise missing_parameter("AWSAccountIds")
    if not actions:
        raise missing_parameter("Actions")
    for account_id in accounts:
        if not _ACCOUNT.fullmatch(account_id):
            raise invalid_parameter(
                f"Value {account_id} for parameter PrincipalId is invalid. Reason: Unable to verify."
            )
    for action in actions:
        if action not in _ACTIONS:
            raise invalid_parameter(
                f"Value SQS:{action} for parameter ActionName is invalid. Reason: Please refer to the "
                "appropriate WSDL for a list of valid actions."
            )
    if len(actions) > _MAX_ACTIONS:
        raise over_limit(f"{len(actions)} Actions were found, maximum allowed is {_MAX_ACTIONS}.")


def _policy(queue: QueueState) -> dict[str, Any]:
    text = queue.settings.values.get("Policy")
    if text is None:
        return {"Version": "2008-10-17", "Id": f"{queue.arn}/SQSDefaultPolicy", "Statement": []}
    document: dict[str, Any] = json.loads(text)
    if not isinstance(document["Statement"], list):
        document["Statement"] = [document["Statement"]]
    return document


def _store(account: Account, queue: QueueState, document: dict[str, Any]) -> None:
    values = {name: value for name, value in queue.settings.values.items() if name != "Policy"}
    if document["Statement"]:
        values["Policy"] = json.dumps(document)
    queue.settings = QueueSettings.of(values)
    queue.modified_s = int(account.clock.time())
