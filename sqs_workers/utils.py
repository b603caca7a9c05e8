"""Functions that code written for sqs-workers 0.7 imports from here."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

__all__ = [
    "batcher",
    "bind_arguments",
    "ensure_string",
    "instantiate_from_dict",
    "instantiate_from_string",
    "string_to_object",
    "validate_arguments",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def validate_arguments(
    callback: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[Any, Any], drop_extra: bool = True
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with which ``callback`` can be called, as ``(args, kwargs)``.

    :param drop_extra: leave out what the function does not know instead of refusing it.
    :raises TypeError: the arguments do not fit.
    """
    signature = inspect.signature(callback)
    named = {ensure_string(name): value for name, value in kwargs.items()}
    if drop_extra:
        args, named = _drop_extra(signature, args, named)
    bound = signature.bind(*args, **named)
    return bound.args, bound.kwargs


def _drop_extra(
    signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    parameters = signature.parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        args = args[: sum(parameter.kind in _POSITIONAL for parameter in parameters)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        known = {parameter.name for parameter in parameters if parameter.kind in _KEYWORD}
        dropped = kwargs.keys() - known
        if dropped:
            logger.debug("Dropped unknown arguments: %s", ", ".join(sorted(dropped)))
            kwargs = {name: value for name, value in kwargs.items() if name in known}
    return args, kwargs


def bind_arguments(
    callback: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[Any, Any]
) -> dict[str, Any]:
    """Arguments of a call by parameter name.

    :raises TypeError: the arguments do not fit.
    """
    named = {ensure_string(name): value for name, value in kwargs.items()}
    return dict(inspect.signature(callback).bind(*args, **named).arguments)


def string_to_object(string: str) -> Any:
    """Import ``package.module.name``. Never call it with text that came in a message.

    :raises RuntimeError: the text has no dot.
    """
    module_name, _, object_name = string.rpartition(".")
    if not module_name:
        raise RuntimeError(f"{string!r} is not the full path of an object: package.module.name")
    return getattr(importlib.import_module(module_name), object_name)


def instantiate_from_string(string: str, **init_kwargs: Any) -> Any:
    """Import a class by its path and call it."""
    return string_to_object(string)(**init_kwargs)


def instantiate_from_dict(
    options: Mapping[str, Any], maker_key: str = "maker", **extra_init_kwargs: Any
) -> Any:
    """Call the class whose path is ``options[maker_key]`` with the other options."""
    init_kwargs = {**options, **extra_init_kwargs}
    return string_to_object(init_kwargs.pop(maker_key))(**init_kwargs)


def ensure_string(obj: Any, encoding: str = "utf-8", errors: str = "strict") -> str:
    """``obj`` as text; bytes are decoded."""
    if isinstance(obj, bytes):
        return obj.decode(encoding, errors)
    return obj if isinstance(obj, str) else str(obj)


def batcher(iterable: Iterable[T], batch_size: int) -> Iterator[list[T]]:
    """Cut ``iterable`` into lists of ``batch_size`` items; the last may be shorter."""
    iterator = iter(iterable)
    while batch := list(islice(iterator, batch_size)):
        yield batch
