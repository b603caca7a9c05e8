"""JSON as instances of dataclasses, TypedDicts and models of pydantic, without depending on pydantic.

Members that a dataclass does not know are left out: a newer producer may send them. Errors name the place and
never the value.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Literal, TypeVar, Union
from uuid import UUID

from typing_extensions import NotRequired, Required, get_type_hints, is_typeddict

from sqs_workers.envelopes.shapes import as_time
from sqs_workers.exceptions import ConfigurationError, UndecodableMessageError

__all__ = ["make_reader"]

T = TypeVar("T")
Reader = Callable[[Any, str], Any]

_UNIONS = (Union, types.UnionType)


def make_reader(model: type[T]) -> Callable[[Any], T]:
    """A function that makes an instance of ``model`` out of JSON.

    :param model: a dataclass, a TypedDict, or whatever has pydantic's ``model_validate``.
    :raises ConfigurationError: it is none of these, or has a member of a type that JSON cannot fill.
    """
    given: Any = model
    validate = getattr(given, "model_validate", None)
    if validate is not None:
        return lambda value: _validated(validate, value, model)
    if not (is_typeddict(given) or (isinstance(given, type) and dataclasses.is_dataclass(given))):
        raise ConfigurationError(
            f"a model is a dataclass, a TypedDict or a pydantic model, not {given!r:.80}"
        )
    reader = _Object(given)
    # Here, and not at the first event.
    _ = reader.members
    return lambda value: reader(value, "data")


def _validated(validate: Callable[[Any], Any], value: Any, model: Any) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        # pydantic's own text quotes the input.
        list_errors = getattr(error, "errors", None)
        details = list_errors(include_input=False, include_url=False) if list_errors is not None else []
        places = ", ".join(
            f"{'.'.join(map(str, detail.get('loc', ())))} ({detail.get('type')})" for detail in details[:5]
        )
        raise UndecodableMessageError(f"the event is no {model.__name__}: {places}") from None


def _reader(hint: Any) -> Reader:
    if hint is Any or hint is object:
        return lambda value, path: value
    simple = (
        _SIMPLE.get(hint) if isinstance(hint, type) else _SIMPLE.get(type(None)) if hint is None else None
    )
    if simple is not None:
        return simple
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Required, NotRequired, typing.Annotated):
        return _reader(arguments[0])
    if origin in _UNIONS:
        return _union([_reader(argument) for argument in arguments])
    if origin is Literal:
        return _literal(arguments)
    container = origin or hint
    if container in (list, Sequence, tuple, set, frozenset):
        return _sequence(container, arguments)
    if container in (dict, Mapping):
        return _mapping(arguments)
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return _enum(hint)
        if is_typeddict(hint) or dataclasses.is_dataclass(hint):
            return _Object(hint)
    raise ConfigurationError(f"a model cannot have a member of type {hint!r}: JSON cannot fill it")


def _wrong(path: str, expected: str) -> UndecodableMessageError:
    return UndecodableMessageError(f"{path} of the event is no {expected}")


def _exactly(kind: type, name: str) -> Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong(path, name)
        return value

    return read


def _read_float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(path, "number")
    return float(value)


def _read_none(value: Any, path: str) -> None:
    if value is not None:
        raise _wrong(path, "null")


def _read_datetime(value: Any, path: str) -> datetime:
    if not isinstance(value, str):
        raise _wrong(path, "time")
    time = as_time(value, f"{path} of the event")
    assert time is not None
    return time


def _converted(convert: Callable[[Any], Any], kinds: tuple[type, ...], name: str) -> Reader:
    def read(value: Any, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise _wrong(path, name)
        try:
            return convert(value)
        except (ValueError, InvalidOperation):
            raise _wrong(path, name) from None

    return read


_SIMPLE: dict[Any, Reader] = {
    str: _exactly(str, "text"),
    bool: _exactly(bool, "boolean"),
    int: _exactly(int, "integer"),
    float: _read_float,
    type(None): _read_none,
    datetime: _read_datetime,
    date: _converted(date.fromisoformat, (str,), "date"),
    UUID: _converted(UUID, (str,), "UUID"),
    Decimal: _converted(lambda value: Decimal(str(value)), (str, int, float), "decimal number"),
}


def _union(readers: list[Reader]) -> Reader:
    def read(value: Any, path: str) -> Any:
        for reader in readers:
            try:
                return reader(value, path)
            except UndecodableMessageError as error:
                last = error
        raise last

    return read


def _literal(allowed: tuple[Any, ...]) -> Reader:
    def read(value: Any, path: str) -> Any:
        for candidate in allowed:
            if type(candidate) is type(value) and candidate == value:
                return candidate
        raise _wrong(path, f"one of {allowed!r}")

    return read


def _enum(cls: type[Enum]) -> Reader:
    def read(value: Any, path: str) -> Any:
        try:
            return cls(value)
        except (ValueError, TypeError):
            raise _wrong(path, cls.__name__) from None

    return read


def _sequence(container: Any, arguments: tuple[Any, ...]) -> Reader:
    make: Callable[[list[Any]], Any] = list if container is Sequence else container
    fixed = container is tuple and bool(arguments) and arguments[-1] is not Ellipsis
    readers = [_reader(argument) for argument in arguments if argument is not Ellipsis] or [_reader(Any)]

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list) or (fixed and len(value) != len(readers)):
            raise _wrong(path, f"array of {len(readers)}" if fixed else "array")
        return make(
            [
                (readers[index] if fixed else readers[0])(item, f"{path}[{index}]")
                for index, item in enumerate(value)
            ]
        )

    return read


def _mapping(arguments: tuple[Any, ...]) -> Reader:
    reader = _reader(arguments[1]) if arguments else _reader(Any)
    if arguments and arguments[0] not in (str, Any):
        raise ConfigurationError("keys of a JSON object are text: take dict[str, ...]")

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "object")
        return {key: reader(item, f"{path}[...]") for key, item in value.items()}

    return read


class _Object:
    """Reads a dataclass or a TypedDict; its members are looked up at the first use, so it may hold itself."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self._as_dict = is_typeddict(cls)
        self._members: dict[str, tuple[Reader, bool]] | None = None

    def __call__(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "object")
        found = {}
        for name, (reader, required) in self.members.items():
            if name in value:
                found[name] = reader(value[name], f"{path}.{name}")
            elif required:
                raise UndecodableMessageError(f"{path}.{name} of the event is missing")
        return found if self._as_dict else self._cls(**found)

    @property
    def members(self) -> dict[str, tuple[Reader, bool]]:
        if self._members is None:
            hints = get_type_hints(self._cls, include_extras=True)
            self._members = {
                name: (_reader(hints[name]), required) for name, required in self._required(hints).items()
            }
        return self._members

    def _required(self, hints: dict[str, Any]) -> dict[str, bool]:
        if self._as_dict:
            return {name: _is_required(self._cls, name, hint) for name, hint in hints.items()}
        return {
            field.name: field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            for field in dataclasses.fields(self._cls)
            if field.init
        }


def _is_required(cls: Any, name: str, hint: Any) -> bool:
    # Where annotations are text, the class itself does not see the marks in them.
    origin = typing.get_origin(hint)
    if origin in (Required, NotRequired):
        return origin is Required
    return name in cls.__required_keys__
