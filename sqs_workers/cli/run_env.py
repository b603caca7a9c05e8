"""``run module:env``: the queues of an environment in Python."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.app.handlers import load_object
from sqs_workers.app.logs import configure
from sqs_workers.app.spec import Logging
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import errors
from sqs_workers.cli.published import Publisher
from sqs_workers.cli.status import StatusLine
from sqs_workers.exceptions import ConfigurationError, SQSError
from sqs_workers.transport import DeferredTransport

if TYPE_CHECKING:
    from sqs_workers.app.building import RunOptions

__all__ = ["run_env"]

logger = logging.getLogger("sqs_workers.app")


def run_env(target: str, queues: tuple[str, ...], options: RunOptions, shutdown_timeout: float | None) -> int:
    """Work ``queues`` of the environment ``module:name``; the exit code."""
    if options.once:
        raise click.UsageError("--once is for files: use --until-idle or --max-jobs")
    try:
        env = load_object(target, Path.cwd())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if not callable(getattr(env, "worker", None)):
        raise click.UsageError(f"{target} is a {type(env).__name__}, and no SQSEnv")
    names = list(queues) or _declared(env)
    if not names:
        raise click.UsageError(f"{target} declares no queues with jobs: name the QUEUES to work")
    console = errors()
    handler = configure(Logging(), color=not console.no_color and console.is_terminal)
    settings: dict[str, Any] = {"concurrency": options.concurrency or 1}
    if shutdown_timeout is not None:
        settings["shutdown_timeout"] = shutdown_timeout
    policy = _policy(options)
    if policy is not None:
        settings["shutdown_policy"] = policy
    if options.transport is not None:
        env.transport = options.transport
    if isinstance(env.transport, DeferredTransport):
        # What lean cannot honour is no mistake in an option, and is said before anything is received.
        env.transport.open()
    try:
        worker = env.worker(names, **settings)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if console.is_terminal:
        console.print(f"{target}: {', '.join(names)} x {settings['concurrency']}", style="bold", markup=False)
    publisher = Publisher([worker], _sqs_names(env, names))
    try:
        with StatusLine({"": worker}, handler) as status:
            return _run(worker, status, publisher)
    finally:
        publisher.close()


def _run(worker: Any, status: StatusLine, publisher: Publisher) -> int:
    import threading

    # The worker has the main thread, for its signal handlers; the status line another.
    ended = threading.Event()

    def keep_ticking() -> None:
        while not ended.wait(0.5):
            publisher.tick()
            status.tick()

    ticker = threading.Thread(target=keep_ticking, name="sqs-status", daemon=True)
    ticker.start()
    try:
        code: int = worker.run().exit_code
    except SQSError as error:
        logger.error("The worker cannot go on: %s", error)
        return 1
    finally:
        ended.set()
        ticker.join()
        sys.stderr.flush()
    return code


def _sqs_names(env: Any, names: list[str]) -> dict[str, str]:
    own = [name.partition(":")[0] for name in names]
    return {name: env.get_sqs_queue_name(name) for name in own}


def _declared(env: Any) -> list[str]:
    found = getattr(env, "queues", None)
    return [name for name, queue in dict(found or {}).items() if getattr(queue, "processors", None)]


def _policy(options: RunOptions) -> Any:
    from sqs_workers.shutdown_policies import IdleShutdown, MaxTasksShutdown, OrShutdown

    policies: list[Any] = []
    if options.until_idle is not None:
        policies.append(IdleShutdown(options.until_idle))
    if options.max_jobs is not None:
        policies.append(MaxTasksShutdown(options.max_jobs))
    if len(policies) == 2:
        return OrShutdown(*policies)
    return policies[0] if policies else None
