"""Working a queue with several processes, which find the environment by its import path."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.shutdown_policies import (
    ASAP_SHUTDOWN,
    NEVER_SHUTDOWN,
    AndShutdown,
    IdleShutdown,
    MaxTasksShutdown,
    NeverShutdown,
    OrShutdown,
    ShutdownPolicy,
)
from sqs_workers.worker.result import WorkerResult

if TYPE_CHECKING:
    from sqs_workers.queues.running import RunOptions

__all__ = ["find_environment", "import_environment", "run_children", "work_queue"]


def run_children(
    queue: Any,
    processes: int,
    shutdown_policy: ShutdownPolicy,
    options: RunOptions,
    worker_options: dict[str, Any],
    env_path: str | None,
) -> WorkerResult:
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
    if options.circuit is not None:
        raise ConfigurationError("circuit= cannot be handed to child processes: run one process for each")
    from sqs_workers.worker.processes import run_processes

    child_options = {
        "wait_second": options.wait_seconds,
        "heartbeat": options.heartbeat,
        "visibility_timeout": options.visibility_timeout,
        **worker_options,
    }
    code = run_processes(
        f"{__name__}:work_queue",
        {
            "env_path": path,
            "queue_name": queue.name,
            "policy": _policy_as_data(shutdown_policy),
            "options": child_options,
        },
        processes=processes,
        shutdown_timeout=worker_options.get("shutdown_timeout", 30.0),
    )
    return WorkerResult("the child processes ended", exit_code=code)


def work_queue(env_path: str, queue_name: str, policy: Any, options: dict[str, Any]) -> Any:
    """What a child process does."""
    queue = import_environment(env_path).queue(queue_name)
    return queue.process_queue(_policy_from_data(policy), **options)


_COMBINED = {"OrShutdown": OrShutdown, "AndShutdown": AndShutdown}
_WITH_NUMBER: dict[str, tuple[Any, str]] = {
    "IdleShutdown": (IdleShutdown, "idle_seconds"),
    "MaxTasksShutdown": (MaxTasksShutdown, "max_tasks"),
}


def _policy_as_data(policy: Any) -> list[Any]:
    """A shutdown policy as JSON carries it: each child gets one of its own."""
    name = type(policy).__name__
    if isinstance(policy, NeverShutdown):
        return ["NeverShutdown"]
    if policy is ASAP_SHUTDOWN:
        return ["IdleShutdown", 0]
    if name in _WITH_NUMBER and type(policy) is _WITH_NUMBER[name][0]:
        return [name, getattr(policy, _WITH_NUMBER[name][1])]
    if name in _COMBINED and type(policy) is _COMBINED[name]:
        return [name, *map(_policy_as_data, policy.policies)]
    raise ConfigurationError(
        f"the shutdown policy {policy!r} cannot be handed to child processes: take one of the library's"
    )


def _policy_from_data(data: list[Any]) -> ShutdownPolicy:
    name, *arguments = data
    if name == "NeverShutdown":
        return NEVER_SHUTDOWN
    if name in _COMBINED:
        combined: Any = _COMBINED[name](*map(_policy_from_data, arguments))
        return cast("ShutdownPolicy", combined)
    made: ShutdownPolicy = _WITH_NUMBER[name][0](*arguments)
    return made


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
        "child processes import the environment anew, and this one is no global variable of a module "
        "that they could import: put it there, or say where it is: env_path='myapp.jobs:sqs'"
    )
