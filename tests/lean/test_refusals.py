"""What the lean transport leaves to boto3, and how it says so."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import botocore
import botocore.client
import pytest
from botocore.config import Config
from botocore.stub import Stubber

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport import Boto3Transport, DeferredTransport, Transport, open_transport
from sqs_workers.transport.lean import LeanTransport
from tests.lean.clients import client_of, plain_session

URL = "http://127.0.0.1:9"
PROXY = "http://127.0.0.1:3128"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def handler(**event: Any) -> None:
    """Somebody's event handler."""


class Tracer:
    """Somebody's event handler that is an object."""

    def __call__(self, **event: Any) -> None: ...


def with_handler(event: str, register: Callable[..., None] | object = handler) -> Any:
    client = client_of(URL)
    client.meta.events.register(event, register)
    return client


def with_handler_on_the_session() -> Any:
    session = plain_session()
    session.events.register("before-send.sqs", handler)
    return client_of(URL, session=session)


def stubbed() -> Any:
    client = client_of(URL)
    Stubber(client).activate()
    return client


def anonymous() -> Any:
    return client_of(URL, signature_version=botocore.UNSIGNED)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a handler of the client": (
        lambda: with_handler("before-call.sqs.SendMessage"),
        "before-call: .*handler",
    ),
    "a handler of everything": (lambda: with_handler("request-created"), "request-created: .*handler"),
    "a handler that is an object": (lambda: with_handler("after-call.sqs.*", Tracer()), "Tracer"),
    "a handler of the session": (with_handler_on_the_session, "before-send: .*handler"),
    "a handler of retries": (lambda: with_handler("needs-retry.sqs"), "needs-retry"),
    "a stub": (stubbed, "botocore.stub"),
    "anonymous requests": (anonymous, "anonymous"),
    "adaptive retries": (lambda: client_of(URL, retries={"mode": "adaptive"}), "adaptive"),
    "a proxy": (lambda: client_of(URL, proxies={"http": PROXY}), "proxy"),
    "no client of botocore": (object, "no botocore client but builtins.object"),
    "a client of another service": (lambda: plain_session().client("sns"), "SQS's JSON protocol"),
}


@pytest.mark.parametrize(("make", "reason"), CASES.values(), ids=CASES.keys())
def test_what_only_boto3_honours_is_refused_with_the_reason(make: Callable[[], Any], reason: str) -> None:
    client = make()
    transport = open_transport(plain_session, mode="lean", get_client=lambda: client)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        transport.get_queue_url("queue")
    assert 'transport="boto3"' in str(caught.value)


@pytest.mark.parametrize(("make", "reason"), CASES.values(), ids=CASES.keys())
def test_auto_uses_boto3_for_it_and_says_so_once(
    make: Callable[[], Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = make()
    transport = open_transport(plain_session, mode="auto", get_client=lambda: client)
    assert isinstance(transport, DeferredTransport)
    with caplog.at_level(logging.INFO, "sqs_workers"):
        assert isinstance(transport.chosen, Boto3Transport)
        assert transport.chosen is transport.chosen
    assert len(caplog.records) == 1
    assert "go through boto3" in caplog.text


def test_a_patched_botocore_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(URL)
    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", lambda *args: {})
    with pytest.raises(ConfigurationError, match="is patched"):
        LeanTransport(lambda: client)


def test_replaced_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(URL)
    recorder = type("Recorder", (), {"__module__": "vcr.stubs"})
    monkeypatch.setattr("botocore.awsrequest.AWSHTTPSConnection", recorder)
    with pytest.raises(ConfigurationError, match="replaced"):
        LeanTransport(lambda: client)


def test_a_proxy_of_the_environment_is_refused_unless_it_is_not_for_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    client = client_of(URL, proxies=None)
    with pytest.raises(ConfigurationError, match="proxy"):
        LeanTransport(lambda: client)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    LeanTransport(lambda: client).close()
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("HTTP_PROXY")
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    LeanTransport(lambda: client).close()


def test_handlers_of_other_services_do_not_matter() -> None:
    session = plain_session()
    session.events.register("before-send.s3", handler)
    client = client_of(URL, session=session)
    transport = open_transport(lambda: session, mode="auto", get_client=lambda: client)
    assert isinstance(transport, DeferredTransport)
    assert isinstance(transport.chosen, LeanTransport)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="boto3, lean, auto"):
        open_transport(plain_session, mode="fast", get_client=object)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["boto3", "lean", "auto"])
def test_opening_makes_no_client_and_asks_nothing_of_the_session(mode: Any) -> None:
    open_transport(
        lambda: pytest.fail("the session was asked for"),
        mode=mode,
        get_client=lambda: pytest.fail("a client was made"),
    )


def test_a_choice_that_failed_is_made_again() -> None:
    clients = [object(), client_of(URL)]
    transport = open_transport(plain_session, mode="lean", get_client=lambda: clients.pop(0))
    assert isinstance(transport, DeferredTransport)
    with pytest.raises(ConfigurationError, match="no botocore client"):
        transport.delete("url", "handle")
    assert isinstance(transport.chosen, LeanTransport)


def test_every_method_of_the_protocol_reaches_the_chosen_transport() -> None:
    calls: list[str] = []

    class Recording:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: calls.append(name)

    recording: Any = Recording()
    transport = DeferredTransport(lambda: recording)
    methods = [name for name in vars(Transport) if not name.startswith("_")]
    for name in methods:
        method = getattr(transport, name)
        method(*range(len(inspect.signature(method).parameters)))
    assert calls == methods
    assert len(methods) == 9


def test_opening_leaves_the_client_as_it_was_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *args: pytest.fail("a connection was opened"))
    client = client_of(URL)
    for _ in range(2):
        LeanTransport(lambda: client).close()
    client.close()


MOCKED = """
import logging, sys
from moto import mock_aws
import boto3
from sqs_workers.messages import OutgoingMessage
from sqs_workers.transport import ReceiveOptions
from sqs_workers.transport import open_transport
from sqs_workers.exceptions import ConfigurationError

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print("a socket was opened:", arguments)

sys.addaudithook(audit)
session = client = None
transport = open_transport(lambda: session, mode="auto", get_client=lambda: client)
with mock_aws():
    session = boto3.session.Session(region_name="us-east-1")
    client = session.client("sqs")
    client.create_queue(QueueName="queue")
    print(type(transport.chosen).__name__)
    url = transport.get_queue_url("queue")
    transport.send(url, OutgoingMessage("body"))
    print([message.body for message in transport.receive(url, ReceiveOptions())])
    try:
        open_transport(lambda: session, mode="lean", get_client=lambda: client).get_queue_url("queue")
    except ConfigurationError as error:
        print(error)
"""


def test_under_mock_aws_auto_opens_no_socket_and_lean_is_refused() -> None:
    # In a process of its own: moto changes every later session of the process that imports it.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MOCKED],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.splitlines()[:2] == ["Boto3Transport", "['body']"]
    assert "event handlers that only boto3 would call are registered: before-send: moto" in done.stdout
    assert "a socket was opened" not in done.stdout


@pytest.mark.parametrize(
    ("environment", "config", "options", "expected"),
    [
        ({}, "", {}, "https://sqs.eu-west-1.amazonaws.com/"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1/all"}, "", {}, "http://127.0.0.1:1/all"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:2"},
            "",
            {},
            "http://127.0.0.1:2/",
        ),
        (
            {},
            "[default]\nservices = here\n[services here]\nsqs =\n  endpoint_url = http://127.0.0.1:3\n",
            {},
            "http://127.0.0.1:3/",
        ),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "", {}, "https://sqs-fips.eu-west-1.amazonaws.com/"),
        ({}, "", {"use_dualstack_endpoint": True}, "https://sqs.eu-west-1.api.aws/"),
    ],
)
def test_the_endpoint_is_the_one_that_botocore_finds(
    environment: dict[str, str],
    config: str,
    options: dict[str, Any],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from sqs_workers.transport.lean.settings import read_settings

    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    file.write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = plain_session(region_name="eu-west-1").client("sqs", config=Config(**options))
    settings = read_settings(client)
    assert settings.url == expected
    assert settings.region == "eu-west-1"
    assert settings.signing_name == "sqs"
    client.close()


def test_a_wrapper_that_pretends_to_be_a_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapper:
        """As instrumentation wraps a method."""

        __module__ = "botocore.client"
        __class__ = FunctionType  # type: ignore[assignment]

    client = client_of(URL)
    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", Wrapper())
    with pytest.raises(ConfigurationError, match="is patched"):
        LeanTransport(lambda: client)
