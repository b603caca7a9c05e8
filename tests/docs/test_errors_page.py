"""The tree in ``docs/errors.md`` is the tree of the classes."""

from __future__ import annotations

import inspect
from pathlib import Path

from sqs_workers import exceptions

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def tree() -> list[str]:
    """The lines of the tree as the module draws it."""
    lines = inspect.cleandoc(exceptions.__doc__ or "").splitlines()
    return [line[4:] for line in lines if line.startswith("    ")]


def test_the_page_draws_the_tree_of_the_module() -> None:
    assert "\n".join(tree()) in PAGE.read_text(encoding="utf-8")


def test_the_tree_of_the_module_names_every_class_below_its_parent() -> None:
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in tree():
        name = line.lstrip("│├└─ ").split()[0]
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
        path[depth:] = [name]
        if depth:
            parents[name] = path[depth - 1]

    classes = [getattr(exceptions, name) for name in exceptions.__all__]
    assert parents == {
        cls.__name__: cls.__bases__[0].__name__ for cls in classes if cls is not exceptions.SQSError
    }
