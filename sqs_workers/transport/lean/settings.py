"""What botocore knows about the endpoint, taken from a client by its public interfaces."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport.lean.connection import Address
from sqs_workers.transport.lean.signing import Credentials, canonical_query

if TYPE_CHECKING:
    from botocore.client import BaseClient

__all__ = ["Settings", "Verify", "address_of", "read_settings", "session_verify", "tls_context"]

Verify = bool | str
"""A file of CA certificates, ``True`` for the one that botocore uses, ``False`` to trust anybody."""

_PROBED_OPERATION = "ListQueues"
_CONSTRUCTED = {
    "content-length",
    "host",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-target",
    "x-amzn-trace-id",
}


@dataclass(frozen=True)
class Settings:
    """Everything about the requests that does not change while a client lives.

    :param url: endpoint, for messages of errors.
    :param host: value of the header ``Host``.
    :param target: path and query string as requests have them.
    :param path: path for the signature, without dot segments.
    :param query: canonical query string, usually empty.
    :param signed_headers: headers of every request that are signed, but for those that depend on it.
    :param unsigned_headers: headers of every request that are not signed.
    :param signature_version: botocore's name of the signature.
    :param credentials: returns botocore's frozen credentials, refreshed if they were due; ``None`` if there
        are none.
    :param pool_size: connections that are kept when idle.
    """

    url: str
    host: str
    target: str
    path: str
    query: str
    signed_headers: tuple[tuple[str, str], ...]
    unsigned_headers: tuple[tuple[str, str], ...]
    region: str
    signing_name: str
    signature_version: object
    credentials: Callable[[], Credentials | None]
    pool_size: int


class _Seen(Exception):
    """Ends a call when its request is complete but for the signature."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__("the request was only wanted for its headers")
        self.event = event


def read_settings(client: BaseClient) -> Settings:
    """Let ``client`` prepare a request, and take from it what all requests have in common.

    The request ends before it is signed; nothing is sent. So whatever decides on the endpoint and the headers
    (``AWS_ENDPOINT_URL``, FIPS, dual stack, the profile, the client's ``Config``) has had its say.
    """
    event = _prepare_request(client)
    request = event["request"]
    parts = urlsplit(request.url)
    signer = event["request_signer"]
    region, name, version = event["region_name"], event["signing_name"], event["signature_version"]

    def credentials() -> Credentials | None:
        frozen: Credentials | None = signer.get_auth_instance(name, region, version).credentials
        return frozen

    from botocore.utils import normalize_url_path

    signed, unsigned = _common_headers(request.headers)
    host = _host_header(request.url)
    return Settings(
        url=f"{parts.scheme}://{host}{parts.path}",
        host=host,
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        path=normalize_url_path(parts.path),
        query=canonical_query(parts.query),
        signed_headers=signed,
        unsigned_headers=unsigned,
        region=region,
        signing_name=name,
        signature_version=version,
        credentials=credentials,
        pool_size=_config(client).max_pool_connections,
    )


def _prepare_request(client: BaseClient) -> dict[str, Any]:
    thread = threading.get_ident()

    def look(**event: Any) -> None:
        # Another thread may be using the same client.
        if threading.get_ident() == thread:
            raise _Seen(event)

    events = client.meta.events
    name = f"before-sign.sqs.{_PROBED_OPERATION}"
    events.register(name, look)
    try:
        client.list_queues()  # type: ignore[attr-defined]
    except _Seen as seen:
        return seen.event
    finally:
        events.unregister(name, look)
    raise RuntimeError("botocore did not announce the signing of a request")


def _common_headers(headers: Any) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    from botocore.auth import SIGNED_HEADERS_BLACKLIST

    signed: list[tuple[str, str]] = []
    unsigned: list[tuple[str, str]] = []
    for name, value in headers.items():
        text = value.decode("utf-8") if isinstance(value, bytes) else str(value)
        if name.lower() not in _CONSTRUCTED:
            (unsigned if name.lower() in SIGNED_HEADERS_BLACKLIST else signed).append((name, text))
    return tuple(signed), tuple(unsigned)


def _config(client: BaseClient) -> Any:
    # Its options are set from a table, which type stubs do not see.
    return client.meta.config


def _host_header(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None and parts.port != _default_port(parts.scheme):
        host = f"{host}:{parts.port}"
    return host


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def address_of(client: BaseClient, url: str, verify: Verify) -> Address:
    """Where and how to connect for requests of ``client`` to ``url``.

    :raises OSError: a file of certificates cannot be read.
    """
    config = _config(client)
    parts = urlsplit(url)
    return Address(
        host=parts.hostname or "",
        port=parts.port or _default_port(parts.scheme),
        connect_timeout=config.connect_timeout,
        read_timeout=config.read_timeout,
        keepalive=bool(getattr(config, "tcp_keepalive", None)),
        tls=tls_context(verify, config.client_cert) if parts.scheme == "https" else None,
    )


def session_verify(session: Any) -> Verify:
    """How a client of ``session`` that was made without ``verify=`` checks certificates.

    ``AWS_CA_BUNDLE``, then ``ca_bundle`` of the profile, then ``REQUESTS_CA_BUNDLE``, then botocore's bundle.
    """
    import botocore.session

    if hasattr(session, "get_config_variable"):
        return _or_requests_bundle(session.get_config_variable("ca_bundle"))
    # The module boto3 itself stands for its default session.
    session = getattr(session, "DEFAULT_SESSION", None) or session
    profile = getattr(session, "profile_name", None)
    if not isinstance(profile, str) or profile == "default":
        profile = None
    return _or_requests_bundle(botocore.session.Session(profile=profile).get_config_variable("ca_bundle"))


def _or_requests_bundle(bundle: str | None) -> Verify:
    if bundle is None:
        bundle = os.environ.get("REQUESTS_CA_BUNDLE")
    if bundle is None:
        return True
    if not bundle.strip():
        raise ConfigurationError(
            "the file of CA certificates (AWS_CA_BUNDLE, REQUESTS_CA_BUNDLE or ca_bundle) is set to nothing; "
            "unset it or name a file"
        )
    return bundle


def tls_context(verify: Verify, client_cert: str | tuple[str, str] | None = None) -> ssl.SSLContext:
    """The context with which botocore's own connections shake hands.

    :raises OSError: a file of certificates cannot be read.
    """
    from botocore.httpsession import create_urllib3_context

    context: ssl.SSLContext = create_urllib3_context()
    if verify:
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = True
        context.hostname_checks_common_name = False
        context.load_verify_locations(cafile=_bundle(verify))
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_cert is not None:
        certificate, key = (client_cert, None) if isinstance(client_cert, str) else client_cert
        context.load_cert_chain(certificate, key)
    return context


def _bundle(verify: bool | str) -> str:
    from botocore.httpsession import get_cert_path

    # The stubs know only True.
    find: Callable[[Any], Any] = get_cert_path
    return str(find(verify))
