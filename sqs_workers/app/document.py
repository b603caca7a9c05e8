"""YAML text to a tree that knows its lines.

Nothing is constructed from the text but texts, lists and mappings; what a text means is decided by the one
who reads it. The tree is bounded, so that a few lines of aliases cannot fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeAlias

from sqs_workers.app.problems import AppFileError, Path, Problem
from sqs_workers.exceptions import MissingExtraError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "ListNode",
    "MapNode",
    "Node",
    "TextNode",
    "parse",
    "read",
    "replaced",
]

MAX_BYTES = 1_000_000
"""Bytes of a file. No app that a person wrote comes near."""

MAX_NODES = 20_000
"""Values of a file, each alias counted as what it stands for."""

MAX_DEPTH = 40
"""Lists and mappings within each other."""

MAX_DOCUMENTS = 100
"""Documents of a file."""

_CORE = "tag:yaml.org,2002:"
_CORE_TAGS = {
    _CORE + name
    for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "value", "timestamp")
}
_MERGE = _CORE + "merge"


@dataclass(frozen=True, slots=True)
class TextNode:
    """A scalar: its text, and whether it stood there without quotes.

    :ivar variables: names of the variables that were put into the text.
    """

    text: str
    line: int
    plain: bool = False
    variables: tuple[str, ...] = ()

    @property
    def is_null(self) -> bool:
        """Whether nothing stands here."""
        return self.plain and not self.variables and self.text.lower() in ("", "~", "null")


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping, with the line of each key that was not merged in."""

    entries: dict[str, Node]
    line: int
    key_lines: dict[str, int] = field(default_factory=dict)


Node: TypeAlias = TextNode | ListNode | MapNode


def read(path: str | FilePath, name: str | None = None) -> list[MapNode]:
    """The documents of a file.

    :param name: what to call the file in errors; the path by default.
    :raises AppFileError: it cannot be read, or is no YAML that describes an app.
    :raises MissingExtraError: PyYAML is not installed.
    """
    name = str(path) if name is None else name
    try:
        with FilePath(path).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _whole(name, "there is no such file", "`sqs-workers init` writes one to start from") from None
    except OSError as error:
        raise _whole(name, f"cannot be read: {error.strerror or type(error).__name__}") from None
    if len(raw) > MAX_BYTES:
        raise _whole(name, f"is larger than {MAX_BYTES:,} bytes: this is no description of an app")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise AppFileError(
            [Problem(name, line, (), f"is not UTF-8 (byte {error.start})", "save the file as UTF-8")]
        ) from None
    return parse(text, name)


def parse(text: str, name: str = "<text>") -> list[MapNode]:
    """The documents of a text; see :func:`read`."""
    yaml = _yaml()
    try:
        composed = _compose(yaml, text, name)
    except yaml.YAMLError as error:
        raise AppFileError([_syntax_problem(error, text, name)]) from None
    except RecursionError:
        raise _whole(name, f"lists or mappings stand more than {MAX_DEPTH} deep") from None
    converter = _Converter(yaml, name)
    documents: list[MapNode] = []
    for node in composed:
        converted = converter.convert(node, ())
        if isinstance(converted, MapNode):
            documents.append(converted)
        elif converted is not None and not (isinstance(converted, TextNode) and converted.is_null):
            line = node.start_mark.line + 1
            converter.add(line, (), "a document must be a mapping that begins with `apiVersion:`")
    if converter.problems:
        raise AppFileError(converter.problems)
    if not documents:
        raise _whole(name, "is empty", "`sqs-workers init` writes one to start from")
    return documents


def _yaml() -> ModuleType:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError(
            "reading a YAML file needs PyYAML, which is not installed: pip install 'sqs-workers[cli]'"
        ) from None
    return yaml


def _compose(yaml: Any, text: str, name: str) -> list[Any]:
    found: list[Any] = []
    documents: Iterator[Any] = iter(yaml.compose_all(text, Loader=yaml.SafeLoader))
    for node in documents:
        found.append(node)
        if len(found) > MAX_DOCUMENTS:
            raise _whole(name, f"has more than {MAX_DOCUMENTS} documents")
    return found


def _whole(name: str, message: str, hint: str = "") -> AppFileError:
    return AppFileError([Problem(name, 0, (), message, hint)])


def _syntax_problem(error: Any, text: str, name: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        position = getattr(error, "position", None)
        line = text[:position].count("\n") + 1 if isinstance(position, int) else 0
        return Problem(name, line, (), "has a character that YAML does not allow")
    line = mark.line + 1
    lines = text.splitlines()
    written = lines[mark.line] if mark.line < len(lines) else ""
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent or written[mark.column : mark.column + 1] == "\t":
        return Problem(
            name,
            line,
            (),
            f"a tab stands in column {written.index(chr(9)) + 1}",
            "YAML is indented with spaces",
        )
    said = getattr(error, "problem", None) or "is no YAML"
    context = getattr(error, "context", None)
    begun = getattr(error, "context_mark", None)
    since = f" {context} that began in line {begun.line + 1}" if context and begun is not None else ""
    hint = ""
    if "mapping values are not allowed" in said:
        hint = "check the indentation, and put texts with `: ` in quotes"
    elif "cannot start any token" in said or "undefined alias" in said or "expected alphabetic" in said:
        hint = "put the text in quotes"
    return Problem(name, line, (), f"is no YAML: {said}{since} (column {mark.column + 1})", hint)


class _TooLarge(Exception):
    def __init__(self, node: Any, path: Path, message: str) -> None:
        super().__init__(message)
        self.line: int = node.start_mark.line + 1
        # The path of what is too deep is of no use in full.
        self.path = path[:6]


class _Converter:
    """From PyYAML's nodes, which aliases share, to a tree."""

    def __init__(self, yaml: Any, name: str) -> None:
        self._yaml = yaml
        self._name = name
        self._nodes = 0
        self.problems: list[Problem] = []

    def add(self, line: int, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self._name, line, path, message, hint))

    def convert(self, node: Any, path: Path) -> Node | None:
        try:
            return self._node(node, path)
        except _TooLarge as error:
            self.add(error.line, error.path, str(error))
            return None

    def _node(self, node: Any, path: Path) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooLarge(node, path, f"is more than {MAX_NODES:,} values when its aliases are followed")
        if len(path) > MAX_DEPTH:
            raise _TooLarge(node, path, f"stands more than {MAX_DEPTH} deep: an alias may contain itself")
        line: int = node.start_mark.line + 1
        if node.tag not in _CORE_TAGS:
            self.add(line, path, f"the tag {_short(node.tag)} is not allowed", "plain YAML alone is read")
        if isinstance(node, self._yaml.ScalarNode):
            return TextNode(node.value, line, plain=node.style is None)
        if isinstance(node, self._yaml.SequenceNode):
            items = tuple(self._node(item, (*path, index)) for index, item in enumerate(node.value))
            return ListNode(items, line)
        return self._mapping(node, path, line)

    def _mapping(self, node: Any, path: Path, line: int) -> MapNode:
        entries: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, self._yaml.ScalarNode):
                self.add(key_line, path, "a key must be a text")
                continue
            key: str = key_node.value
            if key_node.tag == _MERGE:
                merged.update(self._merged(value_node, path))
            elif key in entries:
                self.add(
                    key_line,
                    (*path, key),
                    f"the key stands here a second time, after line {lines[key]}",
                    "remove one",
                )
            else:
                entries[key] = self._node(value_node, (*path, key))
                lines[key] = key_line
        return MapNode({**merged, **entries}, line, lines)

    def _merged(self, node: Any, path: Path) -> dict[str, Node]:
        sources = node.value if isinstance(node, self._yaml.SequenceNode) else [node]
        merged: dict[str, Node] = {}
        for source in reversed(sources):
            converted = self._node(source, (*path, "<<"))
            if isinstance(converted, MapNode):
                merged.update(converted.entries)
            else:
                self.add(converted.line, (*path, "<<"), "only a mapping can be merged in")
        return merged


def _short(tag: str) -> str:
    text = tag.replace(_CORE, "!!")
    return text if len(text) <= 60 else text[:60] + "..."


def replaced(node: TextNode, text: str, variables: tuple[str, ...]) -> TextNode:
    """The node with variables put in."""
    return replace(node, text=text, variables=variables)
