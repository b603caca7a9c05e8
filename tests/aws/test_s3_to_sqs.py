"""Notifications of an S3 that others wrote."""

from __future__ import annotations

from typing import Any

import pytest

from sqs_workers.envelopes import IncomingEvent, S3Notification
from tests.aws.stack import Stack, until
from tests.worlds import counts

pytestmark = pytest.mark.wire


def test_f29_an_object_that_is_put_reaches_its_processor_by_its_decoded_key(moto_endpoint: str) -> None:
    # moto writes keys as S3 does; MiniStack leaves them as they are.
    stack = Stack(moto_endpoint)
    queue_arn = stack.queue_arn("uploads")
    s3 = stack.session.client("s3", config=path_style())
    s3.create_bucket(Bucket=stack.name)
    configuration = {"QueueArn": queue_arn, "Events": ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(
        Bucket=stack.name, NotificationConfiguration={"QueueConfigurations": [configuration]}
    )
    key = "reports/完成 1+1.csv"
    s3.put_object(Bucket=stack.name, Key=key, Body=b"12345")
    queue = stack.env.queue("uploads", envelope="s3")
    seen: list[S3Notification] = []

    @queue.events().on("ObjectCreated:*")
    def uploaded(event: IncomingEvent[Any]) -> None:
        seen.append(event.data)

    until(lambda: queue.process_batch().total_count() > 0 and bool(seen), "the notification")
    (notification,) = seen
    assert (notification.record.bucket, notification.record.key) == (stack.name, key)
    assert notification.record.size == 5
    assert counts(stack.env, "uploads") == (0, 0)


def path_style() -> Any:
    from botocore.config import Config

    return Config(s3={"addressing_style": "path"})
