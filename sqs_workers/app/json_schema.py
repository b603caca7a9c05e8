"""A JSON Schema of the file, for editors that complete and check while one writes."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqs_workers.app.keys import Key, Shape, keys_of
from sqs_workers.app.spec import API_VERSIONS, AppSettings, Task
from sqs_workers.app.spec_resources import RESOURCE_TYPES

__all__ = ["json_schema"]

_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_TYPES = {"text": "string", "integer": "integer", "number": "number", "boolean": "boolean"}


def json_schema() -> dict[str, Any]:
    """The schema of one document (draft 2020-12).

    Texts with variables are allowed wherever a number, a word or a truth value is.
    """
    definitions = {name: _resource(name, cls) for name, cls in RESOURCE_TYPES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sqs-workers app",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"enum": list(API_VERSIONS)},
            "kind": {"const": "App"},
            "app": _section(AppSettings),
            "resources": {
                "description": "Queues, databases and sinks by name.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {"type": {"enum": list(RESOURCE_TYPES)}},
                    "allOf": [
                        {
                            "if": {"properties": {"type": {"const": name}}},
                            "then": {"$ref": f"#/$defs/{name}"},
                        }
                        for name in RESOURCE_TYPES
                    ],
                },
            },
            "tasks": {
                "description": "From queues through handlers to sinks.",
                "type": "array",
                "items": _section(Task),
            },
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "$defs": definitions,
    }


def _resource(name: str, cls: type) -> dict[str, Any]:
    schema = _section(cls)
    schema["properties"] = {"type": {"const": name}, **schema["properties"]}
    return schema


def _section(cls: type) -> dict[str, Any]:
    keys = keys_of(cls)
    schema: dict[str, Any] = {
        "description": (cls.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {item.name: _key(item) for item in keys.values()},
        "additionalProperties": False,
    }
    required = [item.name for item in keys.values() if item.required]
    if required:
        schema["required"] = required
    return schema


def _key(item: Key) -> dict[str, Any]:
    schema = {"description": item.doc, **_shape(item.shape, item)}
    if not item.required and item.default is not None and not dataclasses.is_dataclass(item.default):
        default = item.default
        schema["default"] = list(default) if isinstance(default, tuple) else default
    return schema


def _shape(shape: Shape, item: Key) -> dict[str, Any]:
    schema = _plain(shape, item)
    return {"anyOf": [schema, {"type": "null"}]} if shape.optional else schema


def _plain(shape: Shape, item: Key) -> dict[str, Any]:
    if shape.kind == "section":
        assert shape.section is not None
        return _section(shape.section)
    if shape.kind == "text":
        # A text may look like a number; whatever is written there is taken as it stands.
        return {"type": ["string", "number"]}
    if shape.kind == "word":
        words: dict[str, Any] = {"enum": list(shape.words)}
        if item.any_case:
            words = {"enum": [*shape.words, *(word.lower() for word in shape.words)]}
        return {"anyOf": [words, _VARIABLE]}
    if shape.kind in ("list", "mapping"):
        assert shape.item is not None
        inner = _plain(shape.item, item)
        if shape.kind == "mapping":
            return {"type": "object", "additionalProperties": inner}
        listed = {"type": "array", "items": inner}
        return {"anyOf": [inner, listed]} if shape.or_one else listed
    number: dict[str, Any] = {"type": _TYPES[shape.kind]}
    if item.minimum is not None:
        number["minimum"] = item.minimum
    if item.maximum is not None:
        number["maximum"] = item.maximum
    return {"anyOf": [number, _VARIABLE]}
