"""The reference page of the YAML file, written from the dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqs_workers.app.keys import Key, Shape, keys_of
from sqs_workers.app.spec import AppSettings, Task
from sqs_workers.app.spec_resources import RESOURCE_TYPES

__all__ = ["reference_page"]

_HEAD = """\
# YAML reference

Every key of a worker file. `sqs-workers check FILE` checks a file, `sqs-workers schema` prints a JSON Schema
for editors, and [the guide](guide-sqs-to-mysql.md) shows a whole file at work.

This page is written by `python -m sqs_workers.cli.pages yaml`.

## The file

A file is YAML: one document or several. Each begins with `apiVersion: sqs-workers/v1` (or
`onestep/v1alpha1`, which has the same words) and `kind: App`, and may hold `app`, `resources`, `tasks`, and
keys that begin with `x-`, which are ignored and good for anchors. Several documents are read as one: each
may bring resources and tasks, and `app` stands in one of them.

Not allowed: a key twice in a mapping, tags, tabs, more than 1,000,000 bytes, more than 20,000 values with
aliases followed.

### Variables

`${NAME}` is the value of an environment variable. `${NAME:-default}` has a default for a variable that is
absent or empty. `$$` is a dollar. Variables are put in after the YAML was parsed, so that a value can never
bring keys or lists with it; where a number or a word is wanted, the value is read as one. `resources` and
`tasks` are keys of mappings and lists like any other: a variable stands in a value, never in a key.
"""


def reference_page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    parts += _section("`app`", AppSettings, "##")
    parts.append(
        "\n## `resources`\n\nA mapping from names of your choice to resources, each with a `type`.\n"
    )
    for name, cls in RESOURCE_TYPES.items():
        parts += _section(f"type `{name}`", cls, "###")
    parts.append("\n## `tasks`\n\nA list.\n")
    parts += _section("A task", Task, "###")
    return "".join(parts)


def _section(title: str, cls: type, level: str, prefix: str = "") -> list[str]:
    doc = " ".join((cls.__doc__ or "").split())
    parts = [
        f"\n{level} {title}\n\n{doc}\n\n",
        "| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
    ]
    nested: list[str] = []
    for item in keys_of(cls).values():
        parts.append(
            f"| `{prefix}{item.name}` | {_value(item)} | {_default(item)} | {_escaped(item.doc)} |\n"
        )
        section = item.shape.section
        if section is not None:
            nested += _section(f"`{item.name}`", section, level + "#", f"{prefix}{item.name}.")
    return parts + nested


def _value(item: Key) -> str:
    if item.refers_to:
        text = "name of a resource: " + ", ".join(f"`{kind}`" for kind in item.refers_to)
        return f"one or a list, each the {text}" if item.shape.or_one else text
    return _shape(item.shape) + _bounds(item)


def _shape(shape: Shape) -> str:
    if shape.kind == "word":
        return ", ".join(f"`{word}`" for word in shape.words)
    if shape.kind == "list":
        assert shape.item is not None
        return f"list of {_shape(shape.item)}s"
    if shape.kind == "mapping":
        assert shape.item is not None
        return f"mapping to {_shape(shape.item)}s"
    return {"integer": "whole number", "section": "mapping", "boolean": "`true`, `false`"}.get(
        shape.kind, shape.kind
    )


def _bounds(item: Key) -> str:
    if item.minimum is None and item.maximum is None:
        return ""
    if item.maximum is None:
        return f", {item.minimum:g} or more"
    return f", {item.minimum:g} to {item.maximum:.0f}"


def _default(item: Key) -> str:
    if item.required:
        return "**required**"
    default: Any = item.default
    if default is None or default in ((), "", {}) or dataclasses.is_dataclass(default):
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
