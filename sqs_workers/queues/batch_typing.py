"""What a queue with a batching policy is to a type checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sqs_workers.queues.job_queue import JobQueue

__all__ = ["BatchJobQueue"]

R = TypeVar("R")

if TYPE_CHECKING:
    from sqs_workers.async_task import AsyncTask

    class BatchJobQueue(JobQueue):
        """A ``JobQueue`` whose handlers get lists: what ``delay`` takes is not what the function takes."""

        def processor(  # type: ignore[override]
            self, job_name: str, pass_context: bool = False, context_var: str = "context", **settings: Any
        ) -> Callable[[Callable[..., R]], AsyncTask[..., R]]:
            """Decorator: the function gets lists of the arguments of jobs of this name."""
            ...

else:
    BatchJobQueue = JobQueue
