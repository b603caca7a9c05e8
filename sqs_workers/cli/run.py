"""``run``: the workers of a file, or of an environment in Python."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.cli.needs import click
from sqs_workers.cli.output import errors
from sqs_workers.cli.status import StatusLine, banner_of_app, sqs_name

if TYPE_CHECKING:
    from sqs_workers.app.building import RunOptions
    from sqs_workers.transport import Mode

__all__ = ["run_command"]


@click.command("run")
@click.argument("target", metavar="FILE|MODULE:ENV")
@click.argument("queues", nargs=-1)
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Messages at once; overrides the file.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("--reload", "reload_", is_flag=True, help="Start anew when a file beside it changes.")
@click.option("--once", is_flag=True, help="One receive of each queue, then stop.")
@click.option(
    "--until-idle",
    type=click.FloatRange(0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Stop when nothing has come for so long (2 seconds unless given).",
)
@click.option("--max-jobs", type=click.IntRange(1), help="Stop after so many messages.")
@click.option(
    "--transport",
    type=click.Choice(["boto3", "lean", "auto"]),
    help="How requests get to SQS; overrides the file and the environment.",
)
@click.option(
    "--shutdown-timeout", type=click.FloatRange(0.1), help="Seconds for running handlers at a stop."
)
def run_command(
    target: str,
    queues: tuple[str, ...],
    concurrency: int | None,
    processes: int,
    reload_: bool,
    once: bool,
    until_idle: float | None,
    max_jobs: int | None,
    transport: Mode | None,
    shutdown_timeout: float | None,
) -> int:
    """Run workers until SIGTERM or SIGINT.

    FILE is a YAML file. MODULE:ENV is an SQSEnv in Python, with the QUEUES to work ("mail:3" has three
    times the share of "reports").

    --transport lean sends the requests past boto3's client, for a fraction of its CPU, or says why it cannot;
    auto takes it where it can.

    \b
    Examples:
      sqs-workers run worker.yaml
      sqs-workers run worker.yaml --until-idle --max-jobs 1000
      sqs-workers run worker.yaml --transport auto
      sqs-workers run myapp.jobs:sqs mail:3 reports --concurrency 16 --processes 4

    Exit codes: 0 stopped in order, 1 could not start, 2 the file has mistakes, 3 something was left behind
    at the deadline, 4 could not go on.
    """
    if once and until_idle is not None:
        raise click.UsageError("--once and --until-idle exclude each other")
    is_file = Path(target).suffix in (".yaml", ".yml") or Path(target).exists() or ":" not in target
    if is_file and queues:
        raise click.UsageError("a file says itself which queues it reads: leave QUEUES out")
    if processes > 1 or reload_:
        from sqs_workers.cli.processes import supervise

        if is_file:
            # A mistake is told once, before any process starts.
            _load(Path(target))
        watch = _watched(target, is_file) if reload_ else None
        return supervise(sys.argv[1:], processes=processes, watch=watch)
    from sqs_workers.app.building import RunOptions

    options = RunOptions(
        concurrency=concurrency, max_jobs=max_jobs, once=once, until_idle=until_idle, transport=transport
    )
    if is_file:
        return _run_file(Path(target), options, shutdown_timeout)
    from sqs_workers.cli.run_env import run_env

    return run_env(target, queues, options, shutdown_timeout)


def _watched(target: str, is_file: bool) -> Path:
    return Path(target).resolve().parent if is_file else Path.cwd()


def _load(path: Path) -> tuple[Any, Any]:
    from sqs_workers.app.building import load_functions
    from sqs_workers.app.loading import load

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    app = load(path)
    return app, load_functions(app, path)


def _run_file(path: Path, options: RunOptions, shutdown_timeout: float | None) -> int:
    from dataclasses import replace

    from sqs_workers.app.building import build
    from sqs_workers.app.logs import configure
    from sqs_workers.app.running import AppRun
    from sqs_workers.app.watching import Watcher
    from sqs_workers.cli.published import Publisher
    from sqs_workers.hooks import HookRegistry

    app, functions = _load(path)
    if shutdown_timeout is not None:
        app = replace(app, app=replace(app.app, shutdown_timeout_s=shutdown_timeout))
    console = errors()
    handler = configure(app.app.logging, color=not console.no_color and console.is_terminal)
    hooks = HookRegistry()
    watcher = Watcher(hooks, error_messages=app.app.logging.error_messages)
    built = build(app, path.resolve(), functions, hooks=hooks, options=options, report=watcher.wrote)
    publisher = Publisher(
        built.workers.values(), {task.source: sqs_name(app, task.source) for task in app.tasks}
    )
    try:
        banner_of_app(app, built, options)
        run = AppRun(built)
        with StatusLine(run.workers, handler) as status:

            def tick() -> None:
                publisher.tick()
                status.tick()

            code = run.run(on_tick=tick)
    finally:
        publisher.close()
        built.close()
        watcher.summarize()
    return code
