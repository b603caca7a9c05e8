"""The same against servers that others wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sqs_workers.redrive import DeadLetters, find_dead_letter_queues
from tests.servers import wire_client

pytestmark = pytest.mark.wire


@pytest.mark.parametrize(
    ("emulator", "suffix"),
    [
        ("moto_endpoint", ""),
        # No FIFO queue on moto: its sequence numbers are random, where those of SQS rise.
        ("ministack_endpoint", ""),
        ("ministack_endpoint", ".fifo"),
        ("local_endpoint", ""),
        ("local_endpoint", ".fifo"),
    ],
)
def test_dead_letters_are_found_looked_at_and_sent_back(
    emulator: str, suffix: str, request: pytest.FixtureRequest
) -> None:
    client = wire_client(request.getfixturevalue(emulator))
    fifo = {"FifoQueue": "true"} if suffix else {}
    dead = client.create_queue(QueueName=f"wire-dead{suffix}", Attributes=fifo)["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = client.create_queue(QueueName=f"wire{suffix}", Attributes={**fifo, "RedrivePolicy": policy})[
        "QueueUrl"
    ]
    for number in range(12):
        more: dict[str, Any] = {}
        if suffix:
            more = {"MessageGroupId": f"g{number % 2}", "MessageDeduplicationId": str(number)}
        client.send_message(QueueUrl=dead, MessageBody=str(number), **more)

    (state,) = find_dead_letter_queues(client, "wire")
    assert (state.url, state.messages, [source.url for source in state.sources]) == (dead, 12, [url])
    letters = DeadLetters(client, dead)
    assert letters.sample(5).groups == {("", "redrive policy", ""): 5}
    report = letters.redrive(first=5, wait=0)
    assert (report.sent, report.clean) == (12, True)

    found: list[int] = []
    while messages := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [int(message["Body"]) for message in messages]
        for message in messages:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sorted(found) == list(range(12))
    if suffix:
        assert [number for number in found if number % 2] == list(range(1, 12, 2))
    client.delete_queue(QueueUrl=url)
    client.delete_queue(QueueUrl=dead)
    client.close()
