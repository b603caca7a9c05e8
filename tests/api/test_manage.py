"""Creating and deleting queues, dead letters, and the redrive policy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sqs_workers import DeadLetterQueue, SQSEnv, create_fifo_queue, create_standard_queue, delete_queue
from sqs_workers.exceptions import (
    ConfigurationError,
    InvalidQueueNameError,
    QueueAttributesConflictError,
    QueueNotFoundError,
)
from sqs_workers.limits import QUEUE_ATTRIBUTE_RANGES
from sqs_workers.testing import sent_jobs

from .faults import FaultyTransport


def _attributes(env: SQSEnv, name: str) -> dict[str, str]:
    return env.transport.get_queue_attributes(env.resolve_queue_url(name), ["All"])


def test_every_attribute_reaches_sqs(env: SQSEnv) -> None:
    create_standard_queue(env, "dead", redrive_allow_policy={"redrivePermission": "allowAll"})
    url = create_standard_queue(
        env,
        "q",
        600,
        45,
        env.redrive_policy("dead", 5),
        delay_seconds=3,
        maximum_message_size=2048,
        receive_message_wait_time_seconds=7,
        sqs_managed_sse_enabled=True,
        tags={"team": "mail"},
    )
    attributes = _attributes(env, "q")
    assert url.endswith("/q")
    assert attributes["MessageRetentionPeriod"] == "600"
    assert attributes["VisibilityTimeout"] == "45"
    assert attributes["DelaySeconds"] == "3"
    assert attributes["MaximumMessageSize"] == "2048"
    assert attributes["ReceiveMessageWaitTimeSeconds"] == "7"
    policy = json.loads(attributes["RedrivePolicy"])
    assert policy["deadLetterTargetArn"].endswith(":dead")
    assert int(policy["maxReceiveCount"]) == 5
    assert env.sqs_client.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "mail"}


def test_fifo_attributes_reach_sqs(env: SQSEnv) -> None:
    create_fifo_queue(
        env, "q.fifo", True, deduplication_scope="messageGroup", fifo_throughput_limit="perMessageGroupId"
    )
    attributes = _attributes(env, "q.fifo")
    assert attributes["ContentBasedDeduplication"] == "true"
    assert attributes["DeduplicationScope"] == "messageGroup"
    assert attributes["FifoThroughputLimit"] == "perMessageGroupId"


NAMES = {
    "delay_seconds": "DelaySeconds",
    "kms_data_key_reuse_period_seconds": "KmsDataKeyReusePeriodSeconds",
    "maximum_message_size": "MaximumMessageSize",
    "message_retention_period": "MessageRetentionPeriod",
    "receive_message_wait_time_seconds": "ReceiveMessageWaitTimeSeconds",
    "visibility_timeout": "VisibilityTimeout",
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_numbers_out_of_range_are_refused(env: SQSEnv, name: str) -> None:
    lowest, highest = QUEUE_ATTRIBUTE_RANGES[NAMES[name]]
    for value in (lowest - 1, highest + 1, 1.5, True, "many"):
        arguments: Any = {name: value}
        with pytest.raises(ConfigurationError, match=f"{name} .*{lowest} to {highest}"):
            create_standard_queue(env, "q", **arguments)
    assert env.get_all_known_queues() == []


def test_names_and_kinds_are_told_apart(env: SQSEnv) -> None:
    with pytest.raises(InvalidQueueNameError):
        create_standard_queue(env, "q.fifo")
    with pytest.raises(InvalidQueueNameError):
        create_fifo_queue(env, "q")
    with pytest.raises(ConfigurationError, match="colour"):
        create_standard_queue(env, "q", colour="red")  # type: ignore[call-arg]


def test_creating_the_same_queue_again_is_no_error(env: SQSEnv) -> None:
    assert create_standard_queue(env, "q", visibility_timeout=40) == create_standard_queue(
        env, "q", visibility_timeout=40
    )


def test_creating_what_exists_with_other_attributes_is_explained(env: SQSEnv) -> None:
    create_standard_queue(env, "q", visibility_timeout=40, delay_seconds=2)
    with pytest.raises(QueueAttributesConflictError, match="VisibilityTimeout is '40'") as raised:
        create_standard_queue(env, "q", visibility_timeout=50, delay_seconds=2)
    assert raised.value.differences == {"VisibilityTimeout": ("40", "50")}


def test_a_redrive_policy_is_checked(env: SQSEnv) -> None:
    for count in (0, 1001):
        with pytest.raises(ConfigurationError, match="1000"):
            env.redrive_policy("dead", count)
    with pytest.raises(QueueNotFoundError):
        create_standard_queue(env, "q", redrive_policy=env.redrive_policy("nope", 3))


def test_deleting_a_queue_that_does_not_exist_says_so(env: SQSEnv) -> None:
    with pytest.raises(QueueNotFoundError):
        delete_queue(env, "q")


def test_pushing_back_keeps_body_and_all_attributes(env: SQSEnv, make_queue: Any) -> None:
    main = make_queue("main")
    dead = make_queue("dead", DeadLetterQueue.maker(main))
    attributes: dict[str, Any] = {
        f"A{n}": {"DataType": "Number.int", "StringValue": str(n)} for n in range(9)
    }
    attributes["Raw"] = {"DataType": "Binary", "BinaryValue": b"\x00\x01"}
    env.sqs_client.send_message(QueueUrl=dead.url, MessageBody="body", MessageAttributes=attributes)
    assert dead.process_batch().succeeded_count() == 1
    (job,) = sent_jobs(main)
    assert job.delay == 1
    env.session.clock.advance(1)
    (message,) = main.get_raw_messages()
    assert (message.body, message.message_attributes) == ("body", attributes)


def test_pushing_back_on_fifo_keeps_the_group_and_is_not_deduplicated_away(make_queue: Any) -> None:
    main = make_queue("main.fifo")
    dead = make_queue("dead.fifo", DeadLetterQueue.maker(main))
    main.add_job("job", _deduplication_id="same", _group_id="g")
    (message,) = main.get_raw_messages()
    message.delete()
    dead.add_raw_job(message.body, deduplication_id="same", group_id="g")
    assert dead.process_batch().succeeded_count() == 1
    (job,) = sent_jobs(main)
    assert job.group_id == "g"


def test_f22_a_message_whose_copy_was_not_taken_is_kept(env: SQSEnv, make_queue: Any) -> None:
    main = make_queue("main")
    dead = make_queue("dead", DeadLetterQueue.maker(main))
    dead.add_raw_job("precious")
    env.transport = faulty = FaultyTransport(env.transport)

    def fail(number: int) -> None:
        raise ConnectionError("gone")

    faulty.fail_call = fail
    assert dead.process_batch().failed_count() == 1
    assert sent_jobs(main) == []
    assert env.sqs_client.get_queue_attributes(
        QueueUrl=dead.url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
    )["Attributes"] == {"ApproximateNumberOfMessagesNotVisible": "1"}
