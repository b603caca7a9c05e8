"""``module:function`` to something that can be called with ``(ctx, item)``."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqs_workers.exceptions import ConfigurationError

__all__ = ["HandlerFunction", "load_exceptions", "load_handler", "load_object"]


@dataclass(frozen=True, slots=True)
class HandlerFunction:
    """A user's handler.

    :ivar takes_context: ``(ctx, item)`` rather than ``(item)``.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    takes_context: bool

    def call(self, context: Any, item: Any) -> Any:
        """Call it; of an async one, the coroutine."""
        return self.function(context, item) if self.takes_context else self.function(item)


def load_handler(reference: str, directory: Path) -> HandlerFunction:
    """Import a handler and check its shape.

    :param directory: looked through before anything else that Python imports from.
    :raises ConfigurationError: it cannot be imported, or cannot be called with ``(ctx, item)`` or ``(item)``.
    """
    found = load_object(reference, directory)
    if inspect.isclass(found):
        raise ConfigurationError(f"`{reference}` is a class: name a function")
    if not callable(found):
        raise ConfigurationError(f"`{reference}` is a {type(found).__name__}, and cannot be called")
    called = found if inspect.isroutine(found) else found.__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(
            f"`{reference}` is a generator: return a list of rows instead of yielding them"
        )
    return HandlerFunction(
        reference, found, inspect.iscoroutinefunction(called), takes_context=_takes_context(reference, found)
    )


def _takes_context(reference: str, function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    for arguments, takes_context in (((None, None), True), ((None,), False)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return takes_context
    raise ConfigurationError(
        f"`{reference}` takes {signature}, and a handler is called with (ctx, item) or with (item)"
    )


def load_exceptions(references: Sequence[str], directory: Path) -> tuple[type[Exception], ...]:
    """Exception classes by ``module:Class`` or the name of a built-in one.

    :raises ConfigurationError: one is not there, or is no exception.
    """
    found: list[type[Exception]] = []
    for reference in references:
        cls = load_object(reference, directory) if ":" in reference else getattr(builtins, reference, None)
        if not (inspect.isclass(cls) and issubclass(cls, Exception)):
            raise ConfigurationError(
                f"`{reference}` is no exception: write `module:Class`, or the name of a built-in one"
            )
        found.append(cls)
    return tuple(found)


def load_object(reference: str, directory: Path) -> Any:
    """Whatever ``module:name`` or ``module:name.name`` stands for.

    :raises ConfigurationError: it cannot be imported, or is not there. The place of a mistake in the user's
        module is named.
    """
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise ConfigurationError(f"{reference!r} names no object: write MODULE:NAME, as in myapp.jobs:sqs")
    with _importing_from(directory):
        module = _import(module_name, reference, directory)
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            functions = [key for key, value in vars(module).items() if inspect.isroutine(value)]
            own = [key for key in functions if not key.startswith("_")]
            there = f"; it has: {', '.join(sorted(own))}" if own else ""
            raise ConfigurationError(f"the module `{module_name}` has no `{name}`{there}")
        found = getattr(found, name)
    return found


@contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """First in the path while importing; last in it afterwards, for what a handler imports when it runs."""
    entry = str(directory.resolve())
    before = list(sys.path)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in before:
            sys.path.remove(entry)
        else:
            sys.path.remove(entry)
            sys.path.append(entry)


def _import(name: str, reference: str, directory: Path) -> Any:
    _refuse_shadowed(name, directory)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ConfigurationError(
                f"there is no module `{name}`, neither beside the file nor where Python imports from"
            ) from None
        raise ConfigurationError(
            f"`{reference}` cannot be imported: it needs the module `{error.name}`, which is not installed"
        ) from None
    except (KeyboardInterrupt, SystemExit):
        raise ConfigurationError(f"`{reference}` cannot be imported: the module ends the process") from None
    except SyntaxError as error:
        place = f"{Path(error.filename or name).name}:{error.lineno}"
        raise ConfigurationError(f"`{reference}` cannot be imported: {place}: {error.msg}") from None
    except Exception as error:  # noqa: BLE001 - a module may raise anything when it is imported
        raise ConfigurationError(
            f"`{reference}` cannot be imported: {type(error).__name__}{_place(error, directory)}: {error}"
        ) from None


def _refuse_shadowed(name: str, directory: Path) -> None:
    """A module of the same name that was imported before would be taken instead of the user's."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    beside = [directory / f"{top}.py", directory / top / "__init__.py"]
    mine = next((path for path in beside if path.exists()), None)
    if loaded is None or mine is None:
        return
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != mine.resolve():
        raise ConfigurationError(
            f"`{mine.name}` has the name of another module that Python has loaded already: rename the file"
        )


def _place(error: BaseException, directory: Path) -> str:
    inside = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve().is_relative_to(directory.resolve())
    ]
    return f" in {Path(inside[-1].filename).name}:{inside[-1].lineno}" if inside else ""
