"""What a fault does to a call."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from sqs_workers.local.http import web
from sqs_workers.local.rules import FaultRule
from sqs_workers.local.wire import Refusal

__all__ = ["answer_half", "drop_connection", "failed_entries", "refusal"]

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
_REFUSALS = {
    "throttle": Refusal(
        400, "RequestThrottled", "RequestThrottled", "The request was denied due to request throttling."
    ),
    "error500": Refusal(
        500, "InternalError", "InternalError", "We encountered an internal error. Please try again."
    ),
    "error503": Refusal(
        503, "ServiceUnavailable", "ServiceUnavailable", "The service is temporarily unavailable."
    ),
    "denied": Refusal(
        403, "AccessDenied", "AccessDeniedException", "Access to the resource is denied by a fault rule."
    ),
    "expired": Refusal(
        403, "ExpiredToken", "ExpiredTokenException", "The security token included in the request is expired"
    ),
}


def refusal(rule: FaultRule) -> Refusal | None:
    """The error with which ``rule`` refuses a call, or ``None`` if it does something else."""
    found = _REFUSALS.get(rule.kind)
    if found is None or rule.code is None:
        return found
    return Refusal(found.status, rule.code, rule.code, found.message)


def failed_entries(params: dict[str, Any], rule: FaultRule) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Split a batch: the parameters without the entries that ``rule`` lets fail, and their failures."""
    entries = params.get("Entries")
    if rule.kind != "partial" or not isinstance(entries, list):
        return params, []
    kept = [entry for number, entry in enumerate(entries, 1) if number not in rule.entries]
    failed = [
        {
            "Id": entry.get("Id", ""),
            "SenderFault": rule.sender_fault,
            "Code": rule.code or "InternalError",
            "Message": "This entry failed because a fault rule says so.",
        }
        for number, entry in enumerate(entries, 1)
        if number in rule.entries
    ]
    return {**params, "Entries": kept}, failed


def drop_connection(request: web.BaseRequest) -> None:
    """Reset the connection of ``request``; the client sees ECONNRESET."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        # Lingering for 0 seconds makes the kernel send RST in place of FIN.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def answer_half(request: web.BaseRequest, content_type: str, body: bytes) -> web.StreamResponse:
    """Announce all of ``body``, send its first half, and close the connection."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    transport = request.transport
    if transport is not None:
        transport.close()
    return response
