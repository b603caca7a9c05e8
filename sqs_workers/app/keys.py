"""How a dataclass says what a file may hold: one field a key, with its meaning and bounds."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal, Union

__all__ = ["Key", "Shape", "key", "keys_of"]

_META = "sqs_workers.key"


@dataclass(frozen=True, slots=True)
class _Meta:
    doc: str
    minimum: float | None
    maximum: float | None
    refers_to: tuple[str, ...]
    secret: bool
    any_case: bool


def key(
    doc: str,
    *,
    default: Any = MISSING,
    factory: Any = MISSING,
    minimum: float | None = None,
    maximum: float | None = None,
    refers_to: tuple[str, ...] = (),
    secret: bool = False,
    any_case: bool = False,
) -> Any:
    """A field of a dataclass that is a key of a file.

    :param doc: what it means, with its unit.
    :param refers_to: types of resources, one of which the text names.
    :param secret: the value is never shown.
    :param any_case: the words of a ``Literal`` are read in any case.
    """
    meta = {_META: _Meta(doc, minimum, maximum, refers_to, secret, any_case)}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=meta)
    if default is MISSING:
        return field(metadata=meta)
    return field(default=default, metadata=meta)


Kind = Literal["text", "integer", "number", "boolean", "word", "section", "list", "mapping"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value may be.

    :ivar words: the words of a ``word``.
    :ivar section: the dataclass of a ``section``.
    :ivar item: what a ``list`` or ``mapping`` holds.
    :ivar or_one: a list of one may be written without the list.
    """

    kind: Kind
    optional: bool = False
    words: tuple[str, ...] = ()
    section: type | None = None
    item: Shape | None = None
    or_one: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping in a file."""

    name: str
    shape: Shape
    doc: str
    default: Any
    minimum: float | None
    maximum: float | None
    refers_to: tuple[str, ...]
    secret: bool
    any_case: bool

    @property
    def required(self) -> bool:
        """Whether it must stand there."""
        return self.default is MISSING


class OneOrMore(tuple[str, ...]):
    """Texts; a single one may be written without the list."""

    __slots__ = ()


_PLAIN: dict[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean"}


@cache
def keys_of(cls: type) -> Mapping[str, Key]:
    """The keys of a dataclass, in their order."""
    hints = typing.get_type_hints(cls)
    found: dict[str, Key] = {}
    for item in dataclasses.fields(cls):
        meta: _Meta | None = item.metadata.get(_META)
        if meta is None:
            continue
        default: Any = item.default
        if item.default_factory is not MISSING:
            default = item.default_factory()
        found[item.name] = Key(
            item.name,
            _shape(hints[item.name]),
            meta.doc,
            default,
            meta.minimum,
            meta.maximum,
            meta.refers_to,
            meta.secret,
            meta.any_case,
        )
    in_order = sorted(found.values(), key=lambda item: not item.required)
    return types.MappingProxyType({item.name: item for item in in_order})


def _shape(hint: Any) -> Shape:
    if hint in _PLAIN:
        return Shape(_PLAIN[hint])
    if hint is OneOrMore:
        return Shape("list", item=Shape("text"), or_one=True)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        inner = next(arg for arg in args if arg is not type(None))
        return dataclasses.replace(_shape(inner), optional=True)
    if origin is Literal:
        return Shape("word", words=args)
    if origin is tuple:
        return Shape("list", item=_shape(args[0]))
    if dataclasses.is_dataclass(hint):
        return Shape("section", section=typing.cast("type", hint))
    return Shape("mapping", item=_shape(args[1]))
