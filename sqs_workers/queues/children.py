"""Working a queue with several processes, which find the environment by its import path."""

from __future__ import annotations

import base64
import pickle
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.worker.result import WorkerResult

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
    if _environment_here(path) is not queue.env:
        raise ConfigurationError(
            f"env_path {path!r} is another environment than that of queue {queue.name!r}"
        )
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
            "policies": _as_text(shutdown_policy, options.circuit),
            "options": child_options,
        },
        processes=processes,
        shutdown_timeout=worker_options.get("shutdown_timeout", 30.0),
    )
    return WorkerResult("the child processes ended", exit_code=code)


def work_queue(env_path: str, queue_name: str, policies: str, options: dict[str, Any]) -> Any:
    """What a child process does."""
    # The environment first: it imports the modules in which the policies may be defined.
    queue = import_environment(env_path).queue(queue_name)
    shutdown_policy, circuit = pickle.loads(base64.b64decode(policies))  # noqa: S301 - written by the parent
    return queue.process_queue(shutdown_policy, circuit=circuit, **options)


def _as_text(shutdown_policy: ShutdownPolicy, circuit: Any) -> str:
    """The policies for a child, each of which gets its own copies."""
    try:
        pickled = pickle.dumps((shutdown_policy, circuit))
    except Exception as error:
        raise ConfigurationError(
            f"{shutdown_policy!r} and {circuit!r} go to child processes and must be picklable: {error}"
        ) from error
    if b"__main__" in pickled:
        raise ConfigurationError(
            f"{shutdown_policy!r} and {circuit!r} go to child processes, which cannot import what a script "
            "itself defines: put the classes and functions that they use into a module"
        )
    return base64.b64encode(pickled).decode("ascii")


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


def _environment_here(path: str) -> Any:
    """The environment at ``path`` in this process, where its module may run as ``__main__``."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    module_name, _, attribute = path.partition(":")
    if spec is not None and spec.name == module_name and hasattr(main, attribute):
        return getattr(main, attribute)
    return import_environment(path)


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
