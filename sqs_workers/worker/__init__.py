"""The worker engine: it knows a transport, handlers and policies, and nothing of queues, jobs or codecs."""

from sqs_workers.worker.circuit import PauseOn
from sqs_workers.worker.contract import BatchSettings, Handler, JobPolicies, Source
from sqs_workers.worker.once import process_once
from sqs_workers.worker.processes import run_processes
from sqs_workers.worker.result import SourceStats, WorkerResult, WorkerStats
from sqs_workers.worker.runner import Worker

__all__ = [
    "BatchSettings",
    "Handler",
    "JobPolicies",
    "PauseOn",
    "Source",
    "SourceStats",
    "Worker",
    "WorkerResult",
    "WorkerStats",
    "process_once",
    "run_processes",
]
