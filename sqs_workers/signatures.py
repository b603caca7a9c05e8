"""The signature of a handler, looked up once and bound fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from sqs_workers.exceptions import ArgumentsError

__all__ = ["HandlerSignature", "is_async_callable"]

_Kind = inspect.Parameter


class HandlerSignature:
    """How a handler may be called.

    :param fn: the handler.
    :param injected: name of a parameter that the worker fills in itself; never asked of a caller.
    """

    __slots__ = (
        "_allowed",
        "_injected",
        "_keywords",
        "_order",
        "_positional",
        "_positional_only",
        "_required",
        "_signature",
        "_takes_any_keyword",
        "fn",
    )

    def __init__(self, fn: Callable[..., Any], injected: str | None = None) -> None:
        self.fn = fn
        self._injected = injected
        try:
            self._signature: inspect.Signature | None = inspect.signature(fn)
        except (TypeError, ValueError):
            # Some callables written in C do not tell: whatever is given is passed on.
            self._signature = None
        parameters = [] if self._signature is None else list(self._signature.parameters.values())
        self._positional_only = tuple(p.name for p in parameters if p.kind is _Kind.POSITIONAL_ONLY)
        self._positional = tuple(
            p.name for p in parameters if p.kind in (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
        )
        named = (*self._positional, *(p.name for p in parameters if p.kind is _Kind.KEYWORD_ONLY))
        self._order = named
        self._keywords = frozenset(named)
        self._required = frozenset(
            p.name
            for p in parameters
            if p.name in self._keywords and p.default is _Kind.empty and p.name != injected
        )
        self._takes_any_keyword = self._signature is None or any(
            p.kind is _Kind.VAR_KEYWORD for p in parameters
        )
        # What a caller may name: positional-only parameters cannot be named.
        self._allowed = self._keywords.difference(self._positional_only)

    @property
    def signature(self) -> inspect.Signature | None:
        """The signature as ``inspect`` sees it, or ``None`` if the callable does not tell."""
        return self._signature

    @property
    def takes_any_keyword(self) -> bool:
        """Whether the handler declares ``**kwargs``."""
        return self._takes_any_keyword

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call by parameter name, in the order of the signature.

        :raises TypeError: as the call itself would, or for arguments that only ``*args`` would take: a job
            carries named arguments.
        """
        if self._signature is None and args:
            raise TypeError(f"{_name(self.fn)}() has no signature to bind positional arguments to")
        if len(args) > len(self._positional) or not (
            self._takes_any_keyword or self._allowed.issuperset(kwargs)
        ):
            self._refuse(args, kwargs)
        if args:
            bound = dict(zip(self._positional, args, strict=False))
            if not bound.keys().isdisjoint(kwargs):
                self._refuse(args, kwargs)
            bound.update(kwargs)
        else:
            bound = kwargs
        named_positional_only = self._positional_only and not kwargs.keys().isdisjoint(self._positional_only)
        if named_positional_only or not self._required <= bound.keys():
            self._refuse(args, kwargs)
        ordered = {name: bound[name] for name in self._order if name in bound}
        if len(ordered) != len(bound):
            ordered.update((name, value) for name, value in bound.items() if name not in ordered)
        return ordered

    def _refuse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        name = _name(self.fn)
        if self._signature is not None:
            signature = self._signature
            if self._injected in signature.parameters:
                signature = signature.replace(
                    parameters=[p for p in signature.parameters.values() if p.name != self._injected]
                )
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
        raise TypeError(
            f"{name}() cannot be called so as a job: a job carries named arguments, "
            "and *args takes none that have a name"
        )

    def for_call(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any], list[str]]:
        """Positional arguments, keyword arguments and the names left out, for a call with ``arguments``.

        What the handler does not know is left out. ``arguments`` is not changed.

        :raises ArgumentsError: a required argument is missing.
        """
        if self._signature is None:
            return [], arguments, []
        if not self._required <= arguments.keys():
            missing = sorted(self._required - arguments.keys())
            raise ArgumentsError(f"{_name(self.fn)}() lacks required arguments: {', '.join(missing)}")
        dropped: list[str] = []
        if not self._takes_any_keyword and not self._keywords.issuperset(arguments):
            dropped = sorted(str(name) for name in arguments if name not in self._keywords)
            arguments = {name: value for name, value in arguments.items() if name in self._keywords}
        if not self._positional_only:
            return [], arguments, dropped
        return *self._split_positional_only(arguments), dropped

    def _split_positional_only(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        rest = dict(arguments)
        for name in self._positional_only:
            # A gap can only be filled by the defaults that follow it.
            if name not in rest:
                break
            positional.append(rest.pop(name))
        for name in self._positional_only[len(positional) :]:
            rest.pop(name, None)
        return positional, rest


def is_async_callable(fn: Any) -> bool:
    """Whether calling ``fn`` gives a coroutine; sees through ``functools.partial`` and callable objects."""
    while (inner := getattr(fn, "func", None)) is not None and callable(inner) and _is_partial(fn):
        fn = inner
    if inspect.iscoroutinefunction(fn):
        return True
    call = getattr(type(fn), "__call__", None)  # noqa: B004 - the function itself is wanted
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(call)


def _is_partial(fn: Any) -> bool:
    return type(fn).__name__ in ("partial", "partialmethod")


def _name(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)
