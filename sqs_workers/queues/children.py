"""Working a queue with several processes, which find the environment by its import path."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.queues.running import RunOptions
    from sqs_workers.shutdown_policies import ShutdownPolicy

__all__ = ["find_environment", "import_environment", "run_children", "work_queue"]


def run_children(
    queue: Any,
    processes: int,
    shutdown_policy: ShutdownPolicy,
    options: RunOptions,
    worker_options: dict[str, Any],
    env_path: str | None,
) -> Any:
    """Work ``queue`` in child processes until told to stop.

    :param env_path: where they find the environment: ``package.module:name``; looked for if it is ``None``.
    :raises ConfigurationError: the environment cannot be found by a name, or an option is out of range.
    """
    count: Any = processes
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"processes must be an integer of 1 or more, not {processes!r}")
    queue.check_runnable(options, worker_options.get("executor", "auto"))
    path = env_path or find_environment(queue.env)
    if import_environment(path) is not queue.env:
        raise ConfigurationError(
            f"env_path {path!r} is another environment than that of queue {queue.name!r}"
        )
    from sqs_workers.worker.processes import run_processes

    kwargs = {
        "env_path": path,
        "queue_name": queue.name,
        "options": {
            "shutdown_policy": shutdown_policy,
            "wait_second": options.wait_seconds,
            "heartbeat": options.heartbeat,
            "visibility_timeout": options.visibility_timeout,
            "circuit": options.circuit,
            **worker_options,
        },
    }
    return run_processes(f"{__name__}:work_queue", kwargs, processes)


def work_queue(env_path: str, queue_name: str, options: dict[str, Any]) -> Any:
    """What a child process does."""
    return import_environment(env_path).queue(queue_name).process_queue(**options)


def import_environment(path: str) -> Any:
    """The environment at ``package.module:name``.

    :raises ConfigurationError: the path is not of this form, or there is no such module or name.
    """
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"env_path must be of the form package.module:name, not {path!r}")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"env_path {path!r} leads nowhere: {error}") from error


def find_environment(env: Any) -> str:
    """The path of the global variable that holds ``env``.

    :raises ConfigurationError: there is none that another process could import.
    """
    for module_name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is env:
                if module_name != "__main__":
                    return f"{module_name}:{attribute}"
                spec = getattr(module, "__spec__", None)
                if spec is not None:
                    return f"{spec.name}:{attribute}"
    raise ConfigurationError(
        "child processes import the environment anew, and this one is no global variable of a module that "
        "they could "
        "import: put it there, or say where it is: env_path='myapp.jobs:sqs'"
    )
