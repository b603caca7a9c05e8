"""Python functions as jobs on Amazon SQS.

Everything here is loaded when it is first asked for: importing the package takes no time and loads no boto3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.async_task import AsyncTask as AsyncTask
    from sqs_workers.backoff_policies import DEFAULT_BACKOFF as DEFAULT_BACKOFF
    from sqs_workers.backoff_policies import IMMEDIATE_RETURN as IMMEDIATE_RETURN
    from sqs_workers.backoff_policies import ConstantBackoff as ConstantBackoff
    from sqs_workers.backoff_policies import EqualJitterBackoff as EqualJitterBackoff
    from sqs_workers.backoff_policies import ExponentialBackoff as ExponentialBackoff
    from sqs_workers.backoff_policies import FullJitterBackoff as FullJitterBackoff
    from sqs_workers.batching import BatchMessages as BatchMessages
    from sqs_workers.batching import BatchOutcome as BatchOutcome
    from sqs_workers.batching import NoBatching as NoBatching
    from sqs_workers.batching import PartialBatchError as PartialBatchError
    from sqs_workers.codecs import register_codec as register_codec
    from sqs_workers.core import BatchProcessingResult as BatchProcessingResult
    from sqs_workers.deadletter_queue import DeadLetterQueue as DeadLetterQueue
    from sqs_workers.exceptions import ConfigurationError as ConfigurationError
    from sqs_workers.exceptions import InvalidMessageError as InvalidMessageError
    from sqs_workers.exceptions import MessageTooLargeError as MessageTooLargeError
    from sqs_workers.exceptions import PermanentError as PermanentError
    from sqs_workers.exceptions import QueueConflictError as QueueConflictError
    from sqs_workers.exceptions import QueueNotFoundError as QueueNotFoundError
    from sqs_workers.exceptions import SerializationError as SerializationError
    from sqs_workers.exceptions import SQSBatchError as SQSBatchError
    from sqs_workers.exceptions import SQSError as SQSError
    from sqs_workers.failure_policies import DeadLetter as DeadLetter
    from sqs_workers.failure_policies import Discard as Discard
    from sqs_workers.failure_policies import Leave as Leave
    from sqs_workers.failure_policies import Release as Release
    from sqs_workers.job import Job as Job
    from sqs_workers.job import current_job as current_job
    from sqs_workers.memory_sqs import MemorySession as MemorySession
    from sqs_workers.processors import ProcessingResult as ProcessingResult
    from sqs_workers.processors import Processor as Processor
    from sqs_workers.processors import RetryJob as RetryJob
    from sqs_workers.queue import GenericQueue as GenericQueue
    from sqs_workers.queue import JobQueue as JobQueue
    from sqs_workers.queue import RawQueue as RawQueue
    from sqs_workers.shutdown_policies import ASAP_SHUTDOWN as ASAP_SHUTDOWN
    from sqs_workers.shutdown_policies import NEVER_SHUTDOWN as NEVER_SHUTDOWN
    from sqs_workers.shutdown_policies import AndShutdown as AndShutdown
    from sqs_workers.shutdown_policies import IdleShutdown as IdleShutdown
    from sqs_workers.shutdown_policies import MaxTasksShutdown as MaxTasksShutdown
    from sqs_workers.shutdown_policies import NeverShutdown as NeverShutdown
    from sqs_workers.shutdown_policies import OrShutdown as OrShutdown
    from sqs_workers.sqs_env import SQSEnv as SQSEnv
    from sqs_workers.sqs_manage import create_fifo_queue as create_fifo_queue
    from sqs_workers.sqs_manage import create_standard_queue as create_standard_queue
    from sqs_workers.sqs_manage import delete_queue as delete_queue

_NAMES_BY_MODULE = {
    "async_task": ("AsyncTask",),
    "backoff_policies": (
        "DEFAULT_BACKOFF",
        "IMMEDIATE_RETURN",
        "ConstantBackoff",
        "EqualJitterBackoff",
        "ExponentialBackoff",
        "FullJitterBackoff",
    ),
    "batching": ("BatchMessages", "BatchOutcome", "NoBatching", "PartialBatchError"),
    "codecs": ("register_codec",),
    "core": ("BatchProcessingResult",),
    "deadletter_queue": ("DeadLetterQueue",),
    "exceptions": (
        "ConfigurationError",
        "InvalidMessageError",
        "MessageTooLargeError",
        "PermanentError",
        "QueueConflictError",
        "QueueNotFoundError",
        "SQSBatchError",
        "SQSError",
        "SerializationError",
    ),
    "failure_policies": ("DeadLetter", "Discard", "Leave", "Release"),
    "job": ("Job", "current_job"),
    "memory_sqs": ("MemorySession",),
    "processors": ("ProcessingResult", "Processor", "RetryJob"),
    "queue": ("GenericQueue", "JobQueue", "RawQueue"),
    "shutdown_policies": (
        "ASAP_SHUTDOWN",
        "NEVER_SHUTDOWN",
        "AndShutdown",
        "IdleShutdown",
        "MaxTasksShutdown",
        "NeverShutdown",
        "OrShutdown",
    ),
    "sqs_env": ("SQSEnv",),
    "sqs_manage": ("create_fifo_queue", "create_standard_queue", "delete_queue"),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - the names are those of _NAMES_BY_MODULE


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        # Submodules are attributes of the package, whether or not somebody has imported them.
        if name in _NAMES_BY_MODULE or name in ("clock", "config", "context", "hooks", "middleware", "utils"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
