"""The reader of Markdown that the other tests of this directory rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import anchors, blocks, links, marked_command

PAGE = """\
# A page, with `code`

Text with a [link](other.md#part) and `[no](link)`.

```python
first = 1
```

<!-- not run: needs an account -->

```python
second = 2

third = 3
```

1. A list

   ```bash
   ls [a](b)
   ```

<!-- demo-command -->
```bash
python3 -m demo
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_blocks_have_their_language_code_and_line(page: Path) -> None:
    found = [(block.language, block.code, block.line) for block in blocks(page)]
    assert found == [
        ("python", "first = 1\n", 6),
        ("python", "second = 2\n\nthird = 3\n", 12),
        ("bash", "ls [a](b)\n", 20),
        ("bash", "python3 -m demo\n", 25),
    ]


def test_only_the_block_right_after_the_comment_is_not_run(page: Path) -> None:
    assert [block.not_run for block in blocks(page)] == [None, "needs an account", None, None]


def test_a_comment_without_a_reason_excuses_nothing(page: Path) -> None:
    page.write_text("<!-- not run: -->\n```python\n```\n", encoding="utf-8")
    assert [block.not_run for block in blocks(page)] == [None]


def test_an_open_fence_is_an_error(page: Path) -> None:
    page.write_text("```python\nx = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="never closed"):
        blocks(page)


def test_links_and_anchors_are_those_of_the_prose(page: Path) -> None:
    assert links(page) == ["other.md#part"]
    assert anchors(page) == {"a-page-with-code"}


def test_a_marked_command_is_found_once_or_is_an_error(page: Path) -> None:
    assert marked_command(page, "demo-command") == "python3 -m demo"
    with pytest.raises(ValueError, match="has 0 bash blocks"):
        marked_command(page, "test-command")
