"""From a tree to dataclasses; every mistake is collected, none stops the reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqs_workers.app.document import ListNode, MapNode, Node, TextNode
from sqs_workers.app.keys import Key, Shape, keys_of
from sqs_workers.app.problems import Path, Problem, suggestion

__all__ = ["INVALID", "Reader"]

_INTEGER = re.compile(r"[-+]?\d{1,18}")
_NUMBER = re.compile(r"[-+]?(\d{1,18}(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?")
_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off"}


class _Invalid:
    """Stands for a value that was reported as a problem."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Any = _Invalid()

_WANTED = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "section": "a mapping",
    "list": "a list",
    "mapping": "a mapping",
}


class Reader:
    """Reads sections of one file.

    :param file: name of the file for problems.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[Problem] = []

    def add(self, line: int, path: Path, message: str, hint: str = "") -> None:
        """Report a problem."""
        self.problems.append(Problem(self._file, line, path, message, hint))

    def section(self, cls: type, node: Node, path: Path, *, besides: tuple[str, ...] = ()) -> Any:
        """A dataclass from a mapping, or ``INVALID``.

        :param besides: keys that somebody else reads.
        """
        if not isinstance(node, MapNode):
            self.add(node.line, path, f"must be a mapping, not {_what(node)}")
            return INVALID
        keys = keys_of(cls)
        self._refuse_unknown(node, path, (*keys, *besides))
        values: dict[str, Any] = {}
        for item in keys.values():
            where = (*path, item.name)
            found = node.entries.get(item.name)
            if found is None:
                if item.required:
                    self.add(node.line, path, f"the key `{item.name}` is missing", _first_sentence(item.doc))
                    values[item.name] = INVALID
                continue
            values[item.name] = self._value(item, found, where)
        if any(value is INVALID for value in values.values()):
            return INVALID
        return cls(**values)

    def _refuse_unknown(self, node: MapNode, path: Path, known: tuple[str, ...]) -> None:
        for name in node.entries:
            if name not in known:
                line = node.key_lines.get(name, node.line)
                self.add(line, (*path, name), "there is no such key", suggestion(name, known))

    def _value(self, item: Key, node: Node, path: Path) -> Any:
        if isinstance(node, TextNode) and node.is_null:
            if item.shape.optional:
                return None
            self.add(node.line, path, "has no value", _first_sentence(item.doc))
            return INVALID
        value = self._shaped(item.shape, node, path, item)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._bounded(item, value, node, path)
        return value

    def _bounded(self, item: Key, value: float, node: Node, path: Path) -> Any:
        too_small = item.minimum is not None and value < item.minimum
        too_large = item.maximum is not None and value > item.maximum
        if too_small or too_large:
            self.add(node.line, path, f"must be {_bounds(item)}, not {_shown(node, item.secret)}")
            return INVALID
        return value

    def _shaped(self, shape: Shape, node: Node, path: Path, item: Key) -> Any:
        if shape.kind == "section":
            assert shape.section is not None
            return self.section(shape.section, node, path)
        if shape.kind == "list":
            return self._list(shape, node, path, item)
        if shape.kind == "mapping":
            return self._mapping(shape, node, path, item)
        if not isinstance(node, TextNode):
            self.add(node.line, path, f"must be {_wanted(shape)}, not {_what(node)}")
            return INVALID
        return self._scalar(shape, node, path, item)

    def _list(self, shape: Shape, node: Node, path: Path, item: Key) -> Any:
        assert shape.item is not None
        if shape.or_one and isinstance(node, TextNode):
            value = self._shaped(shape.item, node, path, item)
            return INVALID if value is INVALID else (value,)
        if not isinstance(node, ListNode):
            hint = "write it as [a, b]" if isinstance(node, TextNode) else ""
            self.add(node.line, path, f"must be a list, not {_what(node)}", hint)
            return INVALID
        values = [
            self._shaped(shape.item, entry, (*path, index), item) for index, entry in enumerate(node.items)
        ]
        return INVALID if any(value is INVALID for value in values) else tuple(values)

    def _mapping(self, shape: Shape, node: Node, path: Path, item: Key) -> Any:
        assert shape.item is not None
        if not isinstance(node, MapNode):
            self.add(node.line, path, f"must be a mapping, not {_what(node)}")
            return INVALID
        values: Mapping[str, Any] = {
            name: self._shaped(shape.item, entry, (*path, name), item) for name, entry in node.entries.items()
        }
        return INVALID if any(value is INVALID for value in values.values()) else values

    def _scalar(self, shape: Shape, node: TextNode, path: Path, item: Key) -> Any:
        if shape.kind == "text":
            return self._text(node, path)
        if shape.kind == "word":
            return self._word(shape, node, path, item)
        text = node.text.strip()
        if shape.kind == "integer" and _INTEGER.fullmatch(text):
            return int(text)
        if shape.kind == "number" and _NUMBER.fullmatch(text):
            return float(text)
        if shape.kind == "boolean" and text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        self.add(node.line, path, f"must be {_wanted(shape)}, not {_shown(node, item.secret)}")
        return INVALID

    def _text(self, node: TextNode, path: Path) -> Any:
        if node.is_null or (node.plain and not node.variables and node.text.lower() in _TRUE | _FALSE):
            self.add(node.line, path, f"must be a text, not {node.text or 'nothing'}", "put it in quotes")
            return INVALID
        if "\0" in node.text:
            self.add(node.line, path, "must be a text without the character NUL")
            return INVALID
        return node.text

    def _word(self, shape: Shape, node: TextNode, path: Path, item: Key) -> Any:
        text = node.text.strip()
        for word in shape.words:
            if text == word or (item.any_case and text.lower() == word.lower()):
                return word
        self.add(
            node.line,
            path,
            f"must be {_wanted(shape)}, not {_shown(node, item.secret)}",
            _meant(node, shape.words),
        )
        return INVALID


def _meant(node: TextNode, words: tuple[str, ...]) -> str:
    hint = "" if node.variables else suggestion(node.text, words)
    return hint if hint.startswith("did") else ""


def _wanted(shape: Shape) -> str:
    if shape.kind == "word":
        return " or ".join(f"`{word}`" for word in shape.words)
    return _WANTED[shape.kind]


def _what(node: Node) -> str:
    if isinstance(node, MapNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    return "nothing" if node.is_null else "a single value"


def _shown(node: Node, secret: bool) -> str:
    """The value, unless it may be a secret."""
    if not isinstance(node, TextNode):
        return _what(node)
    if node.variables:
        return "the value of " + " and ".join(f"${{{name}}}" for name in node.variables)
    if secret:
        return "this value"
    text = node.text if len(node.text) <= 40 else node.text[:40] + "..."
    return f"`{text}`"


def _bounds(item: Key) -> str:
    if item.minimum is not None and item.maximum is not None:
        return f"from {item.minimum:,g} to {item.maximum:,g}".replace(",", "")
    if item.minimum is not None:
        return f"{item.minimum:g} or more"
    return f"{item.maximum:g} or less"


def _first_sentence(doc: str) -> str:
    return doc.partition(". ")[0].rstrip(".")
