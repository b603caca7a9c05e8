"""Every exception that the library raises on purpose.

::

    SQSError
    ├── ConfigurationError (ValueError)      a declaration that cannot work
    │   ├── QueueConflictError               the same queue asked for with other settings
    │   ├── InvalidQueueNameError
    │   └── UnknownCodecError (KeyError)
    ├── MissingExtraError (ImportError)      an optional dependency is not installed
    ├── QueueNotFoundError                   the queue does not exist, or not for these credentials
    ├── QueueAttributesConflictError         the queue exists with other attributes
    ├── SendError                            a job that was not sent
    │   ├── InvalidMessageError (ValueError) an option, attribute or body that SQS would refuse
    │   │   └── MessageTooLargeError
    │   ├── SerializationError (TypeError)   an argument that the codec cannot carry
    │   ├── UncertainSendError               SQS's answer cannot be read: sent, or not
    │   ├── SQSBatchError                    jobs of a batch that SQS did not take
    │   └── EventsNotSentError               events that SNS or EventBridge did not take
    ├── PermanentError                       a job that no retry can help
    │   └── UndecodableMessageError          the body or its envelope cannot be read
    │       ├── CodecNotAcceptedError
    │       ├── SignatureError               the signature of SNS is wrong or absent
    │       └── ArgumentsError               a required argument is missing
    ├── SigningCertificateError              SNS's certificate cannot be fetched now (temporary)
    ├── NoProcessorError                     no processor is registered for the job (temporary)
    ├── HandlerRefusedError                  ``process_message`` of a subclass answered ``False``
    ├── JobTimeoutError (TimeoutError)       a handler outlived its ``timeout``
    └── WorkerError                          a worker that cannot start or go on
        └── WorkerStopTimeoutError           what was abandoned when the stop deadline passed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage

__all__ = [
    "ArgumentsError",
    "CodecNotAcceptedError",
    "ConfigurationError",
    "EventsNotSentError",
    "HandlerRefusedError",
    "InvalidMessageError",
    "InvalidQueueNameError",
    "JobTimeoutError",
    "MessageTooLargeError",
    "MissingExtraError",
    "NoProcessorError",
    "PermanentError",
    "QueueAttributesConflictError",
    "QueueConflictError",
    "QueueNotFoundError",
    "SQSBatchError",
    "SQSError",
    "SendError",
    "SerializationError",
    "SignatureError",
    "SigningCertificateError",
    "UncertainSendError",
    "UndecodableMessageError",
    "UnknownCodecError",
    "WorkerError",
    "WorkerStopTimeoutError",
]


class SQSError(Exception):
    """Root of all exceptions of the library."""


class ConfigurationError(SQSError, ValueError):
    """A declaration that cannot work: an unknown option, an impossible combination, a value out of range."""


class QueueConflictError(ConfigurationError):
    """The same queue was asked for again with other settings."""


class InvalidQueueNameError(ConfigurationError):
    """A queue name that SQS does not allow."""


class UnknownCodecError(ConfigurationError, KeyError):
    """No codec is registered under this content type."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class MissingExtraError(SQSError, ImportError):
    """A module needs an optional dependency that is not installed."""


class QueueNotFoundError(SQSError):
    """The queue does not exist, or these credentials may not see it.

    :ivar queue_name: the name or URL that was asked for.
    """

    def __init__(self, message: str, *, queue_name: str = "") -> None:
        super().__init__(message)
        self.queue_name = queue_name


class QueueAttributesConflictError(SQSError):
    """The queue exists already, with other attributes than those asked for.

    :ivar queue_name: the name of the queue on SQS.
    :ivar differences: attribute name -> (value on SQS, value asked for).
    """

    def __init__(
        self,
        message: str,
        *,
        queue_name: str = "",
        differences: dict[str, tuple[str | None, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.queue_name = queue_name
        self.differences = differences or {}


class SendError(SQSError):
    """A job that was not sent."""


class InvalidMessageError(SendError, ValueError):
    """An option, an attribute or a body that SQS would refuse."""


class MessageTooLargeError(InvalidMessageError):
    """A message above the size that SQS takes.

    :ivar size: bytes of body and attributes together.
    :ivar limit: bytes that SQS allows.
    """

    def __init__(self, message: str, *, size: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class SerializationError(SendError, TypeError):
    """An argument that the codec cannot carry.

    :ivar argument: path of the argument, for instance ``order.lines[3].price``.
    """

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class UncertainSendError(SendError):
    """A job that may have been sent, or not: SQS's answer cannot be read."""


class SQSBatchError(SendError):
    """Jobs of a batch that were not sent, after all retries.

    :ivar errors: one dictionary a job in the shape of SQS's ``Failed`` entries
        (``Id``, ``Code``, ``SenderFault``, ``Message``), with the entry that was
        sent under ``_message``.
    :ivar unsent: the jobs themselves, in the order in which they were added,
        ready to be sent again.
    """

    def __init__(
        self,
        errors: Sequence[dict[str, Any]],
        unsent: Sequence[OutgoingMessage] = (),
        *,
        queue_name: str = "",
    ) -> None:
        self.errors = list(errors)
        self.unsent = list(unsent)
        self.queue_name = queue_name
        super().__init__(self._describe())

    def _describe(self) -> str:
        codes = sorted({str(error.get("Code")) for error in self.errors})
        jobs = sorted({message.job_name for message in self.unsent if message.job_name})
        where = f" to queue {self.queue_name!r}" if self.queue_name else ""
        what = f" (jobs: {', '.join(jobs[:5])})" if jobs else ""
        count = len(self.unsent) or len(self.errors)
        return (
            f"{count} message(s) were not sent{where}{what}: {', '.join(codes)}. "
            "They are in the attribute 'unsent' of this error, ready to be sent again"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_batch_error, (self.errors, self.unsent, self.queue_name)


def _rebuild_batch_error(
    errors: list[dict[str, Any]], unsent: list[OutgoingMessage], queue_name: str
) -> SQSBatchError:
    return SQSBatchError(errors, unsent, queue_name=queue_name)


class EventsNotSentError(SendError):
    """Events that SNS or EventBridge did not take, after all retries.

    :ivar errors: one dictionary an event: ``EventId``, ``Code``, ``Message``, ``SenderFault``.
    :ivar unsent: the events themselves, in their order, ready to be published again.
    :ivar target: ARN of the topic or bus, or its name.
    """

    def __init__(self, errors: Sequence[dict[str, Any]], unsent: Sequence[Any], *, target: str = "") -> None:
        self.errors = list(errors)
        self.unsent = list(unsent)
        self.target = target
        codes = ", ".join(sorted({str(error.get("Code")) for error in self.errors}))
        super().__init__(
            f"{len(self.unsent)} event(s) were not taken by {target}: {codes}. They are in the attribute "
            "'unsent' of this error, ready to be published again"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_events_error, (self.errors, self.unsent, self.target)


def _rebuild_events_error(errors: list[dict[str, Any]], unsent: list[Any], target: str) -> EventsNotSentError:
    return EventsNotSentError(errors, unsent, target=target)


class PermanentError(SQSError):
    """Raise it in a job that no retry can help: the failure policy applies at once."""


class UndecodableMessageError(PermanentError):
    """The body of a message, or its envelope, cannot be read."""


class CodecNotAcceptedError(UndecodableMessageError):
    """The message names a codec that this worker does not accept."""


class SignatureError(UndecodableMessageError):
    """The signature of SNS is wrong or absent, or its certificate is not one of AWS."""


class ArgumentsError(UndecodableMessageError):
    """The message lacks an argument that the function requires."""


class SigningCertificateError(SQSError):
    """The certificate that SNS signs with cannot be fetched now. Temporary."""


class NoProcessorError(SQSError):
    """No processor is registered for a job. Temporary: a newer deploy may know it."""


class HandlerRefusedError(SQSError):
    """A handler said without an exception that its job failed."""


class JobTimeoutError(SQSError, TimeoutError):
    """A handler outlived its ``timeout``."""


class WorkerError(SQSError):
    """A worker that cannot start or go on."""


class WorkerStopTimeoutError(WorkerError):
    """The stop deadline passed before everything had ended.

    :ivar abandoned: what was left behind, for instance ``emails.send_email 7f3c...``.
    """

    def __init__(self, message: str, *, abandoned: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.abandoned = tuple(abandoned)
