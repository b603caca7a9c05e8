"""``local``: an SQS endpoint on this machine."""

from __future__ import annotations

from sqs_workers.cli.needs import click

__all__ = ["local_command"]


@click.command(
    "local",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def local_command(arguments: tuple[str, ...]) -> int:
    """Serve an SQS endpoint whose queues live in memory, for development and tests.

    Takes the options of `python -m sqs_workers.local`; `sqs-workers local --help` lists them.

    \b
    Example:
      sqs-workers local --port 9324
      export AWS_ENDPOINT_URL=http://127.0.0.1:9324
    """
    from sqs_workers.local.__main__ import main

    if arguments and arguments[0] in ("-h", "--help"):
        click.echo("Example: sqs-workers local --port 9324\n")
    try:
        return main(list(arguments))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
