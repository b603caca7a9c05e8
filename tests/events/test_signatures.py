"""SNS's signature: right, wrong, absent; with certificates of AWS and of others."""

from __future__ import annotations

import base64
import datetime
import json
import threading
from collections.abc import Callable
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import OpenerDirector

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from sqs_workers import Discard, MemorySession, SQSEnv, create_standard_queue
from sqs_workers.clock import SteppableClock
from sqs_workers.envelopes import SNSEnvelope
from sqs_workers.envelopes.signatures import SignatureCheck, certificate_url, fetch_certificate
from sqs_workers.exceptions import SignatureError, SigningCertificateError
from sqs_workers.messages import OutgoingMessage
from tests.events.test_hostile import body_of
from tests.events.test_shapes import message_of

TOPIC = "arn:aws:sns:us-west-2:123456789012:MyTopic"
URL = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem"
BEGIN = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=10)


def certificate_of(key: Any, days: int = 100) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(BEGIN)
        .not_valid_after(BEGIN + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Host:
    """Where certificates come from."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        return self.pem


@pytest.fixture
def host(key: rsa.RSAPrivateKey) -> Host:
    return Host(certificate_of(key))


@pytest.fixture
def clock() -> SteppableClock:
    return SteppableClock()


@pytest.fixture
def envelope(host: Host, clock: SteppableClock) -> SNSEnvelope:
    return SNSEnvelope(topics=[TOPIC], verify=SignatureCheck(fetch=host, clock=clock))


def sign(body: dict[str, Any], key: Any, version: str = "2", url: str = URL) -> dict[str, Any]:
    names = [
        "Message",
        "MessageId",
        *(["Subject"] if "Subject" in body else []),
        "Timestamp",
        "TopicArn",
        "Type",
    ]
    text = "".join(f"{name}\n{body[name]}\n" for name in names).encode()
    algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()
    signature = key.sign(text, padding.PKCS1v15(), algorithm)
    return {
        **body,
        "SignatureVersion": version,
        "Signature": base64.b64encode(signature).decode(),
        "SigningCertURL": url,
    }


def check(envelope: SNSEnvelope, body: dict[str, Any]) -> None:
    envelope.check(envelope.open(message_of(body)))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("name", ["SNS delivers text", "SNS delivers attributes"])
def test_what_sns_has_signed_is_taken(envelope: SNSEnvelope, key: Any, name: str, version: str) -> None:
    check(envelope, sign(body_of(name), key, version))


def test_the_certificate_is_fetched_once(envelope: SNSEnvelope, key: Any, host: Host) -> None:
    for _ in range(3):
        check(envelope, sign(body_of("SNS delivers text"), key))
    assert host.asked == [URL]


@pytest.mark.parametrize("member", ["Message", "MessageId", "Subject", "Timestamp"])
def test_a_signed_member_that_was_changed_is_found(envelope: SNSEnvelope, key: Any, member: str) -> None:
    body = sign(body_of("SNS delivers text"), key)
    body[member] = "2026-01-01T00:00:00.000Z" if member == "Timestamp" else body[member] + "x"
    with pytest.raises(SignatureError, match="signature of message m-1 is wrong"):
        check(envelope, body)


def test_a_subject_that_was_added_is_found(envelope: SNSEnvelope, key: Any) -> None:
    body = sign(body_of("SNS delivers attributes"), key)
    with pytest.raises(SignatureError, match="is wrong"):
        check(envelope, {**body, "Subject": "added"})


def test_a_signature_of_somebody_else_is_wrong(envelope: SNSEnvelope) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(SignatureError, match="is wrong"):
        check(envelope, sign(body_of("SNS delivers text"), other))


@pytest.mark.parametrize("member", ["SignatureVersion", "Signature", "SigningCertURL"])
def test_a_message_without_a_signature_is_refused(
    envelope: SNSEnvelope, key: Any, member: str, host: Host
) -> None:
    body = sign(body_of("SNS delivers text"), key)
    del body[member]
    with pytest.raises(SignatureError, match="no signature"):
        check(envelope, body)
    assert host.asked == []


def test_a_signature_that_is_no_base64_or_of_another_version_asks_nobody(
    envelope: SNSEnvelope, key: Any, host: Host, clock: SteppableClock
) -> None:
    body = sign(body_of("SNS delivers text"), key)
    for spoiled in ({"Signature": "%%%"}, {"SignatureVersion": "3"}):
        with pytest.raises(SignatureError):
            check(envelope, {**body, **spoiled})
    strict = SNSEnvelope(topics=[TOPIC], verify=SignatureCheck(versions=("2",), fetch=host, clock=clock))
    with pytest.raises(SignatureError, match="not accepted"):
        check(strict, sign(body_of("SNS delivers text"), key, "1"))
    assert host.asked == []


FOREIGN_URLS = [
    "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com.cn/SimpleNotificationService-0123456789abcdef.pem",
    "https://attacker.example/SimpleNotificationService-0123456789abcdef.pem",
    "http://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com.attacker.example/SimpleNotificationService-0123456789abcdef.pem",
    "https://attacker.example\\@sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://user@sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com@attacker.example/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com:8443/SimpleNotificationService-0123456789abcdef.pem",
    "https://attackersns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns-us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://my-bucket.s3.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com/../SimpleNotificationService-0123456789abcdef.pem",
    "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem?x=1",
    "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem#x",
    "https://sns.us-west-2.amazonaws.com/other.pem",
    "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem\n",
    "https://sns.us-west-2.amazonaws.com\t/SimpleNotificationService-0123456789abcdef.pem",
    "https://[sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "https://SNS.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "//sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("url", FOREIGN_URLS)
def test_a_certificate_from_elsewhere_is_never_fetched(
    envelope: SNSEnvelope, key: Any, host: Host, url: str
) -> None:
    with pytest.raises(SignatureError, match="nothing was fetched"):
        check(envelope, sign(body_of("SNS delivers text"), key, url=url))
    assert host.asked == []


@pytest.mark.parametrize(
    ("hostname", "partition", "region"),
    [
        ("sns.eu-central-1.amazonaws.com", "aws", "eu-central-1"),
        ("sns.us-gov-west-1.amazonaws.com", "aws-us-gov", "us-gov-west-1"),
        ("sns.ap-southeast-2.amazonaws.com", "aws", "ap-southeast-2"),
        ("sns.cn-north-1.amazonaws.com.cn", "aws-cn", "cn-north-1"),
    ],
)
def test_the_certificate_is_at_the_host_of_the_topics_region(
    hostname: str, partition: str, region: str
) -> None:
    url = f"https://{hostname}/SimpleNotificationService-0123456789abcdef.pem"
    assert certificate_url(url, f"arn:{partition}:sns:{region}:123456789012:t", "m-1") == url
    for topic in ("arn:aws:sns:us-east-1:123456789012:t", "arn:aws:sns:x@y:123456789012:t", TOPIC):
        with pytest.raises(SignatureError, match="nothing was fetched"):
            certificate_url(url, topic, "m-1")


def test_a_certificate_counts_within_its_time_alone(
    envelope: SNSEnvelope, key: Any, clock: SteppableClock
) -> None:
    body = sign(body_of("SNS delivers text"), key)
    check(envelope, body)
    clock.advance(100 * 86_400)
    with pytest.raises(SignatureError, match="not valid at this time"):
        check(envelope, body)


def test_what_is_no_certificate_of_an_rsa_key_is_permanent(
    envelope: SNSEnvelope, key: Any, host: Host
) -> None:
    body = sign(body_of("SNS delivers text"), key)
    host.pem = b"<html>"
    with pytest.raises(SignatureError, match="cannot be read"):
        check(envelope, body)
    host.pem = certificate_of(ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(SignatureError, match="no RSA key"):
        check(envelope, body)


def test_certificates_are_kept_within_bounds(key: Any, host: Host, clock: SteppableClock) -> None:
    envelope = SNSEnvelope(topics=[TOPIC], verify=SignatureCheck(fetch=host, clock=clock))
    urls = [URL.replace("0123456789abcdef", f"{number:016x}") for number in range(40)]
    for url in [*urls, *urls[-32:], urls[0]]:
        check(envelope, sign(body_of("SNS delivers text"), key, url=url))
    assert host.asked == [*urls, urls[0]]


class Answer:
    """What a server answers with, in place of the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.urls: list[str] = []
        self.outcome: Callable[[str], Any] = lambda url: None
        monkeypatch.setattr(OpenerDirector, "open", self.open)

    def open(self, url: str, timeout: float) -> Any:
        self.urls.append(url)
        assert timeout == 5.0
        return self.outcome(url)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    return Answer(monkeypatch)


def failing(error: Exception) -> Callable[[str], Any]:
    def outcome(url: str) -> HTTPResponse:
        raise error

    return outcome


def http_error(code: int) -> HTTPError:
    return HTTPError(URL, code, "words", {}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (http_error(403), SignatureError),
        (http_error(404), SignatureError),
        # A redirect is not followed: the answer is the redirect.
        (http_error(302), SignatureError),
        (http_error(429), SigningCertificateError),
        (http_error(503), SigningCertificateError),
        (URLError("no route"), SigningCertificateError),
        (TimeoutError(), SigningCertificateError),
    ],
)
def test_an_outage_is_temporary_and_an_absent_certificate_permanent(
    answer: Answer, error: Exception, expected: type[Exception]
) -> None:
    answer.outcome = failing(error)
    with pytest.raises(expected) as caught:
        fetch_certificate(URL)
    assert type(caught.value) is expected


def test_a_certificate_of_a_queue_that_cannot_be_fetched_is_tried_again(
    key: Any, clock: SteppableClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fetch(url: str) -> bytes:
        attempts.append(url)
        if len(attempts) == 1:
            raise SigningCertificateError("no answer")
        return certificate_of(key)

    attempts: list[str] = []
    seen: list[Any] = []
    env = SQSEnv(MemorySession(clock=clock), codec="json")
    create_standard_queue(env, "events")
    envelope = SNSEnvelope(topics=[TOPIC], verify=SignatureCheck(fetch=fetch, clock=clock))
    queue = env.queue("events", envelope=envelope, failure_policy=Discard())
    queue.events().on()(seen.append)
    queue.send_message(OutgoingMessage(json.dumps(sign(body_of("SNS delivers text"), key))))
    forged = {**sign(body_of("SNS delivers text"), key), "Message": "forged"}
    assert queue.process_batch().failed_count() == 1
    clock.advance(60)
    queue.send_message(OutgoingMessage(json.dumps(forged)))
    result = queue.process_batch()
    assert (result.succeeded_count(), result.failed_count()) == (1, 1)
    assert [event.data for event in seen] == ["This is a test message."]


@pytest.mark.asyncio
async def test_an_async_processor_waits_for_the_certificate_beside_the_loop(
    key: Any, clock: SteppableClock
) -> None:
    threads: list[str] = []

    def fetch(url: str) -> bytes:
        threads.append(threading.current_thread().name)
        return certificate_of(key)

    env = SQSEnv(MemorySession(clock=clock), codec="json")
    envelope = SNSEnvelope(topics=[TOPIC], verify=SignatureCheck(fetch=fetch, clock=clock))
    queue = env.queue("events", envelope=envelope)
    seen: list[Any] = []

    @queue.events().on()
    async def take(event: Any) -> None:
        seen.append(event)

    await queue.handler.arun(message_of(sign(body_of("SNS delivers text"), key)))
    assert len(seen) == 1
    assert threads != [threading.current_thread().name]
