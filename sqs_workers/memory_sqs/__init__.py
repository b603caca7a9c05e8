"""SQS in memory: a fake boto3 session for tests, examples and local servers."""

from __future__ import annotations

from sqs_workers.memory_sqs.backend import MemoryAWS
from sqs_workers.memory_sqs.receiving import Poll
from sqs_workers.memory_sqs.session import MemorySession

__all__ = ["MemoryAWS", "MemorySession", "Poll"]
