"""Creating and deleting queues.

Attributes are those of
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html; what is not
given is left to SQS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired, Unpack

from sqs_workers.core import RedrivePolicy
from sqs_workers.exceptions import ConfigurationError, InvalidQueueNameError, QueueAttributesConflictError
from sqs_workers.limits import QUEUE_ATTRIBUTE_RANGES
from sqs_workers.outgoing import check_queue_name
from sqs_workers.transport.errors import as_both, error_code

__all__ = ["QueueAttributes", "create_fifo_queue", "create_standard_queue", "delete_queue"]


class QueueAttributes(TypedDict):
    """Attributes of queues of both kinds, besides those that have parameters of their own.

    Seconds for all times, bytes for ``maximum_message_size``.
    """

    delay_seconds: NotRequired[int]
    """0 to 900: how long every message is hidden at first."""
    maximum_message_size: NotRequired[int]
    """1,024 to 1,048,576."""
    receive_message_wait_time_seconds: NotRequired[int]
    """0 to 20: long polling of receives that do not say."""
    redrive_allow_policy: NotRequired[Mapping[str, Any] | str]
    """Which queues may use this one as their dead-letter queue."""
    policy: NotRequired[Mapping[str, Any] | str]
    """Access policy."""
    kms_master_key_id: NotRequired[str]
    """Key of the encryption at rest."""
    kms_data_key_reuse_period_seconds: NotRequired[int]
    """60 to 86,400."""
    sqs_managed_sse_enabled: NotRequired[bool]
    """Encryption at rest with keys of SQS."""
    tags: NotRequired[Mapping[str, str]]
    """Tags of the queue."""


_NAMES = {
    "message_retention_period": "MessageRetentionPeriod",
    "visibility_timeout": "VisibilityTimeout",
    "redrive_policy": "RedrivePolicy",
    "delay_seconds": "DelaySeconds",
    "maximum_message_size": "MaximumMessageSize",
    "receive_message_wait_time_seconds": "ReceiveMessageWaitTimeSeconds",
    "redrive_allow_policy": "RedriveAllowPolicy",
    "policy": "Policy",
    "kms_master_key_id": "KmsMasterKeyId",
    "kms_data_key_reuse_period_seconds": "KmsDataKeyReusePeriodSeconds",
    "sqs_managed_sse_enabled": "SqsManagedSseEnabled",
    "content_based_deduplication": "ContentBasedDeduplication",
    "deduplication_scope": "DeduplicationScope",
    "fifo_throughput_limit": "FifoThroughputLimit",
}


def create_standard_queue(
    env: Any,
    queue_name: str,
    message_retention_period: int | None = None,
    visibility_timeout: int | None = None,
    redrive_policy: RedrivePolicy | Mapping[str, Any] | str | None = None,
    **attributes: Unpack[QueueAttributes],
) -> str:
    """Create a standard queue; one that exists with the same attributes is left as it is.

    :param env: the environment, whose prefix is put before the name.
    :param queue_name: name without the prefix; must not end with ``.fifo``.
    :param message_retention_period: 60 to 1,209,600 seconds.
    :param visibility_timeout: 0 to 43,200 seconds.
    :param redrive_policy: see ``env.redrive_policy(...)``.
    :param attributes: see :class:`QueueAttributes`.
    :returns: the URL.
    :raises QueueAttributesConflictError: the queue exists with other attributes.
    :raises ConfigurationError: an attribute out of range.
    """
    if queue_name.endswith(".fifo"):
        raise InvalidQueueNameError(
            f"a standard queue cannot have the name {queue_name!r}: use create_fifo_queue()"
        )
    given = {
        "message_retention_period": message_retention_period,
        "visibility_timeout": visibility_timeout,
        "redrive_policy": redrive_policy,
        **attributes,
    }
    return _create(env, queue_name, given, {})


def create_fifo_queue(
    env: Any,
    queue_name: str,
    content_based_deduplication: bool = False,
    message_retention_period: int | None = None,
    visibility_timeout: int | None = None,
    redrive_policy: RedrivePolicy | Mapping[str, Any] | str | None = None,
    *,
    deduplication_scope: Literal["messageGroup", "queue"] | None = None,
    fifo_throughput_limit: Literal["perQueue", "perMessageGroupId"] | None = None,
    **attributes: Unpack[QueueAttributes],
) -> str:
    """Create a FIFO queue; one that exists with the same attributes is left as it is.

    :param env: the environment, whose prefix is put before the name.
    :param queue_name: name without the prefix; must end with ``.fifo``.
    :param content_based_deduplication: derive the deduplication id from the body of messages that have none.
    :param message_retention_period: 60 to 1,209,600 seconds.
    :param visibility_timeout: 0 to 43,200 seconds.
    :param redrive_policy: see ``env.redrive_policy(...)``; the dead-letter queue must be a FIFO queue, too.
    :param deduplication_scope: where a deduplication id counts: ``queue``, or ``messageGroup`` for high
        throughput.
    :param fifo_throughput_limit: ``perQueue``, or ``perMessageGroupId`` for high throughput.
    :param attributes: see :class:`QueueAttributes`.
    :returns: the URL.
    :raises QueueAttributesConflictError: the queue exists with other attributes.
    :raises ConfigurationError: an attribute out of range.
    """
    if not queue_name.endswith(".fifo"):
        raise InvalidQueueNameError(
            f"the name of a FIFO queue must end with '.fifo', and {queue_name!r} does not"
        )
    given = {
        "message_retention_period": message_retention_period,
        "visibility_timeout": visibility_timeout,
        "redrive_policy": redrive_policy,
        "content_based_deduplication": True if content_based_deduplication else None,
        "deduplication_scope": deduplication_scope,
        "fifo_throughput_limit": fifo_throughput_limit,
        **attributes,
    }
    return _create(env, queue_name, given, {"FifoQueue": "true"})


def delete_queue(env: Any, queue_name: str) -> None:
    """Delete a queue and all its messages.

    :raises QueueNotFoundError: there is no such queue.
    """
    env.sqs_client.delete_queue(QueueUrl=env.resolve_queue_url(queue_name))
    _forget_url(env, queue_name)


def _create(env: Any, queue_name: str, given: Mapping[str, Any], fixed: dict[str, str]) -> str:
    sqs_name = env.get_sqs_queue_name(queue_name)
    check_queue_name(sqs_name)
    _check_kind_of_dead_letter_queue(queue_name, given.get("redrive_policy"))
    tags = given.get("tags")
    attributes = {**fixed, **_as_sqs_attributes(given, queue_name)}
    request: dict[str, Any] = {"QueueName": sqs_name, "Attributes": attributes}
    if tags:
        request["tags"] = dict(tags)
    try:
        url: str = env.sqs_client.create_queue(**request)["QueueUrl"]
    except Exception as error:
        if error_code(error) not in ("QueueAlreadyExists", "QueueNameExists"):
            raise
        raise _conflict(env, sqs_name, attributes, error) from error
    _forget_url(env, queue_name)
    return url


def _check_kind_of_dead_letter_queue(queue_name: str, policy: Any) -> None:
    target = getattr(policy, "dead_letter_queue_name", None)
    if isinstance(target, str) and target.endswith(".fifo") != queue_name.endswith(".fifo"):
        raise ConfigurationError(
            f"the dead-letter queue of {queue_name!r} cannot be {target!r}: SQS wants both to be FIFO queues, "
            "or neither"
        )


def _as_sqs_attributes(given: Mapping[str, Any], queue_name: str) -> dict[str, str]:
    unknown = given.keys() - _NAMES.keys() - {"tags"}
    if unknown:
        raise ConfigurationError(
            f"queue {queue_name!r}: unknown attributes {', '.join(sorted(unknown))}; known are "
            f"{', '.join(sorted(_NAMES))} and tags"
        )
    attributes = {}
    for name, value in given.items():
        if value is not None and name in _NAMES:
            attributes[_NAMES[name]] = _as_text(_NAMES[name], name, value, queue_name)
    return attributes


def _as_text(attribute: str, name: str, value: Any, queue_name: str) -> str:
    if attribute in QUEUE_ATTRIBUTE_RANGES:
        lowest, highest = QUEUE_ATTRIBUTE_RANGES[attribute]
        number = int(value) if isinstance(value, str) and value.isdigit() else value
        if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
            raise ConfigurationError(
                f"{name} of queue {queue_name!r} must be an integer from {lowest} to {highest}, not {value!r}"
            )
        return str(number)
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "__json__"):
        return str(value.__json__())
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _conflict(
    env: Any, sqs_name: str, asked: Mapping[str, str], error: Exception
) -> QueueAttributesConflictError:
    differences: dict[str, tuple[str | None, str]] = {}
    try:
        url = env.transport.get_queue_url(sqs_name)
        existing = env.transport.get_queue_attributes(url, ["All"])
    except Exception:  # noqa: BLE001 - the first error is the one to tell; this only explains it
        existing = {}
    else:
        differences = {
            name: (existing.get(name), value)
            for name, value in asked.items()
            if not _same_value(existing.get(name), value)
        }
    told = "; ".join(f"{name} is {have!r}, asked for {want!r}" for name, (have, want) in differences.items())
    conflict = QueueAttributesConflictError(
        f"queue {sqs_name!r} exists with other attributes: {told or error}. Change them with "
        "SetQueueAttributes, or delete the queue first",
        queue_name=sqs_name,
        differences=differences,
    )
    return as_both(conflict, error)


def _same_value(have: str | None, want: str) -> bool:
    if have == want:
        return True
    try:
        return have is not None and _meaning(json.loads(have)) == _meaning(json.loads(want))
    except ValueError:
        return False


def _meaning(value: Any) -> Any:
    # SQS answers with the number 3 where "3" was sent.
    return {key: str(item) for key, item in value.items()} if isinstance(value, dict) else str(value)


def _forget_url(env: Any, queue_name: str) -> None:
    queue = env.queues.get(queue_name)
    if queue is not None:
        queue.forget_url()
