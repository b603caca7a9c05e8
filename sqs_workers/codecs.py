"""How the arguments of a job become the text of a message.

======================  ===========================================================================
``json``                JSON. Tuples become lists; what JSON cannot carry is refused.
``json_typed``          JSON that also carries datetimes, UUIDs, Decimals, bytes, sets, tuples and
                        registered Enums and dataclasses (:mod:`sqs_workers.typed_json`).
``pickle``              Pickle with Python's default protocol, compressed, in base64.
``pickle_compat``       The same with protocol 2: the default, for the sake of older producers.
======================  ===========================================================================

A pickle runs code of its sender's choice when it is read: a worker decodes only what it accepts (``accept=``
of
:class:`~sqs_workers.sqs_env.SQSEnv`).

A codec of one's own is an object with two methods, registered under the name that messages carry::

    class MsgpackCodec:
        def serialize(self, message):
            return base64.b64encode(msgpack.packb(message)).decode()

        def deserialize(self, serialized):
            return msgpack.unpackb(base64.b64decode(serialized))

    register_codec("msgpack", MsgpackCodec())
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from sqs_workers.exceptions import ConfigurationError, SerializationError, UnknownCodecError

__all__ = [
    "CONTENT_TYPES_CODECS",
    "DEFAULT_CONTENT_TYPE",
    "Codec",
    "JSONCodec",
    "PickleCodec",
    "PickleCompatCodec",
    "PickleWarning",
    "accepted_content_types",
    "accepted_names",
    "find_unserializable",
    "get_codec",
    "register_codec",
]

logger = logging.getLogger(__name__)

DEFAULT_CONTENT_TYPE = "pickle_compat"
PICKLE_PY2_COMPAT_PROTO = 2
PICKLE_CONTENT_TYPES = frozenset({"pickle", "pickle_compat"})


class Codec(Protocol):
    """Turns arguments into text and back."""

    def serialize(self, message: Any) -> str:
        """Text of a value.

        :raises SerializationError: the value cannot be carried; any other exception is reported as one.
        """
        ...

    def deserialize(self, serialized: str) -> Any:
        """The value again. Any exception means that the message cannot be read."""
        ...


class JSONCodec:
    """Plain JSON, in ASCII."""

    @classmethod
    def serialize(cls, message: Any) -> str:
        """JSON text of ``message``.

        Tuples become lists. Values that JSON has no form for are refused, and so are NaN, infinities and
        dictionaries with keys that are not strings: they would not be read back.

        :raises SerializationError: names the argument.
        """
        if type(message) is dict and not message:
            # The context of most jobs.
            return "{}"
        try:
            text = _encode(message)
            _check_keys(message)
        except (TypeError, ValueError, RecursionError) as error:
            raise _refusal("json", message, error, _json_fault) from error
        return text

    @classmethod
    def deserialize(cls, serialized: str) -> Any:
        """The value of a JSON text."""
        # What json.loads would come to, after it has looked at its options.
        return _decode(serialized) if type(serialized) is str else json.loads(serialized)


class PickleCodec:
    """Pickle with Python's default protocol, compressed by zlib, in the URL-safe base64 alphabet."""

    protocol: ClassVar[int] = pickle.DEFAULT_PROTOCOL

    @classmethod
    def serialize(cls, message: Any) -> str:
        """Text of the pickle of ``message``.

        :raises SerializationError: names the argument.
        """
        try:
            pickled = pickle.dumps(message, protocol=cls.protocol)
        except Exception as error:
            raise _refusal("pickle", message, error, cls._fault) from error
        return base64.urlsafe_b64encode(zlib.compress(pickled)).decode("ascii")

    @classmethod
    def deserialize(cls, serialized: str) -> Any:
        """The pickled value. Runs whatever the pickle says: accept it from trusted senders only."""
        pickled = zlib.decompress(base64.urlsafe_b64decode(serialized.encode("ascii")))
        return pickle.loads(pickled)  # noqa: S301 - only content types that the worker accepts get here

    @classmethod
    def _fault(cls, value: Any) -> str | None:
        try:
            pickle.dumps(value, protocol=cls.protocol)
        except Exception as error:  # noqa: BLE001 - objects may raise anything when they are pickled
            return str(error)
        return None


class PickleCompatCodec(PickleCodec):
    """Pickle with protocol 2."""

    protocol = PICKLE_PY2_COMPAT_PROTO


# json.dumps with an option makes an encoder for each call.
_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.JSONDecoder().decode


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _check_keys(value: Any) -> None:
    items: Iterable[Any] = ()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} of a dictionary is not a string")
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    for item in items:
        if type(item) not in _SCALARS:
            _check_keys(item)


def _json_fault(value: Any) -> str | None:
    """Why JSON cannot carry ``value``, or ``None``."""
    try:
        json.dumps(value, allow_nan=False)
        _check_keys(value)
    except RecursionError:
        return "it is nested too deeply"
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _refusal(
    codec: str, message: Any, error: BaseException, fault: Callable[[Any], str | None]
) -> SerializationError:
    path, value, reason = find_unserializable(message, fault)
    where = f"argument {path!r}" if path else "the value"
    return SerializationError(
        f"codec {codec!r} cannot carry {where} of type {type(value).__qualname__}: {reason or error}. "
        "Convert it, or choose another codec: json_typed carries more",
        argument=path,
    )


def find_unserializable(
    message: Any, fault: Callable[[Any], str | None], path: str = "", depth: int = 0
) -> tuple[str, Any, str | None]:
    """Path, value and reason of the innermost part of ``message`` for which ``fault`` gives a reason."""
    reason = fault(message)
    parts: list[tuple[str, Any]] = []
    if isinstance(message, dict):
        parts = [(_path_of(key, path), item) for key, item in message.items()]
    elif isinstance(message, (list, tuple)):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(message)]
    # A cycle would be followed forever.
    if depth < 20:
        for part_path, part in parts:
            if fault(part) is not None:
                return find_unserializable(part, fault, part_path, depth + 1)
    return path, message, reason


def _path_of(key: Any, parent: str) -> str:
    if not parent:
        return str(key)
    return f"{parent}.{key}" if isinstance(key, str) else f"{parent}[{key!r}]"


class _LazyTypedJSON:
    """Loads the typed codec at its first use: most programs do without."""

    def serialize(self, message: Any) -> str:
        from sqs_workers.typed_json import TYPED_JSON

        return TYPED_JSON.serialize(message)

    def deserialize(self, serialized: str) -> Any:
        from sqs_workers.typed_json import TYPED_JSON

        return TYPED_JSON.deserialize(serialized)


CONTENT_TYPES_CODECS: dict[str, Codec] = {
    "json": JSONCodec(),
    "json_typed": _LazyTypedJSON(),
    "pickle": PickleCodec(),
    "pickle_compat": PickleCompatCodec(),
}
"""Codecs by the content type that messages carry; add to it with :func:`register_codec`."""


def register_codec(name: Any, codec: Codec) -> None:
    """Make ``codec`` known to senders and workers of this process under ``name``.

    :raises ConfigurationError: the name is not text, or the codec lacks a method.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(f"the name of a codec must be a printable text, not {name!r}")
    for method in ("serialize", "deserialize"):
        if not callable(getattr(codec, method, None)):
            raise ConfigurationError(f"codec {name!r} has no method {method}(): {codec!r}")
    CONTENT_TYPES_CODECS[name] = codec


def get_codec(content_type: str) -> Codec:
    """The codec of a content type.

    :raises UnknownCodecError: none is registered (a ``KeyError``, too).
    """
    try:
        return CONTENT_TYPES_CODECS[content_type]
    except (KeyError, TypeError):
        known = ", ".join(sorted(CONTENT_TYPES_CODECS))
        raise UnknownCodecError(f"no codec {_shown(content_type)}; known are {known}") from None


def _shown(content_type: Any) -> str:
    # It may come from a message, and be long.
    return repr(content_type if not isinstance(content_type, str) else content_type[:80])


def accepted_content_types(codec: str) -> frozenset[str]:
    """What a worker decodes when it was not told: what it sends with, JSON, and for a pickle both pickles."""
    if codec in PICKLE_CONTENT_TYPES:
        return PICKLE_CONTENT_TYPES | {"json"}
    return frozenset({codec, "json"})


def accepted_names(accept: Iterable[str]) -> frozenset[str]:
    """Codec names as a set.

    :raises UnknownCodecError: one is not registered.
    """
    names = frozenset([accept] if isinstance(accept, str) else accept)
    if not names:
        raise ConfigurationError("accept= names no codec: the worker could read nothing")
    for name in names:
        get_codec(name)
    return names


class PickleWarning:
    """Said when a worker starts, once an environment."""

    def __init__(self, due: bool) -> None:
        self._due = due
        self._lock = threading.Lock()

    def say_once(self) -> None:
        """Say it, unless it was said or is not due."""
        with self._lock:
            due, self._due = self._due, False
        if due:
            logger.warning(
                "This worker decodes pickles, which run code of the sender's choice. Use "
                "SQSEnv(codec='json'), "
                "or say what it shall accept: SQSEnv(accept=['json', 'pickle_compat'])"
            )
