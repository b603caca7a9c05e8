"""Rules about the source itself: size, leftovers, and what may be imported where."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sqs_workers"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
BASE_DEPENDENCIES = {"boto3", "botocore", "typing_extensions"}
MAY_PRINT = ("sqs_workers.cli", "sqs_workers.demo", "sqs_workers.local.__main__")
LEFTOVER = re.compile(r"\b(TODO|FIXME)\b")

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def is_module(name: str) -> bool:
    location = ROOT.joinpath(*name.split("."))
    return location.is_dir() or location.with_suffix(".py").is_file()


def imports(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every import: of the module, or of the module that holds the name."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`; only `import a.b as c` is an import of `a.b` alone.
                bound = alias.name if alias.asname or "." not in alias.name else alias.name.split(".")[0]
                yield node.lineno, bound
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package[: len(package) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if is_module(full) else base


def allowed_third_party(module: str) -> set[str]:
    """Packages outside the standard library that ``module`` may import."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["tool"]["sqs-workers"]["extras"]
    allowed = set(BASE_DEPENDENCIES)
    for package, needs in extras.items():
        if is_within(module, package):
            allowed.update(needs["imports"])
    return allowed


@each_source
def test_a_file_is_at_most_400_lines_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES, f"{path.relative_to(ROOT)} has {lines} lines"


@each_source
def test_a_function_is_at_most_60_lines_long(path: Path) -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(parse(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not too_long, "\n".join(too_long)


@each_source
def test_only_the_command_line_prints(path: Path) -> None:
    if any(is_within(module_name(path), package) for package in MAY_PRINT):
        return
    prints = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints, f"print() at {', '.join(prints)}"


@each_source
def test_no_comment_or_docstring_leaves_work_for_later(path: Path) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    found = [
        f"{path.relative_to(ROOT)}:{token.start[0]} {token.string.strip()[:60]}"
        for token in tokens
        if token.type in (tokenize.COMMENT, tokenize.STRING) and LEFTOVER.search(token.string)
    ]
    assert not found, "\n".join(found)


@each_source
def test_nothing_is_left_unimplemented_or_ignored_wholesale(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"raise\s+NotImplementedError", source)
    assert not re.search(r"#\s*type:\s*ignore(?!\[)", source), "name the error code: type: ignore[code]"
    assert not re.search(r"#\s*noqa(?!:)", source), "name the rule: noqa: CODE"


@each_source
def test_nothing_inside_imports_the_root_of_the_package(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    found = imports(path, parse(path))
    roots = [f"{path.relative_to(ROOT)}:{line}" for line, name in found if name == "sqs_workers"]
    assert not roots, f"import the module that defines the name, not sqs_workers, at {', '.join(roots)}"


@each_source
def test_a_module_imports_the_base_dependencies_and_those_of_its_extra_alone(path: Path) -> None:
    allowed = allowed_third_party(module_name(path)) | {"sqs_workers"} | sys.stdlib_module_names
    undeclared = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for line, name in imports(path, parse(path))
        if name.split(".")[0] not in allowed
    ]
    assert not undeclared, "\n".join(undeclared)


def test_importing_the_package_loads_no_boto3_and_no_extra() -> None:
    forbidden = ["boto3", "botocore", "sqlalchemy", "aiohttp", "psycopg", "pymysql", "yaml", "pytest"]
    program = f"import sys, sqs_workers; print(*[name for name in {forbidden} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import sqs_workers", ["sqs_workers"]),
        ("import sqs_workers.clock", ["sqs_workers"]),
        ("import sqs_workers.clock as clock", ["sqs_workers.clock"]),
        ("from sqs_workers import SQSEnv", ["sqs_workers"]),
        ("from sqs_workers import clock", ["sqs_workers.clock"]),
        ("from . import SQSEnv", ["sqs_workers"]),
        ("from .clock import Clock", ["sqs_workers.clock"]),
        ("def f():\n    from sqs_workers import SQSEnv", ["sqs_workers"]),
    ],
)
def test_the_import_checks_see_every_way_to_spell_an_import(source: str, expected: list[str]) -> None:
    found = [name for _, name in imports(PACKAGE / "limits.py", ast.parse(source))]
    assert found == expected
