"""A file to an app: parse, expand, read, check. Nothing is imported, opened or started."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from sqs_workers.app.document import ListNode, MapNode, Node, TextNode, parse, read
from sqs_workers.app.expansion import expand
from sqs_workers.app.problems import AppFileError, Path, suggestion
from sqs_workers.app.reading import INVALID, Reader
from sqs_workers.app.relations import check_relations
from sqs_workers.app.spec import API_VERSIONS, App, AppSettings, Task
from sqs_workers.app.spec_resources import RESOURCE_TYPES

__all__ = ["load", "loads"]

logger = logging.getLogger(__name__)

_NO_SUCH_KEY = "there is no such key"
_TOP = ("apiVersion", "kind", "app", "resources", "tasks")


def load(path: str | FilePath, environment: Mapping[str, str] | None = None) -> App:
    """The app that a file describes.

    :param environment: variables for ``${VAR}``; those of the process by default.
    :raises AppFileError: with every mistake that was found.
    :raises MissingExtraError: PyYAML is not installed.
    """
    return _build(read(path), str(path), os.environ if environment is None else environment)


def loads(text: str, environment: Mapping[str, str] | None = None, *, name: str = "<text>") -> App:
    """The app that a text describes; see :func:`load`."""
    return _build(parse(text, name), name, os.environ if environment is None else environment)


def _build(documents: list[MapNode], name: str, environment: Mapping[str, str]) -> App:
    reader = Reader(name)
    for document in documents:
        _check_head(reader, document)
    top = _join(reader, [_expand(reader, document, environment, documents) for document in documents])
    app = _read(reader, top)
    if not reader.problems and app is not None:
        check_relations(reader, app)
    if reader.problems or app is None:
        raise AppFileError(reader.problems)
    return app


def _check_head(reader: Reader, document: MapNode) -> None:
    version = document.entries.get("apiVersion")
    if version is None:
        reader.add(
            document.line, (), "the key `apiVersion` is missing", f"write apiVersion: {API_VERSIONS[0]}"
        )
    elif not isinstance(version, TextNode) or version.text not in API_VERSIONS:
        known = " or ".join(API_VERSIONS)
        reader.add(version.line, ("apiVersion",), f"must be {known}")
    kind = document.entries.get("kind")
    if kind is None:
        reader.add(document.line, (), "the key `kind` is missing", "write kind: App")
    elif not isinstance(kind, TextNode) or kind.text != "App":
        reader.add(kind.line, ("kind",), "must be App")
    for key in document.entries:
        if key not in _TOP and not key.startswith("x-"):
            line = document.key_lines.get(key, document.line)
            reader.add(line, (key,), _NO_SUCH_KEY, suggestion(key, _TOP))


def _expand(
    reader: Reader, document: MapNode, environment: Mapping[str, str], documents: list[MapNode]
) -> MapNode:
    strict = _is_strict(documents)

    def missing(line: int, path: Path, message: str, hint: str) -> None:
        if strict:
            reader.add(line, path, message, hint)
        else:
            logger.warning("line %d: %s: empty, as strict_env is off", line, message)

    used = {key: node for key, node in document.entries.items() if not key.startswith("x-")}
    expanded = expand(
        MapNode(used, document.line, document.key_lines), environment, problem=reader.add, missing=missing
    )
    assert isinstance(expanded, MapNode)
    return expanded


def _is_strict(documents: list[MapNode]) -> bool:
    """``app.strict_env`` as it is written; anything but a plain false is strict."""
    for document in documents:
        app = document.entries.get("app")
        word = app.entries.get("strict_env") if isinstance(app, MapNode) else None
        if isinstance(word, TextNode) and word.text.strip().lower() in ("false", "no", "off"):
            return False
    return True


def _join(reader: Reader, documents: list[MapNode]) -> MapNode:
    """The documents as one: each may bring resources and tasks, one of them brings `app`."""
    app: Node | None = None
    resources: dict[str, Node] = {}
    lines: dict[str, int] = {}
    tasks: list[Node] = []
    for document in documents:
        found = document.entries.get("app")
        if found is not None and app is not None:
            reader.add(
                found.line, ("app",), f"stands in a second document, after line {app.line}", "remove one"
            )
        app = found if app is None else app
        _join_resources(reader, document, resources, lines)
        listed = document.entries.get("tasks")
        if isinstance(listed, ListNode):
            tasks.extend(listed.items)
        elif listed is not None:
            reader.add(listed.line, ("tasks",), "must be a list", "begin each task with `- name:`")
    entries: dict[str, Node] = {
        "resources": MapNode(resources, documents[0].line, lines),
        "tasks": ListNode(tuple(tasks), documents[0].line),
    }
    if app is not None:
        entries["app"] = app
    return MapNode(entries, documents[0].line)


def _join_resources(
    reader: Reader, document: MapNode, resources: dict[str, Node], lines: dict[str, int]
) -> None:
    found = document.entries.get("resources")
    if found is None:
        return
    if not isinstance(found, MapNode):
        reader.add(found.line, ("resources",), "must be a mapping from names to resources")
        return
    for name, node in found.entries.items():
        line = found.key_lines.get(name, node.line)
        if name in resources:
            reader.add(
                line,
                ("resources", name),
                f"stands in a second document, after line {lines[name]}",
                "rename one",
            )
        else:
            resources[name] = node
            lines[name] = line


def _read(reader: Reader, top: MapNode) -> App | None:
    settings: Any = INVALID
    if "app" in top.entries:
        settings = reader.section(AppSettings, top.entries["app"], ("app",))
    else:
        reader.add(top.line, (), "the section `app` is missing", "write app: with a name: below")
    resources_node, tasks_node = top.entries["resources"], top.entries["tasks"]
    assert isinstance(resources_node, MapNode)
    assert isinstance(tasks_node, ListNode)
    resources = {
        name: _resource(reader, name, node, resources_node.key_lines.get(name, node.line))
        for name, node in resources_node.entries.items()
    }
    tasks = [reader.section(Task, node, ("tasks", index)) for index, node in enumerate(tasks_node.items)]
    misspelt = any(len(problem.path) == 1 and problem.message == _NO_SUCH_KEY for problem in reader.problems)
    if not tasks and not misspelt:
        reader.add(
            tasks_node.line, (), "the section `tasks` is missing or empty", "begin each task with `- name:`"
        )
    if settings is INVALID or INVALID in resources.values() or INVALID in tasks:
        return None
    return App(app=settings, resources=resources, tasks=tuple(tasks), lines=dict(_lines(top, ())))


def _lines(node: Node, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, MapNode):
        for key, value in node.entries.items():
            yield (*path, key), node.key_lines.get(key, value.line)
            yield from _lines(value, (*path, key))
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield (*path, index), item.line
            yield from _lines(item, (*path, index))


def _resource(reader: Reader, name: str, node: Node, line: int) -> Any:
    path = ("resources", name)
    if not isinstance(node, MapNode):
        reader.add(line, path, "must be a mapping with a `type`")
        return INVALID
    type_node = node.entries.get("type")
    if not isinstance(type_node, TextNode):
        reader.add(line, path, "the key `type` is missing", f"one of: {', '.join(RESOURCE_TYPES)}")
        return INVALID
    cls = RESOURCE_TYPES.get(type_node.text)
    if cls is None:
        reader.add(
            type_node.line,
            (*path, "type"),
            "there is no such type",
            suggestion(type_node.text, tuple(RESOURCE_TYPES)),
        )
        return INVALID
    return reader.section(cls, node, path, besides=("type",))
