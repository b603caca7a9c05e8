"""The README and the pages of docs/ do what they say: their code runs, their links lead somewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import Block, anchors, blocks, links

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHER_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LANGUAGES = {"python", "bash", "console", "dockerfile", "ini", "json", "sql", "text", "toml", "yaml"}
PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_in(pages: list[Path], *languages: str) -> list[object]:
    return [
        pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
        for page in pages
        for block in blocks(page)
        if block.language in languages
    ]


@pytest.mark.usefixtures("aws_in_memory")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A module of its own, so that what the page defines can be pickled and its annotations resolved.
    module = types.ModuleType(f"page_{page.stem.replace('-', '_').lower()}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page):
        if block.language == "python" and block.not_run is None:
            # Blank lines in front make tracebacks name the line of the page.
            source = "\n" * (block.line - 1) + block.code
            exec(compile(source, str(page), "exec"), module.__dict__)


@pytest.mark.parametrize(("page", "block"), blocks_in([*PAGES, *OTHER_PAGES], "python"))
def test_python_that_a_page_does_not_run_is_still_python(page: Path, block: Block) -> None:
    compile("\n" * (block.line - 1) + block.code, str(page), "exec")


@pytest.mark.parametrize(("page", "block"), blocks_in([*PAGES, *OTHER_PAGES], "bash"))
def test_shell_commands_of_a_page_can_be_parsed(page: Path, block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=block.code, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, f"{name_of(page)}:{block.line}\n{done.stderr}"
    assert block.code.strip(), f"{name_of(page)}:{block.line} is empty"


@pytest.mark.parametrize(("page", "block"), blocks_in([*PAGES, *OTHER_PAGES], *PARSERS))
def test_data_in_a_page_can_be_parsed(page: Path, block: Block) -> None:
    assert PARSERS[block.language](block.code), f"{name_of(page)}:{block.line} is empty"


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_every_block_of_a_page_names_a_language_that_is_checked(page: Path) -> None:
    unknown = [
        f"line {block.line}: {block.language!r}" for block in blocks(page) if block.language not in LANGUAGES
    ]
    assert not unknown, f"{name_of(page)}: {', '.join(unknown)}; known are {', '.join(sorted(LANGUAGES))}"


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page: Path) -> None:
    broken = []
    for target in links(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def test_the_index_links_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {target.partition("#")[0] for target in links(index)}
    missing = [page.name for page in PAGES[1:] if page != index and page.name not in linked]
    assert not missing, "add them to docs/index.md"
