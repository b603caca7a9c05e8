"""``doctor``: what of this machine and account would keep a worker from working."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import console, json_option, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of
from sqs_workers.transport import classify, error_code

__all__ = ["doctor_command"]

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_OPTIONAL = {"SQLAlchemy": "sql", "psycopg": "postgres", "PyMySQL": "mysql", "aiohttp": "local"}


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that was looked at."""

    level: Literal["ok", "warning", "error"]
    what: str
    message: str


@click.command("doctor")
@click.argument("queues", nargs=-1)
@account_options
@json_option
def doctor_command(
    queues: tuple[str, ...], region: str | None, endpoint_url: str | None, profile: str | None, as_json: bool
) -> int:
    """Look at Python, libraries, credentials, clock, endpoint, and at QUEUES.

    \b
    Example:
      sqs-workers doctor events events-dead

    Exit codes: 0 nothing is wrong (warnings may have been told), 1 something is.
    """
    signs = list(_libraries())
    signs += _account(Account(region, endpoint_url, profile), endpoint_url, queues)
    wrong = any(sign.level == "error" for sign in signs)
    if as_json:
        show_json({"ok": not wrong, "signs": [asdict(sign) for sign in signs]})
    else:
        for sign in signs:
            line = f"{sign.level:<8}{sign.what}: {sign.message}"
            console().print(line, style=_STYLES[sign.level], markup=False)
    return EXIT_FAILED if wrong else 0


def _libraries() -> Iterator[Sign]:
    yield Sign("ok", "python", sys.version.split()[0])
    for name in ("sqs-workers", "boto3", "botocore"):
        try:
            yield Sign("ok", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Sign("warning", name, "is not installed as a package")
    for name, extra in _OPTIONAL.items():
        try:
            yield Sign("ok", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Sign("ok", name, f"not installed; pip install 'sqs-workers[{extra}]' if it is needed")


def _account(account: Account, endpoint_url: str | None, queues: tuple[str, ...]) -> Iterator[Sign]:
    from sqs_workers.exceptions import SQSError

    try:
        client = account.client()
    except SQSError as error:
        yield Sign("error", "configuration", str(error))
        return
    credentials = client._request_signer._credentials
    if credentials is None:
        yield Sign("error", "credentials", "none are found: set AWS_PROFILE, or give the machine a role")
        return
    yield Sign("ok", "credentials", f"found ({credentials.method})")
    yield Sign("ok", "endpoint", client.meta.endpoint_url)
    yield from _endpoint(client)
    if endpoint_url is None and os.environ.get("AWS_ENDPOINT_URL"):
        yield Sign("warning", "endpoint", "AWS_ENDPOINT_URL is set: this is not AWS")
    for queue in queues:
        yield from _queue(client, queue)


def _endpoint(client: Any) -> Iterator[Sign]:
    began = time.monotonic()
    try:
        answer = client.list_queues(MaxResults=1)
    except Exception as error:  # noqa: BLE001 - told as a sign
        kind = classify(error).value
        level: Literal["warning", "error"] = "warning" if kind == "denied" else "error"
        yield Sign(level, "ListQueues", f"refused: {kind} ({error_code(error)})")
        return
    yield Sign("ok", "ListQueues", f"answered in {(time.monotonic() - began) * 1000:.0f} ms")
    yield from _clock(answer["ResponseMetadata"]["HTTPHeaders"].get("date"))


def _clock(date: str | None) -> Iterator[Sign]:
    """Signatures are refused when the clock is more than five minutes off."""
    import email.utils

    if date is None:
        return
    off = abs(email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    if off > 60:
        yield Sign("error" if off > 240 else "warning", "clock", f"differs from the server's by {off:.0f} s")
    else:
        yield Sign("ok", "clock", "agrees with the server's")


def _queue(client: Any, queue: str) -> Iterator[Sign]:
    from sqs_workers.exceptions import QueueNotFoundError

    try:
        url = url_of(client, queue)
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    except QueueNotFoundError as error:
        yield Sign("error", queue, str(error))
        return
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield Sign("error", queue, f"{classify(error).value} ({error_code(error)})")
        return
    depth = attributes.get("ApproximateNumberOfMessages")
    hidden = int(attributes.get("VisibilityTimeout", 30))
    yield Sign("ok", queue, f"{depth} visible, visibility timeout {hidden} s")
    if "RedrivePolicy" not in attributes and "RedriveAllowPolicy" not in attributes:
        yield Sign("warning", queue, "has no redrive policy: what always fails comes back until it expires")
    if int(attributes.get("ReceiveMessageWaitTimeSeconds", 0)) == 0:
        yield Sign(
            "ok", queue, "short polling by default; workers of this package ask for long polls themselves"
        )
    if hidden < 10:
        yield Sign(
            "warning", queue, f"a visibility timeout of {hidden} s leaves little time for a slow network"
        )
