"""Queues of jobs and of raw messages."""

from __future__ import annotations

import logging

from sqs_workers.async_task import AsyncTask
from sqs_workers.backoff_policies import DEFAULT_BACKOFF
from sqs_workers.batching import BatchingConfiguration, NoBatching
from sqs_workers.core import BatchProcessingResult, get_job_name
from sqs_workers.exceptions import SQSBatchError, SQSError
from sqs_workers.limits import MAX_BATCH_ENTRIES as SEND_BATCH_SIZE
from sqs_workers.limits import MAX_MESSAGE_BYTES as MAX_MESSAGE_LENGTH
from sqs_workers.outgoing import DEFAULT_MESSAGE_GROUP_ID
from sqs_workers.processors import DEFAULT_CONTEXT_VAR, ProcessingResult, Processor, RetryJob
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.job_queue import JobQueue
from sqs_workers.queues.raw_queue import RawQueue
from sqs_workers.shutdown_policies import NEVER_SHUTDOWN, ShutdownPolicy
from sqs_workers.utils import batcher

# The lower half of the names is defined elsewhere; applications import them from here, too.
__all__ = [
    "DEFAULT_MESSAGE_GROUP_ID",
    "MAX_MESSAGE_LENGTH",
    "SEND_BATCH_SIZE",
    "GenericQueue",
    "JobQueue",
    "RawQueue",
    "SQSBatchError",
    "logger",
    "AsyncTask",
    "BatchProcessingResult",
    "BatchingConfiguration",
    "DEFAULT_BACKOFF",
    "DEFAULT_CONTEXT_VAR",
    "NEVER_SHUTDOWN",
    "NoBatching",
    "ProcessingResult",
    "Processor",
    "RetryJob",
    "SQSError",
    "ShutdownPolicy",
    "batcher",
    "get_job_name",
]

logger = logging.getLogger(__name__)
