"""``doctor``: what of this machine and account would keep a worker from working, or a message from arriving."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqs_workers.cli import EXIT_FAILED
from sqs_workers.cli.diagnosis.permissions import check_permissions
from sqs_workers.cli.diagnosis.queue import check_queue
from sqs_workers.cli.diagnosis.signs import Level, Sign, permit
from sqs_workers.cli.diagnosis.topic import TopicArn, check_topic
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import console, json_option, show_json
from sqs_workers.cli.sqs import Account, account_options, queue_name, url_of
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError, SQSError
from sqs_workers.transport import classify, error_code

__all__ = ["doctor_command"]

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_OPTIONAL = {"SQLAlchemy": "sql", "psycopg": "postgres", "PyMySQL": "mysql", "aiohttp": "local"}


@click.command("doctor")
@click.argument("queues", nargs=-1)
@click.option(
    "--queue",
    "more_queues",
    multiple=True,
    metavar="NAME",
    help="Where the messages of --topic should arrive; QUEUES are looked at by themselves then.",
)
@click.option("--topic", metavar="ARN", help="A topic whose messages do not arrive.")
@click.option("--job-seconds", type=click.FloatRange(0), help="How long the longest job runs.")
@click.option(
    "--app", metavar="MODULE:ENV", help="An environment whose timeouts say how long jobs of QUEUES run."
)
@account_options
@json_option
def doctor_command(
    queues: tuple[str, ...],
    more_queues: tuple[str, ...],
    topic: str | None,
    job_seconds: float | None,
    app: str | None,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Look at Python, libraries, credentials, clock, endpoint, at QUEUES, and at the way from a topic to them.

    Each finding says what was seen, what follows, and the command that mends it. Nothing is changed, and no
    message is received. docs/doctor.md lists the findings.

    \b
    Examples:
      sqs-workers doctor events events-dead
      sqs-workers doctor events --job-seconds 90
      sqs-workers doctor --topic arn:aws:sns:eu-west-1:123456789012:orders --queue events

    Exit codes: 0 nothing is wrong (warnings may have been told), 1 something is, 2 a wrong option.
    """
    account = Account(region, endpoint_url, profile)
    names = (*queues, *more_queues)
    try:
        parsed = None if topic is None else TopicArn.parse(topic)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if parsed is not None and not names:
        raise click.UsageError("--topic needs the queue that should get its messages: --queue NAME")
    env = None if app is None else _environment(app)
    signs = list(_libraries())
    signs += _account(account, endpoint_url)
    if not any(sign.level == "error" for sign in signs):
        # With --queue, QUEUES are looked at for their own sake.
        of_topic = more_queues or queues
        for name in names:
            seconds = job_seconds if env is None else max(job_seconds or 0, _longest(env, name)) or None
            signs += _queue(account, name, parsed if name in of_topic else None, seconds)
    wrong = any(sign.level == "error" for sign in signs)
    if as_json:
        show_json({"ok": not wrong, "signs": [asdict(sign) for sign in signs]})
    else:
        for sign in signs:
            _show(sign)
    return EXIT_FAILED if wrong else 0


def _show(sign: Sign) -> None:
    code = f" [{sign.code}]" if sign.code else ""
    console().print(
        f"{sign.level:<8}{sign.what}: {sign.message}{code}", style=_STYLES[sign.level], markup=False
    )
    for name, text in (("why", sign.why), ("mend", sign.mend)):
        if text:
            console().print(f"        {name}: {text}", markup=False, soft_wrap=name == "mend")


def _environment(reference: str) -> Any:
    from sqs_workers.app.handlers import load_object

    try:
        env = load_object(reference, Path.cwd())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if not hasattr(env, "queues"):
        raise click.UsageError(f"{reference} is a {type(env).__name__}, and no SQSEnv")
    return env


def _longest(env: Any, queue: str) -> float:
    """Seconds that the jobs of a queue may run by their timeouts; 0 if they have none."""
    name = queue_name(queue)
    for found in dict(env.queues).values():
        if name in (found.name, found.get_sqs_queue_name()):
            jobs = ["", *getattr(found, "processors", ())]
            return max((found.policies_of(job).timeout or 0) for job in jobs)
    return 0


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


def _account(account: Account, endpoint_url: str | None) -> Iterator[Sign]:
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


def _endpoint(client: Any) -> Iterator[Sign]:
    began = time.monotonic()
    try:
        answer = client.list_queues(MaxResults=1)
    except Exception as error:  # noqa: BLE001 - told as a sign
        kind = classify(error).value
        level: Level = "warning" if kind == "denied" else "error"
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


def _queue(account: Account, name: str, topic: TopicArn | None, job_seconds: float | None) -> Iterator[Sign]:
    client = account.client()
    try:
        url = url_of(client, name)
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    except QueueNotFoundError as error:
        yield Sign(
            "error",
            name,
            str(error),
            "queue-missing",
            "A worker of this queue ends at once, and jobs for it cannot be sent.",
            f"sqs-workers create {name}",
        )
        return
    except Exception as error:  # noqa: BLE001 - told as a sign
        yield Sign(
            "error",
            name,
            f"{classify(error).value} ({error_code(error)})",
            "queue-unseen",
            "What is not seen cannot be judged, and a worker looks as the doctor does.",
            permit("sqs:GetQueueUrl", "sqs:GetQueueAttributes"),
        )
        return
    region = (attributes.get("QueueArn", "").split(":") + [""] * 4)[3] or None

    def kms() -> Any:
        return account.client_of("kms", region)

    yield from check_queue(client, name, url, attributes, job_seconds)
    yield from check_permissions(client, kms, name, url, attributes)
    if topic is not None:
        yield from check_topic(account.client_of("sns", topic.region), kms, topic, name, url, attributes)
