"""What an error of an AWS call means for the one who has to go on.

Works on any exception by its class name and error code, so that botocore need not be imported.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["ErrorKind", "classify", "error_code"]


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
    """No such queue."""
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
        ),
        ErrorKind.DENIED,
    ),
    **dict.fromkeys(
        ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "InvalidAddress"),
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
    """The kind of an SQS error code, as in a ``Failed`` entry of a batch answer."""
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
