"""The endpoint's own requests, below ``/_local/``: faults, latency, counters, time.

Each is JSON over HTTP. A request that changes something must say ``application/json``, so that
no web page that happens to be open in a browser can send it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqs_workers.local.http import web
from sqs_workers.local.rules import FaultRule

if TYPE_CHECKING:
    from sqs_workers.local.endpoint import Endpoint

__all__ = ["Control"]


class Control:
    """Answers the requests below :attr:`PREFIX`.

    ========================  ======================================================================
    ``GET /_local/health``    ``{"status": "ok"}``
    ``GET /_local/stats``     counters, see :class:`~sqs_workers.local.stats.Stats`
    ``DELETE /_local/stats``  counters at zero
    ``GET /_local/faults``    rules in force, each with the calls it met and those that went wrong
    ``POST /_local/faults``   ``{"rules": [...], "seed": 0, "add": false}``: replace (or add to) them
    ``DELETE /_local/faults`` let every call through
    ``POST /_local/latency``  ``{"seconds": 0.01}``
    ``POST /_local/clock``    ``{"advance": 30}``: move the backend's clock forward
    ``POST /_local/pause``    ``{"queue": "mail", "paused": true}``: receives find nothing until it is false
    ``POST /_local/reset``    queues, messages and faults gone, latency as at start, counters at zero
    ========================  ======================================================================
    """

    PREFIX = "/_local/"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._latency_at_start = endpoint.latency
        self._routes: dict[tuple[str, str], Callable[[dict[str, Any]], dict[str, Any]]] = {
            ("GET", "health"): lambda _: {"status": "ok"},
            ("GET", "stats"): lambda _: endpoint.stats.as_dict(),
            ("DELETE", "stats"): self._clear_stats,
            ("GET", "faults"): lambda _: {"rules": endpoint.faults.happened()},
            ("POST", "faults"): self._set_faults,
            ("DELETE", "faults"): self._clear_faults,
            ("POST", "latency"): self._set_latency,
            ("POST", "clock"): self._advance,
            ("POST", "pause"): self._pause,
            ("POST", "reset"): self._reset,
        }

    async def answer(self, request: web.BaseRequest) -> web.Response:
        name = request.raw_path[len(self.PREFIX) :].partition("?")[0]
        route = self._routes.get((request.method, name))
        if route is None:
            known = ", ".join(f"{method} {self.PREFIX}{path}" for method, path in self._routes)
            return _json({"error": f"There is no {request.method} {request.path}, only {known}."}, 404)
        if request.method == "POST" and request.content_type != "application/json":
            return _json({"error": "Send this as application/json."}, 415)
        try:
            return _json(route(_object(await request.content.read())))
        except (ValueError, _NotUnderstoodError) as error:
            return _json({"error": str(error)}, 400)

    def _set_faults(self, values: dict[str, Any]) -> dict[str, Any]:
        _only(values, "rules", "seed", "add")
        given, seed = values.get("rules", []), values.get("seed")
        if not isinstance(given, list) or not all(isinstance(rule, (str, dict)) for rule in given):
            raise _NotUnderstoodError("'rules' is a list of fault rules")
        if seed is not None and not isinstance(seed, int):
            raise _NotUnderstoodError(f"'seed' is a whole number, not {seed!r}")
        rules = [
            FaultRule.parse(rule) if isinstance(rule, str) else FaultRule.from_dict(rule) for rule in given
        ]
        plan = self._endpoint.faults
        if values.get("add"):
            for rule in rules:
                plan.add(rule)
        else:
            plan.set(rules, seed=seed)
        return {"rules": plan.happened()}

    def _clear_stats(self, values: dict[str, Any]) -> dict[str, Any]:
        self._endpoint.stats.clear()
        return {"status": "ok"}

    def _clear_faults(self, values: dict[str, Any]) -> dict[str, Any]:
        self._endpoint.faults.clear()
        return {"rules": []}

    def _set_latency(self, values: dict[str, Any]) -> dict[str, Any]:
        _only(values, "seconds")
        self._endpoint.latency = _seconds(values, "seconds")
        return {"seconds": self._endpoint.latency}

    def _advance(self, values: dict[str, Any]) -> dict[str, Any]:
        _only(values, "advance")
        return {"time": self._endpoint.backend.advance(_seconds(values, "advance"))}

    def _pause(self, values: dict[str, Any]) -> dict[str, Any]:
        _only(values, "queue", "paused")
        queue, paused = values.get("queue"), values.get("paused", True)
        if not isinstance(queue, str) or not isinstance(paused, bool):
            raise _NotUnderstoodError("'queue' is the name of a queue, and 'paused' true or false")
        self._endpoint.backend.pause(queue, paused)
        return {"queue": queue, "paused": paused}

    def _reset(self, values: dict[str, Any]) -> dict[str, Any]:
        self._endpoint.backend.reset()
        self._endpoint.faults.clear()
        self._endpoint.latency = self._latency_at_start
        self._endpoint.stats.clear()
        return {"status": "ok"}


class _NotUnderstoodError(Exception):
    """A control request with a body of the wrong form."""


def _object(body: bytes) -> dict[str, Any]:
    values = json.loads(body) if body else {}
    if not isinstance(values, dict):
        raise _NotUnderstoodError("the body is not a JSON object")
    return values


def _only(values: dict[str, Any], *names: str) -> None:
    unknown = set(values) - set(names)
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]!r} means nothing here; there are {', '.join(names)}")


def _seconds(values: dict[str, Any], name: str) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError(f"{name!r} is a number of seconds, not {value!r}")
    return float(value)


def _json(values: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=json.dumps(values).encode(), content_type="application/json")
