"""The tables of ``docs/hooks.md`` say what the dataclasses say."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from sqs_workers import hooks
from sqs_workers.hooks import Event, MessageEvent

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"
EVENTS = [
    value
    for value in vars(hooks).values()
    if inspect.isclass(value) and issubclass(value, Event) and value not in (Event, MessageEvent)
]


def row(event: type[Event]) -> str:
    """The table row of an event: its name, when it happens, its own fields."""
    doc = inspect.getdoc(event) or ""
    summary = doc.split("\n\n")[0].replace("\n", " ")
    inherited = {field.name for base in (Event, MessageEvent) for field in dataclasses.fields(base)}
    own = [f"`{field.name}`" for field in dataclasses.fields(event) if field.name not in inherited]
    scope = "message" if issubclass(event, MessageEvent) else "queue"
    return f"| `{event.__name__}` | {scope} | {summary.replace('``', '`')} | {', '.join(own)} |"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_the_page_has_the_row_of_the_event(event: type[Event]) -> None:
    assert row(event) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_field_of_an_event_is_documented(event: type[Event]) -> None:
    own = {field.name for field in dataclasses.fields(event)}
    documented = set()
    for cls in event.__mro__:
        documented |= set(re.findall(r":ivar (\w+):", cls.__doc__ or ""))
    assert own <= documented


if __name__ == "__main__":
    print("\n".join(row(event) for event in EVENTS))
