"""SQS in memory: a fake boto3 session for tests, examples and local servers."""

from __future__ import annotations

from sqs_workers.memory_sqs.backend import MemoryAWS
from sqs_workers.memory_sqs.client import MemoryClient
from sqs_workers.memory_sqs.receiving import Poll
from sqs_workers.memory_sqs.session import MemorySession
from sqs_workers.memory_sqs.shapes import MemoryMessage, MemoryQueue, ServiceResource

__all__ = [
    "MemoryAWS",
    "MemoryClient",
    "MemoryMessage",
    "MemoryQueue",
    "MemorySession",
    "Poll",
    "ServiceResource",
]
