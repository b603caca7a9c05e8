"""Whom the lean transport trusts: whom botocore's own connections would trust."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, SSLError

from sqs_workers.clock import ManualClock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport import (
    DeferredTransport,
    ErrorKind,
    ReceiveOptions,
    Transport,
    classify,
    open_transport,
)
from tests.lean.certificates import Authority
from tests.lean.clients import QUEUE, client_of, lean, plain_session
from tests.lean.scripted import ScriptedServer, serving

VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "AWS_PROFILE", "AWS_CONFIG_FILE", "SSL_CERT_FILE")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "known")


class TrustingSession:
    """Makes clients with ``verify=``."""

    def __init__(self, session: Any, verify: Any) -> None:
        self._session = session
        self._verify = verify

    def client(self, service: str, **options: Any) -> Any:
        return self._session.client(service, verify=self._verify, **options)


@contextlib.contextmanager
def over_tls(
    server: ScriptedServer,
    *,
    mode: Any = "lean",
    host: str = "localhost",
    session: Any = None,
    verify: Any = None,
) -> Iterator[Transport]:
    """A transport to the server; what it trusts is said as to ``session.client``, if at all."""
    session = session or plain_session()
    client = client_of(f"https://{host}:{server.port}", session=TrustingSession(session, verify))
    transport = open_transport(lambda: session, mode=mode, get_client=lambda: client, verify=verify)
    try:
        yield transport
    finally:
        if isinstance(transport, DeferredTransport):
            transport.close()
        client.close()


@pytest.mark.parametrize("mode", ["boto3", "lean"])
@pytest.mark.parametrize(("name", "host"), [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1")])
def test_the_right_name_of_a_trusted_authority_passes(
    name: str, host: str, mode: str, authority: Authority
) -> None:
    with (
        serving(tls=authority.server(name)) as server,
        over_tls(server, mode=mode, host=host, verify=authority.bundle) as transport,
    ):
        assert transport.receive(QUEUE, ReceiveOptions()) == []
        assert transport.receive(QUEUE, ReceiveOptions()) == []
        assert server.connections == [0, 0]


@pytest.mark.parametrize("mode", ["boto3", "lean"])
@pytest.mark.parametrize(
    ("certificate", "host"),
    [
        ({"name": "other.example"}, "localhost"),
        ({"name": "127.0.0.1"}, "localhost"),
        ({"name": "localhost"}, "127.0.0.1"),
        ({"name": "localhost", "days": -1}, "localhost"),
    ],
    ids=["a wrong name", "an address for a name", "a name for an address", "expired"],
)
def test_a_certificate_that_does_not_fit_is_refused(
    certificate: dict[str, Any], host: str, mode: str, authority: Authority
) -> None:
    with (
        serving(tls=authority.server(**certificate)) as server,
        over_tls(server, mode=mode, host=host, verify=authority.bundle) as transport,
    ):
        with pytest.raises(SSLError) as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.NETWORK
        assert server.received == []


@pytest.mark.parametrize("mode", ["boto3", "lean"])
def test_an_unknown_authority_is_refused(mode: str, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "unknown")
    for verify in (None, True, authority.bundle):
        with (
            serving(tls=stranger.server("localhost")) as server,
            over_tls(server, mode=mode, verify=verify) as transport,
        ):
            with pytest.raises(SSLError):
                transport.receive(QUEUE, ReceiveOptions())
            assert server.received == []


def test_anybody_is_trusted_if_the_user_says_so(tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "unknown")
    with (
        serving(tls=stranger.server("other.example", days=-1)) as server,
        over_tls(server, verify=False) as transport,
    ):
        assert transport.receive(QUEUE, ReceiveOptions()) == []


@pytest.mark.parametrize("mode", ["boto3", "lean"])
@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "profile"])
def test_the_bundle_of_the_environment_or_the_profile_is_trusted(
    variable: str, mode: str, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options: dict[str, Any] = {}
    if variable == "profile":
        config = tmp_path / "config"
        config.write_text(f"[profile special]\nca_bundle = {authority.bundle}\nregion = us-east-1\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        options["profile_name"] = "special"
    else:
        monkeypatch.setenv(variable, authority.bundle)
    with (
        serving(tls=authority.server("localhost")) as server,
        over_tls(server, mode=mode, session=plain_session(**options)) as transport,
    ):
        assert transport.receive(QUEUE, ReceiveOptions()) == []


@pytest.mark.parametrize(
    ("bundle", "message"), [("/nonexistent.pem", "cannot be read"), (" ", "set to nothing")]
)
def test_a_bundle_that_is_none_is_refused_at_the_start(
    bundle: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of("https://localhost:1")
    monkeypatch.setenv("AWS_CA_BUNDLE", bundle)
    transport = open_transport(plain_session, mode="lean", get_client=lambda: client)
    with pytest.raises(ConfigurationError, match=message):
        transport.get_queue_url("queue")
    client.close()


def test_a_handshake_that_is_never_answered_is_a_connect_timeout(authority: Authority) -> None:
    # The server reads what the client says as the beginning of a request, and waits for the rest.
    with serving() as server:
        client = client_of(f"https://localhost:{server.port}", connect_timeout=0.2)
        with lean(client, verify=lambda: authority.bundle) as transport, pytest.raises(ConnectTimeoutError):
            transport.receive(QUEUE, ReceiveOptions())


def test_an_idle_connection_over_tls_is_used_again(authority: Authority) -> None:
    clock = ManualClock()
    with serving(tls=authority.server("localhost")) as server:
        client = client_of(f"https://localhost:{server.port}")
        with lean(client, clock, verify=lambda: authority.bundle) as transport:
            for _ in range(3):
                transport.receive(QUEUE, ReceiveOptions())
                clock.advance(5)
        assert server.connections == [0, 0, 0]
