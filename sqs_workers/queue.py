"""Queues of jobs and of raw messages."""

from __future__ import annotations

from sqs_workers.exceptions import SQSBatchError
from sqs_workers.limits import MAX_BATCH_ENTRIES as SEND_BATCH_SIZE
from sqs_workers.limits import MAX_MESSAGE_BYTES as MAX_MESSAGE_LENGTH
from sqs_workers.outgoing import DEFAULT_MESSAGE_GROUP_ID
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.job_queue import JobQueue
from sqs_workers.queues.raw_queue import RawQueue

__all__ = [
    "DEFAULT_MESSAGE_GROUP_ID",
    "MAX_MESSAGE_LENGTH",
    "SEND_BATCH_SIZE",
    "GenericQueue",
    "JobQueue",
    "RawQueue",
    "SQSBatchError",
]
