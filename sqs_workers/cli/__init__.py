"""The command line: ``sqs-workers``, or ``python -m sqs_workers``.

Exit codes::

    0    done
    1    it could not be done: SQS or a database refused, a check found something
    2    a wrong option, or a file with mistakes; nothing was started
    3    a worker stopped, and left something behind at its deadline
    4    a worker could not go on
    130  interrupted
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sqs_workers.exceptions import MissingExtraError

__all__ = ["EXIT_FAILED", "EXIT_USAGE", "main"]

EXIT_FAILED = 1
EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        from sqs_workers.cli.root import run
    except MissingExtraError as error:
        print(f"Error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return run(arguments)
