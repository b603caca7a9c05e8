"""The HTTP library of the endpoint, or an error that says how to get it."""

from __future__ import annotations

from sqs_workers.exceptions import MissingExtraError

__all__ = ["web"]

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "aiohttp":
        raise
    raise MissingExtraError(
        "The local SQS endpoint needs aiohttp, which is not installed: pip install 'sqs-workers[local]'",
        name=error.name,
    ) from error
