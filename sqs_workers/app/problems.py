"""What is wrong with a file: where, what, and what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqs_workers.exceptions import ConfigurationError

__all__ = ["AppFileError", "Path", "Problem", "path_text", "suggestion"]

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file.

    :param file: name of the file as it was given.
    :param line: line, from 1; 0 if the file as a whole is meant.
    :param path: keys and indexes from the top of the document.
    :param message: what is wrong. Never the value of a variable or of a secret key.
    :param hint: what to do; empty if the message says it.
    """

    file: str
    line: int
    path: Path
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        path = f"{path_text(self.path)}: " if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}: {path}{self.message}{hint}"


class AppFileError(ConfigurationError):
    """A file that describes no app.

    :ivar problems: every mistake that was found, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[object, ...]:
        return AppFileError, (self.problems,)


def path_text(path: Path) -> str:
    """A path as it is read aloud: ``tasks[0].retry.type``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def suggestion(word: str, known: Sequence[str]) -> str:
    """``did you mean `concurrency`?``, or the words that there are."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    if not known:
        return ""
    return f"one of: {', '.join(sorted(known))}"
