"""The root of the commands, and what becomes of errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from sqs_workers.app.problems import AppFileError
from sqs_workers.cli import EXIT_FAILED, EXIT_USAGE
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import fail
from sqs_workers.exceptions import SQSError

__all__ = ["COMMANDS", "cli", "run"]

# Loaded when called: `sqs-workers --help` waits for nobody's imports.
COMMANDS = {
    "run": "run",
    "init": "init",
    "check": "check",
    "schema": "schema",
    "doctor": "doctor",
    "send": "messages",
    "peek": "messages",
    "dlq": "dlq",
    "queues": "queues",
    "top": "top",
    "purge": "queues",
    "create": "queues",
    "local": "local",
    "relay": "relay",
    "schedules": "schedules",
    "beat": "beat",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"sqs_workers.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from sqs_workers.app.problems import suggestion

            raise click.UsageError(f"{error.message} {suggestion(args[0], tuple(COMMANDS))}", ctx) from None


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 could not be done, 2 a wrong option or file, 3 something was left behind "
    "at a stop, 4 a worker could not go on, 130 interrupted.",
)
@click.version_option(package_name="sqs-workers", message="%(version)s")
def cli() -> None:
    """Workers and queues on Amazon SQS.

    \b
    Example:
      sqs-workers init demo && cd demo
      sqs-workers check worker.yaml
      sqs-workers run worker.yaml
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one or a few lines, never a traceback."""
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="sqs-workers",
            standalone_mode=False,
        )
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        fail("interrupted")
        return 130
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except AppFileError as error:
        for problem in error.problems:
            fail(str(problem))
        return EXIT_USAGE
    except SQSError as error:
        fail(str(error))
        return EXIT_FAILED
    except Exception as error:
        described = _of_aws(error)
        if described is None:
            raise
        fail(described)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0


def _of_aws(error: Exception) -> str | None:
    """An error of boto3 in one line, or ``None`` if it is none."""
    if not type(error).__module__.startswith(("botocore.", "boto3.")):
        return None
    from sqs_workers.transport import ErrorKind, classify, error_code

    kind, code = classify(error), error_code(error)
    advice = {
        ErrorKind.MISSING: "there is no such queue in this account and region",
        ErrorKind.DENIED: "these credentials may not do this",
        ErrorKind.CREDENTIALS: "credentials are missing, wrong or expired: see AWS_PROFILE, or --profile",
        ErrorKind.NETWORK: "the endpoint does not answer: check --endpoint-url, --region and the network",
        ErrorKind.THROTTLED: "SQS asks to slow down: try again",
        ErrorKind.SERVER: "SQS failed: try again",
    }.get(kind)
    # A task of SQS, or a group of schedules, is missing in other words than a queue.
    if advice is None or code in ("NotFound", "NotFoundException", "ResourceNotFoundException"):
        advice = str(error)
    return f"{advice} ({code})"
