"""One SQS request from arrival to answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any

from sqs_workers.local.backend import Backend
from sqs_workers.local.control import Control
from sqs_workers.local.faulty import answer_half, drop_connection, failed_entries, refusal
from sqs_workers.local.http import web
from sqs_workers.local.query import QueryWire
from sqs_workers.local.rules import FaultPlan, FaultRule
from sqs_workers.local.stats import Stats
from sqs_workers.local.wire import JsonWire, Refusal, RefusedError, Wire, invalid_action

__all__ = ["MAX_REQUEST_BYTES", "Endpoint"]

MAX_REQUEST_BYTES = 16 * 1_048_576
"""What a request may hold: a batch of 1 MiB with room for the escapes of JSON."""

_JSON = JsonWire()
_QUERY = QueryWire()
_FORM = "application/x-www-form-urlencoded"


class Endpoint:
    """Answers SQS requests from a backend: the handler of an ``aiohttp`` low-level server.

    :param backend: who keeps the queues.
    :param faults: what goes wrong on purpose.
    :param latency: seconds from the arrival of a request to its answer: half of them pass before
        the request takes effect, half after. A long poll that waits adds its waiting to them.
    """

    def __init__(self, backend: Backend, faults: FaultPlan, latency: float = 0.0) -> None:
        self.backend = backend
        self.faults = faults
        self.latency = latency
        self.stats = Stats()
        self._control = Control(self)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request in the protocol in which it was asked."""
        if "Origin" in request.headers:
            # A page in a browser could otherwise put jobs into the queues of whoever looks at it.
            return web.Response(status=403, text="This endpoint does not answer web pages.")
        if request.raw_path.startswith(Control.PREFIX):
            return await self._control.answer(request)
        wire: Wire = _JSON
        try:
            if "x-amz-target" not in request.headers and request.content_type == _FORM:
                wire = _QUERY
            operation, params = wire.read(request.headers, await _body(request))
            if operation not in self.backend.operations:
                raise invalid_action(f"SQS has no operation {operation!r}.")
            return await self._perform(request, wire, operation, params)
        except RefusedError as error:
            return self._refuse(wire, error.refusal)

    async def _perform(
        self, request: web.BaseRequest, wire: Wire, operation: str, params: dict[str, Any]
    ) -> web.StreamResponse:
        arrived = time.monotonic()
        queue = _queue_name(params)
        self.stats.request(operation, queue)
        rule = self.faults.decide(operation, queue)
        latency = self.latency
        if latency:
            await asyncio.sleep(latency / 2)
        if rule is not None:
            self.stats.faults[rule.kind] += 1
            if await self._vanish(request, rule):
                return web.Response()
        began = time.monotonic()
        refused: Refusal | None = None
        result: dict[str, Any] = {}
        try:
            result = await self._execute(operation, params, request.host, rule)
            self.stats.executed(operation, queue, result)
        except RefusedError as error:
            refused = error.refusal
        if latency:
            # Time spent in a long poll is no part of the latency.
            waited = time.monotonic() - began
            await asyncio.sleep(arrived + latency + waited - time.monotonic())
        if refused is not None:
            return self._refuse(wire, refused)
        request_id = str(uuid.uuid4())
        body = wire.answer(operation, result, request_id)
        if rule is not None:
            spoilt = await self._spoil(request, wire, rule, body)
            if spoilt is not None:
                return spoilt
        headers = {"Content-Type": wire.content_type, "x-amzn-RequestId": request_id}
        return web.Response(body=body, headers=headers)

    async def _execute(
        self, operation: str, params: dict[str, Any], host: str, rule: FaultRule | None
    ) -> dict[str, Any]:
        """Do the operation, but for what ``rule`` prevents.

        :raises RefusedError: if the rule or SQS refuses it.
        """
        failed: list[dict[str, Any]] = []
        if rule is not None:
            refused = refusal(rule)
            if refused is not None:
                raise RefusedError(refused)
            params, failed = failed_entries(params, rule)
        if failed and not params["Entries"]:
            return {"Failed": failed}
        result = await self.backend.perform(operation, params, host)
        return {**result, "Failed": [*result.get("Failed", ()), *failed]} if failed else result

    async def _vanish(self, request: web.BaseRequest, rule: FaultRule) -> bool:
        """Drop the connection instead of executing anything, if ``rule`` wants that."""
        if rule.kind == "blackhole":
            await asyncio.sleep(rule.seconds)
        elif rule.kind != "reset":
            return False
        drop_connection(request)
        return True

    async def _spoil(
        self, request: web.BaseRequest, wire: Wire, rule: FaultRule, body: bytes
    ) -> web.StreamResponse | None:
        """The answer that ``rule`` gives in place of ``body``, if it does."""
        if rule.kind == "slow":
            await asyncio.sleep(rule.seconds)
        elif rule.kind == "lost":
            drop_connection(request)
            return web.Response()
        elif rule.kind == "half":
            return await answer_half(request, wire.content_type, body)
        elif rule.kind == "malformed":
            return web.Response(body=b'{"this is no JSON', headers={"Content-Type": wire.content_type})
        return None

    def _refuse(self, wire: Wire, refused: Refusal) -> web.Response:
        self.stats.errors[refused.code] += 1
        request_id = str(uuid.uuid4())
        headers = {
            "Content-Type": wire.content_type,
            "x-amzn-RequestId": request_id,
            "x-amzn-query-error": refused.query_error,
        }
        return web.Response(status=refused.status, body=wire.error(refused, request_id), headers=headers)


def _queue_name(params: Mapping[str, Any]) -> str | None:
    """The queue that a call is about, without asking whether it exists."""
    name = params.get("QueueUrl") or params.get("QueueName")
    return name.rsplit("/", 1)[-1] if isinstance(name, str) else None


async def _body(request: web.BaseRequest) -> bytes:
    if (request.content_length or 0) > MAX_REQUEST_BYTES:
        raise RefusedError(Refusal(413, "RequestTooLarge", "RequestTooLarge", "The request is too large."))
    return await request.content.read()
