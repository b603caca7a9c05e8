"""What happens to a call that failed: botocore's own retry handlers decide, the clock may be corrected.

botocore announces every failed attempt by the event ``needs-retry``, and its handler for the client's retry
mode answers with the seconds to wait. Emitting the same events with the same arguments gives the lean
transport the same error codes, the same budget (shared with the client) and the same backoff, whatever the
installed version of botocore has them be.
https://docs.aws.amazon.com/boto3/latest/guide/retries.html
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from sqs_workers.transport.lean.http1 import Response

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.client import BaseClient

__all__ = ["Attempts", "RetryBudget", "right_time"]

_BUDGET = 500
"""Tokens of botocore's retry budget; each call that succeeds at once gives one back."""

_SKEW_CODES = {
    "RequestTimeTooSkewed",
    "RequestExpired",
    "RequestInTheFuture",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "AuthFailure",
}
"""Error codes behind which a wrong clock may stand, as the AWS SDKs with clock correction have them."""

_TOLERATED_SKEW = 240.0
"""Seconds by which the clocks may differ before a refused signature is put down to it; SQS tolerates 300."""


class RetryBudget:
    """Knows whether botocore's budget may want tokens back, so that most calls need not ask."""

    def __init__(self) -> None:
        self._to_return = 0

    def spent(self) -> None:
        """A retry took tokens."""
        self._to_return = _BUDGET

    def wants(self) -> bool:
        """Whether a call that succeeded at its first attempt has to give a token back."""
        if not self._to_return:
            return False
        self._to_return -= 1
        return True


class Attempts:
    """The attempts of one call, as botocore's event handlers see them."""

    def __init__(self, client: BaseClient, operation: str, url: str) -> None:
        # Typed as Any: the stubs of botocore know neither modeled exceptions nor plain headers.
        self._client: Any = client
        self._operation = operation
        self._model: Any = self._client.meta.service_model.operation_model(operation)
        self._url = url
        self._context: dict[str, Any] = {"retries": {"attempt": 1}}
        self.count = 1
        self.clock_corrected = False

    def delay(
        self, response: Response | None, parsed: dict[str, Any] | None, error: Exception | None
    ) -> float | None:
        """Seconds until the next attempt, or ``None`` if there is to be none."""
        answers = self._client.meta.events.emit(
            f"needs-retry.sqs.{self._operation}",
            response=None if response is None else (self._aws_response(response), parsed),
            endpoint=None,
            operation=self._model,
            attempts=self.count,
            caught_exception=error,
            request_dict={"context": self._context},
        )
        delay = next((answer for _, answer in answers if answer is not None), None)
        return None if delay is None or delay is False else float(delay)

    def next(self) -> None:
        """Another attempt begins."""
        self.count += 1
        self._context["retries"]["attempt"] = self.count

    def succeeded(self, response: Response) -> None:
        """Give back what the budget is due."""
        self._after_call(response, {})

    def parse_error(self, response: Response) -> dict[str, Any]:
        """An answer of status 300 or above in the shape that botocore gives it."""
        from botocore.awsrequest import HeadersDict
        from botocore.parsers import create_parser

        raw = {
            "headers": HeadersDict(response.headers),
            "status_code": response.status,
            "body": response.body,
            "context": {"operation_name": self._operation},
        }
        parser = create_parser("json")
        parsed: dict[str, Any] = parser.parse(raw, self._model.output_shape)
        code = parsed.get("Error", {}).get("Code")
        shape = self._model.service_model.shape_for_error_code(code) if code else None
        if shape is not None:
            parsed.update(parser.parse(raw, shape))
        return parsed

    def client_error(self, response: Response, parsed: dict[str, Any]) -> Exception:
        """The exception that the client would raise for this answer."""
        if "ResponseMetadata" in parsed:
            parsed["ResponseMetadata"]["RetryAttempts"] = self.count - 1
        self._after_call(response, parsed)
        error = parsed.get("Error", {})
        code = self._context.get("error_code_override") or error.get("QueryErrorCode") or error.get("Code")
        exception: Exception = self._client.exceptions.from_code(code)(parsed, self._operation)
        return exception

    def _after_call(self, response: Response, parsed: dict[str, Any]) -> None:
        self._client.meta.events.emit(
            f"after-call.sqs.{self._operation}",
            http_response=self._aws_response(response),
            parsed=parsed,
            model=self._model,
            context=self._context,
        )

    def _aws_response(self, response: Response) -> AWSResponse:
        from botocore.awsrequest import AWSResponse

        headers: Any = response.headers
        return AWSResponse(self._url, response.status, headers, None)


def right_time(response: Response, parsed: dict[str, Any], signed_at: float) -> float | None:
    """Unix time of the server, in seconds, if a request was refused for a date too far from it.

    :param signed_at: Unix time, in seconds, with which the request was signed.
    """
    if parsed.get("Error", {}).get("Code") not in _SKEW_CODES:
        return None
    try:
        right = parsedate_to_datetime(response.headers.get("date", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return right if abs(right - signed_at) > _TOLERATED_SKEW else None
