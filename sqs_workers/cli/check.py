"""``check``: whether a file is right, and what it names is there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqs_workers.app.problems import AppFileError, path_text
from sqs_workers.cli import EXIT_FAILED, EXIT_USAGE
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import console, fail, json_option, say, show_json

__all__ = ["check_command"]

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--connect", is_flag=True, help="Ask SQS and the databases, too. Nothing is received or written."
)
@json_option
def check_command(file: Path, connect: bool, as_json: bool) -> int:
    """Check a worker file: words, references, variables, handlers.

    \b
    Examples:
      sqs-workers check worker.yaml
      sqs-workers check worker.yaml --connect

    Exit codes: 0 all is well (warnings may have been told), 1 something that the file names is not as it must
    be, 2 the file has mistakes.
    """
    from sqs_workers.app.building import load_functions
    from sqs_workers.app.loading import load

    try:
        app = load(file)
        load_functions(app, file)
    except AppFileError as error:
        _show_problems(error, as_json)
        return EXIT_USAGE
    findings = []
    if connect:
        from sqs_workers.app.checking import check_connections

        findings = check_connections(app, file)
    wrong = any(finding.level == "error" for finding in findings)
    if as_json:
        show_json({"ok": not wrong, "problems": [], "findings": [asdict(finding) for finding in findings]})
        return EXIT_FAILED if wrong else 0
    for finding in findings:
        hint = f"; {finding.hint}" if finding.hint else ""
        line = f"{finding.level:<8}{finding.resource}: {finding.message}{hint}"
        console().print(line, style=_STYLES[finding.level], markup=False)
    if not wrong:
        tasks = ", ".join(task.name for task in app.tasks)
        say(f"{file} is right: {len(app.resources)} resources, tasks {tasks}")
    return EXIT_FAILED if wrong else 0


def _show_problems(error: AppFileError, as_json: bool) -> None:
    if not as_json:
        for problem in error.problems:
            fail(str(problem))
        return
    problems: list[dict[str, Any]] = [
        {
            "file": problem.file,
            "line": problem.line,
            "path": path_text(problem.path),
            "message": problem.message,
            "hint": problem.hint,
        }
        for problem in error.problems
    ]
    show_json({"ok": False, "problems": problems, "findings": []})
