"""What an error of an AWS call means for the one who has to go on.

Works on any exception by its class name and error code, so that botocore need not be imported.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar, cast

from sqs_workers.exceptions import InvalidMessageError, QueueNotFoundError, SendError, SQSError

__all__ = ["ErrorKind", "as_both", "classify", "error_code", "explain_send_error"]

SQSErrorT = TypeVar("SQSErrorT", bound=SQSError)


class ErrorKind(str, Enum):
    """Why a call failed."""

    THROTTLED = "throttled"
    """Too many requests (of SQS or of KMS): wait and go on."""
    NETWORK = "network"
    """No answer, or none that can be read: wait and go on. What was asked may have happened."""
    SERVER = "server"
    """A fault of AWS: wait and go on. What was asked may have happened."""
    CREDENTIALS = "credentials"
    """Expired or missing credentials: wait for new ones."""
    DENIED = "denied"
    """Not permitted to these credentials: somebody must change the configuration."""
    MISSING = "missing"
    """No such queue, topic or bus."""
    RECEIPT = "receipt"
    """The receipt handle is no longer valid."""
    INVALID = "invalid"
    """The request itself is wrong: repeating it does not help."""
    OTHER = "other"
    """Anything else."""

    @property
    def temporary(self) -> bool:
        """Whether waiting may help without anybody changing anything."""
        return self in _TEMPORARY


_TEMPORARY = {
    ErrorKind.THROTTLED,
    ErrorKind.NETWORK,
    ErrorKind.SERVER,
    ErrorKind.CREDENTIALS,
    ErrorKind.OTHER,
}

_CODES: dict[str, ErrorKind] = {
    **dict.fromkeys(
        (
            "RequestThrottled",
            "RequestThrottledException",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "TooManyRequestsException",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
            "SlowDown",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceededException",
            "KmsThrottled",
            "KMS.ThrottlingException",
            "KMSThrottling",
            "Throttled",
            "OverLimit",
            "AWS.SimpleQueueService.OverLimit",
        ),
        ErrorKind.THROTTLED,
    ),
    **dict.fromkeys(
        (
            "InternalError",
            "InternalFailure",
            "ServiceUnavailable",
            "InternalServerError",
            "InternalException",
            "InternalServerException",
            "500",
            "502",
            "503",
            "504",
        ),
        ErrorKind.SERVER,
    ),
    **dict.fromkeys(
        (
            "ExpiredToken",
            "ExpiredTokenException",
            "TokenRefreshRequired",
            "RequestExpired",
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidSignatureException",
            "InvalidSecurity",
            "RequestTimeTooSkewed",
            "AuthFailure",
            "MissingAuthenticationToken",
            "IncompleteSignature",
        ),
        ErrorKind.CREDENTIALS,
    ),
    **dict.fromkeys(
        (
            "AccessDenied",
            "AccessDeniedException",
            "UnauthorizedOperation",
            "OptInRequired",
            "KmsAccessDenied",
            "KMS.AccessDeniedException",
            "KmsDisabled",
            "KMS.DisabledException",
            "KmsInvalidState",
            "KMS.KMSInvalidStateException",
            "KmsInvalidKeyUsage",
            "KMS.InvalidKeyUsageException",
            "KmsNotFound",
            "KMS.NotFoundException",
            "KmsOptInRequired",
            "KMS.OptInRequired",
            "AuthorizationError",
            "KMSAccessDenied",
            "KMSDisabled",
            "KMSInvalidState",
            "KMSNotFound",
            "KMSOptInRequired",
        ),
        ErrorKind.DENIED,
    ),
    **dict.fromkeys(
        (
            "AWS.SimpleQueueService.NonExistentQueue",
            "QueueDoesNotExist",
            "InvalidAddress",
            "NotFound",
            "NotFoundException",
            "ResourceNotFoundException",
        ),
        ErrorKind.MISSING,
    ),
    **dict.fromkeys(
        (
            "ReceiptHandleIsInvalid",
            "MessageNotInflight",
            "AWS.SimpleQueueService.MessageNotInflight",
        ),
        ErrorKind.RECEIPT,
    ),
}

_CLASS_NAMES: dict[str, ErrorKind] = {
    **dict.fromkeys(
        (
            "NoCredentialsError",
            "PartialCredentialsError",
            "CredentialRetrievalError",
            "TokenRetrievalError",
            "SSOTokenLoadError",
            "UnauthorizedSSOTokenError",
            "RefreshWithMFAUnsupportedError",
        ),
        ErrorKind.CREDENTIALS,
    ),
    **dict.fromkeys(("ParamValidationError", "ValidationError", "NoRegionError"), ErrorKind.INVALID),
    **dict.fromkeys(
        (
            "HTTPClientError",
            "ConnectionError",
            "ResponseParserError",
            "IncompleteReadError",
            "ResponseStreamingError",
            "HTTPError",
            "HTTPException",
            "OSError",
        ),
        ErrorKind.NETWORK,
    ),
}


def error_code(error: BaseException) -> str:
    """SQS's error code, or the class name of an exception that carries none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        code = response.get("Error", {}).get("Code")
        if code:
            return str(code)
    return type(error).__name__


def as_both(error: SQSErrorT, cause: BaseException) -> SQSErrorT:
    """``error``, as an instance of botocore's class of ``cause``, too, with its ``response``.

    So that ``except ClientError`` and ``except client.exceptions.QueueDoesNotExist`` go on catching it.
    """
    response = getattr(cause, "response", None)
    if not isinstance(response, dict) or not isinstance(cause, Exception):
        return error
    classes = type(error), type(cause)
    cls = _BOTH.get(classes) or _BOTH.setdefault(classes, _class_of_both(*classes))
    both = cls.__new__(cls)
    both.args = error.args
    vars(both).update(vars(error))
    vars(both).update(response=response, operation_name=getattr(cause, "operation_name", ""))
    return cast("SQSErrorT", both)


_BOTH: dict[tuple[type, type], Any] = {}


def _class_of_both(ours: type[SQSError], theirs: type[Exception]) -> Any:
    def as_ours(self: Any) -> Any:
        # Other processes need not know botocore's class, which is made at run time.
        return _rebuild, (ours, self.args, {k: v for k, v in vars(self).items() if k != "response"})

    return type(ours.__name__, (ours, theirs), {"__module__": ours.__module__, "__reduce__": as_ours})


def _rebuild(ours: type[SQSError], args: Any, attributes: dict[str, Any]) -> SQSError:
    error = ours.__new__(ours)
    error.args = args
    vars(error).update(attributes)
    return error


def explain_send_error(error: Exception, queue_name: str, job_name: str) -> Exception:
    """An error of sending one message, with the names of queue and job where SQS says that they are at fault."""
    kind = classify(error)
    what = f"job {job_name!r}" if job_name else "a message"
    if kind is ErrorKind.DENIED:
        explained: SQSError = SendError(
            f"these credentials may not send {what} to queue {queue_name!r} ({error}); allow sqs:SendMessage, "
            "and kms:GenerateDataKey and kms:Decrypt if the queue is encrypted"
        )
    elif kind is ErrorKind.MISSING:
        explained = QueueNotFoundError(
            f"queue {queue_name!r} does not exist any more, or its queue_url is wrong ({error})",
            queue_name=queue_name,
        )
    elif kind is ErrorKind.INVALID and isinstance(getattr(error, "response", None), dict):
        explained = InvalidMessageError(f"SQS refused {what} for queue {queue_name!r} ({error})")
    else:
        return error
    return as_both(explained, error)


def classify(error: BaseException) -> ErrorKind:
    """What ``error``, raised by an AWS call, means for the one who has to go on."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return classify_code(
            str(response["Error"].get("Code", "")),
            int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0),
        )
    for cls in type(error).__mro__:
        kind = _CLASS_NAMES.get(cls.__name__)
        if kind is not None:
            return kind
    return ErrorKind.OTHER


def classify_code(code: str, http_status: int = 0) -> ErrorKind:
    """The kind of an error code of SQS, SNS or EventBridge, as in a ``Failed`` entry of a batch answer."""
    kind = _CODES.get(code)
    if kind is not None:
        return kind
    if http_status == 429:
        return ErrorKind.THROTTLED
    if http_status >= 500:
        return ErrorKind.SERVER
    if http_status == 403:
        return ErrorKind.DENIED
    if http_status >= 400:
        return ErrorKind.INVALID
    return ErrorKind.OTHER
