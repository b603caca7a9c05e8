"""Signatures: equal to those that AWS publishes and to those that botocore computes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.utils import normalize_url_path
from hypothesis import given, settings
from hypothesis import strategies as st

from sqs_workers.messages import OutgoingMessage
from sqs_workers.transport import ReceiveOptions
from sqs_workers.transport.lean.signing import Signer, Template, canonical_query, timestamp
from tests.lean.clients import QUEUE, client_of, lean, plain_session
from tests.lean.scripted import Received, serving

EXAMPLES = int(os.environ.get("LEAN_SIGNATURES", "300"))
"""Generated requests; the full run has 10,000."""

WHEN = "20150830T123600Z"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuw"
    "thAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHN"
    "VXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxB"
    "A=="
)
HOST = ("Host", "example.amazonaws.com")
FORM = ("Content-Type", "application/x-www-form-urlencoded")


@dataclass(frozen=True)
class Published:
    """A POST request of AWS's Signature Version 4 test suite."""

    name: str
    signed: str
    signature: str
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""
    body: bytes = b""
    token: str | None = None


SUITE = [
    Published(
        "post-vanilla", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    ),
    Published(
        "post-vanilla-query",
        "host;x-amz-date",
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        query="Param1=value1",
    ),
    Published(
        "post-header-key-sort",
        "host;my-header1;x-amz-date",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        (("My-Header1", "value1"),),
    ),
    Published(
        "post-header-value-case",
        "host;my-header1;x-amz-date",
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        (("My-Header1", "VALUE1"),),
    ),
    Published(
        "post-sts-header-before",
        "host;x-amz-date;x-amz-security-token",
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        token=TOKEN,
    ),
    Published(
        "post-x-www-form-urlencoded",
        "content-type;host;x-amz-date",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        (FORM,),
        body=b"Param1=value1",
    ),
]


@pytest.mark.parametrize("example", SUITE, ids=lambda example: example.name)
def test_a_signature_is_the_one_that_aws_published(example: Published) -> None:
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", SECRET, example.token)
    template = Template.build((HOST, *example.headers), query=canonical_query(example.query))
    assert Signer("us-east-1", "service").authorization(template, credentials, WHEN, example.body) == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders={example.signed}, Signature={example.signature}"
    )


def test_a_unix_time_is_written_as_the_published_examples_have_it() -> None:
    assert timestamp(1440938160) == WHEN


def by_botocore(
    url: str,
    headers: dict[str, str],
    body: bytes,
    credentials: ReadOnlyCredentials,
    region: str,
    when: str,
) -> str:
    """The header ``Authorization`` as botocore signs it."""
    request = AWSRequest("POST", url, headers={**headers, "X-Amz-Date": when}, data=body)
    if credentials.token:
        request.headers["X-Amz-Security-Token"] = credentials.token
    request.context["timestamp"] = when
    auth = SigV4Auth(credentials, "sqs", region)
    names = auth.signed_headers(auth.headers_to_sign(request))
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"


visible = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
secrets = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
hosts = st.one_of(
    st.sampled_from(["sqs.us-east-1.amazonaws.com", "localhost", "127.0.0.1", "[::1]", "EXAMPLE.com"]),
    st.builds("{}.{}".format, names, names),
)
ports = st.one_of(st.just(""), st.sampled_from([":80", ":443", ":4566", ":9324"]))
paths = st.one_of(
    st.sampled_from(["", "/", "//", "/a/../b", "/./x/", "/a b", "/queue/€", "/%7Euser/%2F"]),
    st.text(st.sampled_from("abc/.~-_ é€%2F"), max_size=20).map("/{}".format),
)
queries = st.sampled_from(["", "a=1", "b=2&a=1", "a=2&a=1", "a", "x=%20"])
bodies = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")),
    st.integers(1, 4).map(lambda size: b"x" * (size * 50_000)),
)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
headers = st.dictionaries(
    st.sampled_from(["Content-Type", "X-Amz-Target", "x-amzn-query-mode", "X-Zebra", "A-First", "X-Amz-Aaa"]),
    values,
    max_size=6,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    scheme=st.sampled_from(["http", "https"]),
    host=hosts,
    port=ports,
    path=paths,
    query=queries,
    extra=headers,
    body=bodies,
    access_key=visible,
    secret_key=secrets,
    token=st.one_of(st.none(), st.just(""), visible, st.just("t" * 2000)),
    region=names,
    when=st.integers(0, 4_000_000_000).map(timestamp),
)
def test_a_signature_is_the_one_that_botocore_computes(
    scheme: str,
    host: str,
    port: str,
    path: str,
    query: str,
    extra: dict[str, str],
    body: bytes,
    access_key: str,
    secret_key: str,
    token: str | None,
    region: str,
    when: str,
) -> None:
    url = f"{scheme}://{host}{port}{path}" + (f"?{query}" if query else "")
    credentials = ReadOnlyCredentials(access_key, secret_key, token)
    parts = urlsplit(url)
    default = {"http": ":80", "https": ":443"}[scheme]
    template = Template.build(
        [("Host", host.lower() + ("" if port == default else port)), *extra.items()],
        path=normalize_url_path(parts.path),
        query=canonical_query(parts.query),
    )
    signer = Signer(region, "sqs")
    ours = signer.authorization(template, credentials, when, body)
    assert ours == by_botocore(url, extra, body, credentials, region, when)
    assert signer.authorization(template, credentials, when, body) == ours


def test_the_signing_key_changes_with_the_day_and_with_each_part_of_the_credentials() -> None:
    signer = Signer("us-east-1", "sqs")
    template = Template.build([HOST])
    cases = [
        ("A", "S", None, "20150830T123600Z"),
        ("A", "S", None, "20150831T123600Z"),
        ("B", "S", None, "20150831T123600Z"),
        ("B", "T", None, "20150831T123600Z"),
        ("B", "T", "token", "20150831T123600Z"),
        ("B", "T", "other", "20150831T123600Z"),
    ]
    for access_key, secret_key, token, when in cases:
        credentials = ReadOnlyCredentials(access_key, secret_key, token)
        fresh = Signer("us-east-1", "sqs").authorization(template, credentials, when, b"")
        assert signer.authorization(template, credentials, when, b"") == fresh


def test_credentials_with_a_line_break_are_refused_without_naming_them() -> None:
    credentials = ReadOnlyCredentials("A", "S", "secret-token\r\nX-Evil: 1")
    with pytest.raises(ValueError, match="contains a line break") as caught:
        Signer("us-east-1", "sqs").authorization(Template.build([HOST]), credentials, WHEN, b"")
    assert "secret-token" not in str(caught.value)


def signature_by_botocore(received: Received, url: str, token: str | None) -> str:
    signed = re.search(r"SignedHeaders=([^,]+)", received.headers["authorization"])
    assert signed is not None
    constructed = {"host", "x-amz-date", "x-amz-security-token"}
    headers = {
        name: value
        for name, value in received.headers.items()
        if name in signed[1].split(";") and name not in constructed
    }
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", SECRET, token)
    return by_botocore(
        url + received.target,
        headers,
        received.body,
        credentials,
        "us-east-1",
        received.headers["x-amz-date"],
    )


@pytest.mark.parametrize("token", [None, TOKEN])
def test_what_arrives_at_the_server_is_signed_as_botocore_would_sign_it(token: str | None) -> None:
    with (
        serving() as server,
        lean(client_of(server.url, session=plain_session(aws_session_token=token))) as transport,
    ):
        transport.get_queue_attributes(QUEUE, ["All"])
        transport.receive(QUEUE, ReceiveOptions())
        transport.delete(QUEUE, "handle €")
        transport.delete_batch(QUEUE, ["one", "two"])
        transport.change_visibility(QUEUE, "handle", 5)
        transport.change_visibility_batch(QUEUE, [("one", 1)])
        with pytest.raises(Exception, match="cannot be read"):
            transport.send(QUEUE, OutgoingMessage("ünï\x00 \U0001f600"))
        transport.send_batch(QUEUE, [OutgoingMessage("")])
        with pytest.raises(Exception, match="cannot be read"):
            transport.get_queue_url("queue")
    assert len({request.operation for request in server.received}) == 9
    for request in server.received:
        assert request.headers["authorization"] == signature_by_botocore(request, server.url, token)
        assert request.headers.get("x-amz-security-token") == token


def test_the_headers_are_those_that_botocore_sends() -> None:
    ours, theirs = serving(), serving()
    with ours as server, lean(client_of(server.url)) as transport:
        transport.delete(QUEUE, "handle")
        mine = server.received[0]
    with theirs as server:
        client = client_of(server.url)
        client.delete_message(QueueUrl=QUEUE, ReceiptHandle="handle")
        client.close()
        botocores = server.received[0]
    assert mine.json == botocores.json
    assert mine.target == botocores.target
    varying = {
        "host",
        "authorization",
        "x-amz-date",
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "content-length",
    }
    assert {k: v for k, v in mine.headers.items() if k not in varying} == {
        k: v for k, v in botocores.headers.items() if k not in varying
    }


def test_credentials_of_botocore_fit_the_signer() -> None:
    frozen = Credentials("A", "S", "T").get_frozen_credentials()
    assert Signer("r", "sqs").authorization(Template.build([HOST]), frozen, WHEN, b"").startswith("AWS4")
