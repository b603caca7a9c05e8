"""``top``: queues and jobs, live."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from sqs_workers.cli.fitting import Fitted
from sqs_workers.cli.metrics import queue_flow
from sqs_workers.cli.needs import Group, Live, click
from sqs_workers.cli.output import console, is_terminal, json_option, printable, show_json
from sqs_workers.cli.published import JobState, published_jobs
from sqs_workers.cli.queues import QueueState, duration, queue_states
from sqs_workers.cli.sqs import Account, account_options, url_of

__all__ = ["top_command"]


@dataclass(frozen=True, slots=True)
class Line:
    """A queue and how it moves.

    :ivar per_second: messages that it gained (or lost, below zero) a second since the last look.
    """

    state: QueueState
    per_second: float | None
    dead_per_second: float | None


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job of the workers here.

    :ivar failing: whether runs have failed since the last look.
    """

    state: JobState
    failing: bool


def job_lines(now: Collection[JobState], before: Collection[JobState]) -> list[JobLine]:
    """What has changed between two looks."""
    failed = {(state.queue_name, state.job_name): state.stats.failed for state in before}
    return [
        JobLine(
            state, state.stats.failed > failed.get((state.queue_name, state.job_name), state.stats.failed)
        )
        for state in now
    ]


def lines(now: list[QueueState], before: list[QueueState], seconds: float) -> list[Line]:
    """What has changed between two looks."""
    old = {state.url: state for state in before}
    found = []
    for state in now:
        last = old.get(state.url)
        rate = dead = None
        if last is not None and seconds > 0:
            rate = (_total(state) - _total(last)) / seconds
            if state.dead_letters is not None and last.dead_letters is not None:
                dead = (state.dead_letters - last.dead_letters) / seconds
        found.append(Line(state, rate, dead))
    return found


def _total(state: QueueState) -> int:
    return state.visible + state.in_flight + state.delayed


@click.command("top")
@click.argument("queues", nargs=-1)
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds.")
@click.option("--count", type=click.IntRange(1), help="Looks, then end.")
@account_options
@json_option
def top_command(
    queues: tuple[str, ...],
    interval: float,
    count: int | None,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Watch QUEUES (all unless named), and their jobs. Ctrl-C ends it.

    Of a queue: depth, change a second, in flight, age, dead letters.

    Depth alone proves nothing: a message that is thrown away makes a queue shorter, too. On AWS, CloudWatch
    adds, minutes late, the age of the oldest message, what is done a second, and the share of receives after
    which a message came again. How many letters die a second is seen everywhere.

    Of each job that `sqs-workers run` works on this machine as this user: running, done and failed since its
    worker started, runs a second, how long they took (median and 95 %), and its last error. Workers elsewhere
    are seen where they run.

    SQS counts approximately, and a second or more late. With --json, or in a pipe, one JSON list or table a
    look; in a pipe the lines of jobs begin with "job".

    \b
    Example:
      sqs-workers top events events-dead --interval 1
    """
    account = Account(region, endpoint_url, profile)
    client = account.client()
    urls = [url_of(client, name) for name in queues] or client.list_queues().get("QueueUrls", [])
    flow = None if endpoint_url else queue_flow(account)
    shown: Live | None = None
    if is_terminal() and not as_json:
        shown = Live("", console=console(), auto_refresh=False, screen=count is None)
    before: list[QueueState] = []
    jobs_before: list[JobState] = []
    last = time.monotonic()
    looks = 0
    if shown is not None:
        shown.start()
    try:
        while True:
            now = queue_states(client, urls, flow=flow)
            at = time.monotonic()
            found = lines(now, before, at - last)
            names = {state.name for state in now}
            jobs = [job for job in published_jobs() if job.queue_name in names]
            found_jobs = job_lines(jobs, jobs_before)
            before, jobs_before, last, looks = now, jobs, at, looks + 1
            _show(found, found_jobs, shown, as_json)
            if looks == count:
                return 0
            time.sleep(interval)
    except KeyboardInterrupt:
        return 0
    finally:
        if shown is not None:
            shown.stop()


def _show(found: list[Line], jobs: list[JobLine], live: Live | None, as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    **asdict(line.state),
                    "per_second": line.per_second,
                    "dead_letters_per_second": line.dead_per_second,
                    "jobs": [
                        _job_object(job.state) for job in jobs if job.state.queue_name == line.state.name
                    ],
                }
                for line in found
            ]
        )
        return
    if live is not None:
        live.update(_tables(found, jobs, live.console.width), refresh=True)
        return
    for line in found:
        click.echo("\t".join(_cells(line)))
    for job in jobs:
        click.echo("\t".join(["job", *_job_cells(job.state)]))


def _tables(found: list[Line], jobs: list[JobLine], width: int) -> Group:
    shown = Fitted(
        ("queue", "visible", "change", "in flight", "delayed", "oldest", "done", "again", "dead", "dying"),
        [_cells(line) for line in found],
        flexible=("queue",),
        first_to_go=("oldest", "again", "done", "delayed"),
    )
    dying = [(line.dead_per_second or 0) > 0 for line in found]
    parts = [shown.table(time.strftime("%H:%M:%S"), width, red=dying)]
    if jobs:
        shown = Fitted(
            ("job", "queue", "running", "done", "failed", "rate", "p50", "p95", "last error"),
            [_job_cells(job.state) for job in jobs],
            flexible=("job", "queue", "last error"),
            first_to_go=("last error", "queue"),
        )
        failing = [job.failing for job in jobs]
        parts.append(shown.table("\nJobs of the workers here", width, red=failing))
    return Group(*parts)


def _cells(line: Line) -> list[str]:
    state = line.state
    change = "-" if line.per_second is None else f"{line.per_second:+.1f}/s"
    dead: Any = "-" if state.dead_letters is None else state.dead_letters
    return [
        state.name,
        str(state.visible),
        change,
        str(state.in_flight),
        str(state.delayed),
        duration(state.oldest_age),
        "-" if state.done_per_second is None else f"{state.done_per_second:.1f}/s",
        "-" if state.again is None else f"{state.again:.0%}",
        str(dead),
        "-" if line.dead_per_second is None else f"{line.dead_per_second:+.1f}/s",
    ]


def _job_cells(state: JobState) -> list[str]:
    return [
        " ".join(printable(state.job_name).split()) or "-",
        state.queue_name,
        str(state.stats.running),
        str(state.stats.succeeded),
        str(state.stats.failed),
        f"{state.per_second:.1f}/s" if state.per_second < 100 else f"{state.per_second:.0f}/s",
        _took(state.stats.percentile(0.5)),
        _took(state.stats.percentile(0.95)),
        state.stats.last_error or "-",
    ]


def _took(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g}ms"
    return f"{seconds:.1f}s" if seconds < 60 else duration(seconds)


def _job_object(state: JobState) -> dict[str, Any]:
    return {
        "job": state.job_name,
        "running": state.stats.running,
        "done": state.stats.succeeded,
        "failed": state.stats.failed,
        "per_second": state.per_second,
        "p50": state.stats.percentile(0.5),
        "p95": state.stats.percentile(0.95),
        "last_error": state.stats.last_error or None,
    }
