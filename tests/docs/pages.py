"""Fenced blocks, links and headings of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "anchors", "blocks", "links", "marked_command"]

NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>\S.*) -->$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where its first line of code stands, and why it is not to be run, if it is not."""

    language: str
    code: str
    line: int
    not_run: str | None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order.

    :raises ValueError: a fence is left open.
    """
    found: list[Block] = []
    fence, indent, language, code, start = "", 0, "", [""], 0
    last_text, excuse = "", None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        stripped = line.strip()
        if fence:
            if stripped == fence:
                found.append(Block(language, "\n".join(code) + "\n", start, excuse))
                fence, last_text = "", ""
            else:
                code.append(line[min(indent, len(line) - len(line.lstrip())) :])
        elif stripped.startswith("```"):
            fence = "`" * (len(stripped) - len(stripped.lstrip("`")))
            indent, language = len(line) - len(line.lstrip()), stripped.strip("`").strip()
            code, start = [], number + 1
            match = NOT_RUN.match(last_text)
            excuse = match["reason"] if match else None
        elif stripped:
            last_text = stripped
    if fence:
        raise ValueError(f"{page.name}: the fence before line {start} is never closed")
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks, inline code and comments."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"<!--.*?-->|`[^`\n]*`", "", text, flags=re.S)


def links(page: Path) -> list[str]:
    """Targets of the page's links."""
    return [match["target"] for match in LINK.finditer(prose(page))]


def anchors(page: Path) -> set[str]:
    """Anchors of the page's headings, as GitHub makes them."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def marked_command(page: Path, name: str) -> str:
    """The bash block that follows the comment ``<!-- NAME -->``.

    :raises ValueError: the page does not have it exactly once.
    """
    pattern = rf"^<!-- {re.escape(name)} -->\n+```bash\n(?P<command>.*?)^```$"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.M | re.S)
    if len(found) != 1:
        raise ValueError(f"{page.name} has {len(found)} bash blocks marked <!-- {name} -->, not 1")
    return str(found[0]).strip()
