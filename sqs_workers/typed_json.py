"""JSON that reads back what it wrote: the codec ``json_typed``.

Besides JSON's own types it carries ``datetime``, ``date``, ``time``, ``timedelta``, ``UUID``, ``Decimal``,
``bytes``, tuples, sets, frozensets, dictionaries with any keys, NaN and infinities, and the Enums and
dataclasses that :func:`register_type` made known. A value of such a type is an object with the key
``$type``::

    {"$type": "decimal", "value": "9.90"}

A user's dictionary that has the key ``$type`` itself is written as a list of pairs, so that the two are never
mistaken for each other. A name in a message is looked up among the registered types and never imported.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, TypeVar, overload
from uuid import UUID

from sqs_workers.exceptions import ConfigurationError, SerializationError, UndecodableMessageError

__all__ = ["TYPED_JSON", "TypedJSONCodec", "register_type"]

TAG = "$type"
MAX_DEPTH = 200

TypeT = TypeVar("TypeT", bound=type)


class TypedJSONCodec:
    """The codec, with the Enums and dataclasses that it knows.

    :ivar types: registered types by the name that messages carry.
    """

    def __init__(self) -> None:
        self.types: dict[str, type] = {}
        self._names: dict[type, str] = {}

    def register(self, cls: Any, name: str | None = None) -> None:
        """Carry values of ``cls``, an Enum or a dataclass, under ``name`` (the class name by default).

        :raises ConfigurationError: it is neither, or the name belongs to another type.
        """
        is_enum = isinstance(cls, type) and issubclass(cls, Enum)
        if not is_enum and not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise ConfigurationError(f"{cls!r} is neither an Enum nor a dataclass")
        name = name or cls.__qualname__
        known = self.types.get(name)
        if known is not None and known is not cls and known.__module__ != cls.__module__:
            raise ConfigurationError(
                f"{name!r} is the name of {known!r} already; register {cls!r} by another"
            )
        self.types[name] = cls
        self._names[cls] = name

    def serialize(self, message: Any) -> str:
        """JSON text of ``message``.

        :raises SerializationError: names the argument whose type is not known.
        """
        return json.dumps(self._encode(message, "", 0), allow_nan=False)

    def deserialize(self, serialized: str) -> Any:
        """The value that was written.

        :raises UndecodableMessageError: a tag or a type is not known, or its value is malformed.
        """
        return self._decode(json.loads(serialized))

    def _encode(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is str or kind is int or kind is bool:
            return value
        if depth > MAX_DEPTH:
            raise SerializationError(
                f"codec 'json_typed' cannot carry argument {path[:80]!r}: it is nested too deeply",
                argument=path,
            )
        if kind in self._names:
            return self._encode_registered(value, path, depth)
        if isinstance(value, float):
            return value if math.isfinite(value) else _tagged("float", repr(float(value)))
        if isinstance(value, dict):
            return self._encode_dict(value, path, depth)
        for container, tag in _CONTAINERS:
            if isinstance(value, container):
                items = [self._encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
                return items if tag is None else _tagged(tag, items)
        for scalar, tag, write in _SCALARS:
            if isinstance(value, scalar):
                return _tagged(tag, write(value))
        if isinstance(value, (str, int)) and not isinstance(value, Enum):
            return str.__str__(value) if isinstance(value, str) else int(value)
        hint = (
            "; make it known with sqs_workers.typed_json.register_type"
            if isinstance(value, Enum) or dataclasses.is_dataclass(value)
            else ""
        )
        where = f"argument {path!r}" if path else "the value"
        raise SerializationError(
            f"codec 'json_typed' cannot carry {where} of type {kind.__qualname__}{hint}", argument=path
        )

    def _encode_dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        if TAG not in value and all(type(key) is str for key in value):
            return {
                key: self._encode(item, f"{path}.{key}" if path else key, depth + 1)
                for key, item in value.items()
            }
        pairs = [
            [
                self._encode(key, f"{path}[{key!r}]", depth + 1),
                self._encode(item, f"{path}[{key!r}]", depth + 1),
            ]
            for key, item in value.items()
        ]
        return _tagged("dict", pairs)

    def _encode_registered(self, value: Any, path: str, depth: int) -> Any:
        name = self._names[type(value)]
        if isinstance(value, Flag):
            return {TAG: "enum", "name": name, "value": value.value}
        if isinstance(value, Enum):
            return {TAG: "enum", "name": name, "member": value.name}
        fields = {
            field.name: self._encode(getattr(value, field.name), f"{path}.{field.name}", depth + 1)
            for field in dataclasses.fields(value)
        }
        return {TAG: "dataclass", "name": name, "value": fields}

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self._decode(item) for key, item in value.items()}
        return self._decode_tagged(value)

    def _decode_tagged(self, value: dict[str, Any]) -> Any:
        tag = value[TAG]
        try:
            if tag == "enum":
                return self._decode_enum(self._type(value), value)
            if tag == "dataclass":
                return self._decode_dataclass(self._type(value), value["value"])
            if tag == "dict":
                return {self._decode(key): self._decode(item) for key, item in value["value"]}
            make = _CONTAINER_READERS.get(tag)
            if make is not None:
                return make(self._decode(item) for item in value["value"])
            read = _SCALAR_READERS.get(tag)
            if read is not None:
                return read(value["value"])
        except UndecodableMessageError:
            raise
        except Exception as error:
            raise UndecodableMessageError(f"malformed value of the type {tag!r}") from error
        raise UndecodableMessageError(f"unknown type {tag!r} in a message of the codec 'json_typed'")

    def _type(self, value: dict[str, Any]) -> type:
        cls = self.types.get(value["name"])
        if cls is None:
            raise UndecodableMessageError(
                f"type {value['name']!r} is not registered: see sqs_workers.typed_json.register_type"
            )
        return cls

    @staticmethod
    def _decode_enum(enum: Any, value: dict[str, Any]) -> Any:
        return enum[value["member"]] if "member" in value else enum(value["value"])

    def _decode_dataclass(self, cls: type, values: dict[str, Any]) -> Any:
        decoded = {name: self._decode(item) for name, item in values.items()}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        # A newer sender may know more fields; they are dropped as unknown arguments are.
        known = {name: item for name, item in decoded.items() if name in fields}
        instance = cls(**{name: item for name, item in known.items() if fields[name].init})
        for name, item in known.items():
            if not fields[name].init:
                object.__setattr__(instance, name, item)
        return instance


def _tagged(tag: str, value: Any) -> dict[str, Any]:
    return {TAG: tag, "value": value}


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(value: list[int]) -> timedelta:
    return timedelta(*value)


def _write_bytes(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


# The order matters: a datetime is a date, too.
_SCALARS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (datetime, "datetime", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (timedelta, "timedelta", _write_timedelta),
    (UUID, "uuid", str),
    (Decimal, "decimal", str),
    ((bytes, bytearray), "bytes", _write_bytes),
)
_SCALAR_READERS: dict[Any, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": _read_timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "float": float,
}
_CONTAINERS: tuple[tuple[Any, str | None], ...] = (
    (list, None),
    (tuple, "tuple"),
    (set, "set"),
    (frozenset, "frozenset"),
)
_CONTAINER_READERS: dict[Any, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}

TYPED_JSON = TypedJSONCodec()
"""The codec that ``json_typed`` stands for."""


@overload
def register_type(cls: TypeT) -> TypeT: ...


@overload
def register_type(cls: None = None, *, name: str | None = None) -> Callable[[TypeT], TypeT]: ...


def register_type(cls: Any = None, *, name: str | None = None) -> Any:
    """Let ``json_typed`` carry an Enum or a dataclass; senders and workers must both do so.

    ::

        @register_type
        @dataclass
        class Address: ...

        @register_type(name="order.v1")
        @dataclass
        class Order: ...

    :param name: name that messages carry; the class name by default.
    :raises ConfigurationError: it is neither, or the name belongs to another type.
    """

    def register(target: Any) -> Any:
        TYPED_JSON.register(target, name)
        return target

    return register if cls is None else register(cls)
