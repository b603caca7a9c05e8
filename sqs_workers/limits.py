"""The limits of SQS, SNS and EventBridge that the library relies on, each with the page that states it."""

from __future__ import annotations

__all__ = [
    "DEFAULT_VISIBILITY_TIMEOUT",
    "MAX_ATTRIBUTES",
    "MAX_BATCH_ENTRIES",
    "MAX_DELAY_SECONDS",
    "MAX_EVENTBRIDGE_BYTES",
    "MAX_EVENTBRIDGE_DETAIL_TYPE",
    "MAX_EVENTBRIDGE_SOURCE",
    "MAX_ID_LENGTH",
    "MAX_IN_FLIGHT_STANDARD",
    "MAX_LONG_DELAY_SECONDS",
    "MAX_MESSAGE_BYTES",
    "MAX_MOVES_PER_SECOND",
    "MAX_QUEUE_NAME_LENGTH",
    "MAX_SNS_BYTES",
    "MAX_VISIBILITY_TIMEOUT",
    "MAX_WAIT_SECONDS",
    "QUEUE_ATTRIBUTE_RANGES",
]


MAX_BATCH_ENTRIES = 10
"""Entries of a batch call, and messages of one receive.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""

MAX_MESSAGE_BYTES = 1_048_576
"""Bytes of one message, and of all messages of one batch: body plus names, types and values of attributes.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""

MAX_MOVES_PER_SECOND = 500
"""Messages a second that a task moves from a dead-letter queue at most.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html"""

MAX_ATTRIBUTES = 10
"""Message attributes of one message.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html"""

MAX_DELAY_SECONDS = 900
"""Seconds that a message, or every message of a queue, may be delayed (15 minutes).
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html"""

MAX_LONG_DELAY_SECONDS = 366 * 86_400
"""Seconds that a job may be delayed by messages that follow one another, or by a schedule (a year). The
library's own limit: a due time further away is taken for a mistake."""

MAX_VISIBILITY_TIMEOUT = 43_200
"""Seconds from receipt that a message may stay in flight (12 hours).
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html"""

DEFAULT_VISIBILITY_TIMEOUT = 30
"""Seconds that a received message is hidden on a queue created without other settings.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html"""

MAX_WAIT_SECONDS = 20
"""Seconds that one receive may wait for a message to arrive.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html"""

MAX_IN_FLIGHT_STANDARD = 120_000
"""Messages of a standard queue that may be in flight at once.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""

MAX_ID_LENGTH = 128
"""Characters of a deduplication id or message group id.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""

MAX_QUEUE_NAME_LENGTH = 80
"""Characters of a queue name: letters, digits, ``-`` and ``_``; a FIFO queue ends with ``.fifo``.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html"""

MAX_SNS_BYTES = 262_144
"""Bytes of one message to a topic, and of all messages of one batch: counted as SQS counts.
https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html"""

MAX_EVENTBRIDGE_BYTES = 262_144
"""Bytes of all entries of one ``PutEvents``: sources, detail types and details, and 14 for each time.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevent-size.html"""

MAX_EVENTBRIDGE_SOURCE = 256
"""Characters of the source of an event.
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsRequestEntry.html"""

MAX_EVENTBRIDGE_DETAIL_TYPE = 128
"""Characters of the detail type of an event.
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsRequestEntry.html"""

QUEUE_ATTRIBUTE_RANGES = {
    "DelaySeconds": (0, MAX_DELAY_SECONDS),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
    "MaximumMessageSize": (1_024, MAX_MESSAGE_BYTES),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, MAX_WAIT_SECONDS),
    "VisibilityTimeout": (0, MAX_VISIBILITY_TIMEOUT),
}
"""Lowest and highest value of each numeric attribute of a queue.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html"""
