"""What the lean transport cannot honour, so that boto3 has to carry the requests."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

__all__ = ["find_refusal", "find_signing_refusal", "foreign_handlers", "proxy_of"]

_EVENTS = (
    "provide-client-params",
    "before-parameter-build",
    "before-endpoint-resolution",
    "before-call",
    "request-created",
    "choose-signer",
    "before-sign",
    "before-send",
    "before-parse",
    "response-received",
    "needs-retry",
    "after-call",
    "after-call-error",
)
"""The events that botocore emits in the course of a call.
https://botocore.amazonaws.com/v1/documentation/api/latest/topics/events.html"""

_OPERATIONS = (
    "SendMessage",
    "SendMessageBatch",
    "ReceiveMessage",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "GetQueueUrl",
    "GetQueueAttributes",
)


def find_refusal(client: object) -> str | None:
    """Why requests of ``client`` cannot be sent in its stead, or ``None``.

    How it signs is not looked at here: that shows in a request.
    """
    import botocore.awsrequest
    import botocore.client

    if not isinstance(client, botocore.client.BaseClient):
        return f"the client is no botocore client but {type(client).__module__}.{type(client).__qualname__}"
    service: Any = client.meta.service_model
    protocol = getattr(service, "resolved_protocol", None) or service.metadata.get("protocol")
    if service.service_name != "sqs" or protocol != "json":
        return "the client does not speak SQS's JSON protocol"
    if not _unpatched(botocore.client.BaseClient, "_make_api_call", "botocore."):
        return "botocore.client.BaseClient is patched (by a mock or by instrumentation)"
    if not botocore.awsrequest.AWSHTTPSConnection.__module__.startswith("botocore."):
        return "botocore's HTTP connections are replaced (by a recorder or a mock)"
    handlers = foreign_handlers(client.meta.events)
    if handlers is None:
        return "the event handlers of the client cannot be seen in this version of botocore"
    if handlers:
        return "event handlers that only boto3 would call are registered: " + ", ".join(handlers)
    config: Any = client.meta.config
    if config.retries and config.retries.get("mode") == "adaptive":
        return "retry mode 'adaptive' limits the rate of a client, which only boto3 does"
    if proxy_of(config, client.meta.endpoint_url):
        return "a proxy is configured for the endpoint"
    return None


def find_signing_refusal(signature_version: object) -> str | None:
    """Why a request that botocore would sign this way cannot be sent, or ``None``."""
    import botocore

    if signature_version == "v4":
        return None
    if signature_version is botocore.UNSIGNED:
        return "its requests are anonymous"
    return f"it signs with {signature_version!r}, not with Signature Version 4"


def proxy_of(config: Any, url: str) -> str | None:
    """The proxy that botocore would use for ``url``, as it would find it."""
    from botocore.utils import get_environ_proxies

    proxies = config.proxies
    if proxies is None:
        proxies = get_environ_proxies(url)
    return proxies.get(url.partition(":")[0]) or None


def foreign_handlers(events: Any) -> list[str] | None:
    """Handlers that a call would run and that are not botocore's own, as ``event: module.name``.

    ``None`` if they cannot be told. botocore offers no public way to list them; a mistake here must not
    silence somebody's handler, so that anything unexpected counts as unknown.
    """
    found: dict[str, None] = {}
    try:
        for name, handler in _handlers(events):
            module, qualified = _origin(handler)
            own = module.startswith(("botocore.", "boto3.")) and module != "botocore.stub"
            if not own:
                found[f"{name}: {module}.{qualified}"] = None
    except (AttributeError, TypeError):
        return None
    return list(found)


def _handlers(events: Any) -> Iterator[tuple[str, object]]:
    emitter = getattr(events, "_emitter", events)
    seen_own = False
    for event in _EVENTS:
        for operation in _OPERATIONS:
            for handler in emitter._handlers.prefix_search(f"{event}.sqs.{operation}"):
                seen_own = True
                yield event, handler
    if not seen_own:
        # A botocore client always has some: the search must have missed them.
        raise AttributeError("no handlers found")


def _origin(handler: Any) -> tuple[str, str]:
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not hasattr(handler, "__qualname__"):
        handler = type(handler)
    return str(handler.__module__), str(handler.__qualname__)


def _unpatched(cls: type, name: str, module: str) -> bool:
    method = cls.__dict__.get(name)
    # Not isinstance: the wrappers of instrumentation pretend to be functions.
    return type(method) is FunctionType and method.__module__.startswith(module)
