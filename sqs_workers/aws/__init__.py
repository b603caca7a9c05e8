"""Topics, event buses and Lambda.

Everything here is loaded when it is first asked for; boto3 is imported when something is sent.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.aws.event_bus import EventBus as EventBus
    from sqs_workers.aws.event_bus import put_events as put_events
    from sqs_workers.aws.lambda_batch import LambdaHandler as LambdaHandler
    from sqs_workers.aws.lambda_batch import lambda_handler as lambda_handler
    from sqs_workers.aws.outbox_target import with_events as with_events
    from sqs_workers.aws.topic import Topic as Topic
    from sqs_workers.aws.topic import publish as publish
    from sqs_workers.envelopes.documents import OutgoingEvent as OutgoingEvent

_MODULES = {
    "EventBus": "sqs_workers.aws.event_bus",
    "LambdaHandler": "sqs_workers.aws.lambda_batch",
    "OutgoingEvent": "sqs_workers.envelopes.documents",
    "Topic": "sqs_workers.aws.topic",
    "lambda_handler": "sqs_workers.aws.lambda_batch",
    "publish": "sqs_workers.aws.topic",
    "put_events": "sqs_workers.aws.event_bus",
    "with_events": "sqs_workers.aws.outbox_target",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - the names are those of _MODULES


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
