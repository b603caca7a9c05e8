"""``${VARIABLES}`` in the texts of a document.

Expanded after parsing: a value cannot bring keys, lists or quotes into the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqs_workers.app.document import ListNode, MapNode, Node, TextNode, replaced
from sqs_workers.app.problems import Path

__all__ = ["expand"]

_REFERENCE = re.compile(
    r"""
    \$(?:
        (?P<dollar>\$)
      | \{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<has_default>:-(?P<default>[^}]*))?\}
      | (?P<broken>\{[^}]*\}?)
    )
    """,
    re.VERBOSE,
)

Report = Callable[[int, Path, str, str], None]


def expand(
    node: Node,
    environment: Mapping[str, str],
    *,
    problem: Report,
    missing: Report,
    path: Path = (),
) -> Node:
    """The tree with the values of variables in the place of their names; keys stay as they are.

    ``${NAME}``, ``${NAME:-default}`` where the variable is absent or empty, ``$$`` for a dollar.

    :param problem: told of references that cannot be read: line, path, message, hint.
    :param missing: told of variables that have neither value nor default.
    """
    if isinstance(node, TextNode):
        return _expand_text(node, environment, problem, missing, path)
    if isinstance(node, ListNode):
        items = tuple(
            expand(item, environment, problem=problem, missing=missing, path=(*path, index))
            for index, item in enumerate(node.items)
        )
        return ListNode(items, node.line)
    entries = {
        key: expand(value, environment, problem=problem, missing=missing, path=(*path, key))
        for key, value in node.entries.items()
    }
    return MapNode(entries, node.line, node.key_lines)


def _expand_text(
    node: TextNode, environment: Mapping[str, str], problem: Report, missing: Report, path: Path
) -> TextNode:
    if "$" not in node.text:
        return node
    used: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["broken"] is not None:
            hint = "write ${NAME} or ${NAME:-default}, and $$ for a dollar"
            problem(node.line, path, "a reference to a variable cannot be read", hint)
            return ""
        name = match["name"]
        used.append(name)
        found = environment.get(name, "")
        if found:
            return found
        if match["has_default"]:
            return match["default"] or ""
        missing(
            node.line,
            path,
            f"the environment variable {name} has no value",
            f"set it, or write ${{{name}:-default}}",
        )
        return ""

    return replaced(node, _REFERENCE.sub(value, node.text), tuple(used))
