"""The worker engine: it knows a transport, handlers and policies, and nothing of queues, jobs or codecs.

A program that only sends jobs imports the contract alone: the rest is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqs_workers.worker.contract import BatchSettings, Handler, JobPolicies, Source

if TYPE_CHECKING:
    from sqs_workers.worker.circuit import PauseOn
    from sqs_workers.worker.once import process_once
    from sqs_workers.worker.processes import run_processes
    from sqs_workers.worker.result import JobStats, SourceStats, WorkerResult, WorkerStats
    from sqs_workers.worker.runner import Worker

__all__ = [
    "BatchSettings",
    "Handler",
    "JobPolicies",
    "JobStats",
    "PauseOn",
    "Source",
    "SourceStats",
    "Worker",
    "WorkerResult",
    "WorkerStats",
    "process_once",
    "run_processes",
]

_MODULES = {
    "PauseOn": "circuit",
    "JobStats": "result",
    "SourceStats": "result",
    "Worker": "runner",
    "WorkerResult": "result",
    "WorkerStats": "result",
    "process_once": "once",
    "run_processes": "processes",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
