"""How the library talks to SQS."""

from sqs_workers.transport.boto3_client import Boto3Transport
from sqs_workers.transport.errors import ErrorKind, classify, classify_code, error_code
from sqs_workers.transport.opening import DeferredTransport, Mode, open_transport
from sqs_workers.transport.protocol import (
    EntryError,
    ReceiveOptions,
    SendResult,
    Transport,
    WakesReceives,
    connections_of,
    wake_receives,
)

__all__ = [
    "Boto3Transport",
    "DeferredTransport",
    "EntryError",
    "ErrorKind",
    "Mode",
    "ReceiveOptions",
    "SendResult",
    "Transport",
    "WakesReceives",
    "connections_of",
    "wake_receives",
    "classify",
    "classify_code",
    "error_code",
    "open_transport",
]
