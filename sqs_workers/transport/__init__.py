"""How the library talks to SQS."""

from sqs_workers.transport.boto3_client import Boto3Transport
from sqs_workers.transport.errors import ErrorKind, classify, classify_code, error_code
from sqs_workers.transport.protocol import EntryError, ReceiveOptions, SendResult, Transport, WakesReceives

__all__ = [
    "Boto3Transport",
    "EntryError",
    "ErrorKind",
    "ReceiveOptions",
    "SendResult",
    "Transport",
    "WakesReceives",
    "classify",
    "classify_code",
    "error_code",
]
