"""``top``: queues, live."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from sqs_workers.cli.metrics import queue_flow
from sqs_workers.cli.needs import Live, Table, click
from sqs_workers.cli.output import console, is_terminal, json_option, show_json
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
    """Watch QUEUES (all unless named): depth, change a second, in flight, age, dead letters. Ctrl-C ends it.

    Depth alone proves nothing: a message that is thrown away makes a queue shorter, too. On AWS, CloudWatch
    adds, minutes late, the age of the oldest message, what is done a second, and the share of receives after
    which a message came again. How many letters die a second is seen everywhere.

    SQS counts approximately, and a second or more late. With --json, or in a pipe, one JSON object or table a
    look.

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
    last = time.monotonic()
    looks = 0
    if shown is not None:
        shown.start()
    try:
        while True:
            now = queue_states(client, urls, flow=flow)
            at = time.monotonic()
            found = lines(now, before, at - last)
            before, last, looks = now, at, looks + 1
            _show(found, shown, as_json)
            if looks == count:
                return 0
            time.sleep(interval)
    except KeyboardInterrupt:
        return 0
    finally:
        if shown is not None:
            shown.stop()


def _show(found: list[Line], live: Live | None, as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    **asdict(line.state),
                    "per_second": line.per_second,
                    "dead_letters_per_second": line.dead_per_second,
                }
                for line in found
            ]
        )
        return
    if live is not None:
        live.update(_table(found), refresh=True)
        return
    for line in found:
        click.echo("\t".join(_cells(line)))


def _table(found: list[Line]) -> Table:
    shown = Table(box=None, pad_edge=False, title=time.strftime("%H:%M:%S"), title_justify="left")
    for name in (
        "queue",
        "visible",
        "change",
        "in flight",
        "delayed",
        "oldest",
        "done",
        "again",
        "dead",
        "dying",
    ):
        shown.add_column(
            name,
            justify="left" if name == "queue" else "right",
            no_wrap=True,
            overflow="ellipsis",
            header_style="bold",
        )
    for line in found:
        shown.add_row(*_cells(line), style="red" if (line.dead_per_second or 0) > 0 else None)
    return shown


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
