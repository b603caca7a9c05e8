"""SNS's signature, checked with a certificate that comes from an AWS host and from nowhere else.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlsplit

from sqs_workers.clock import SYSTEM_CLOCK, Clock
from sqs_workers.exceptions import MissingExtraError, SignatureError, SigningCertificateError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "cryptography":
        raise
    raise MissingExtraError(
        "checking signatures of SNS needs cryptography, which is not installed: "
        "pip install 'sqs-workers[sns]'"
    ) from None

__all__ = ["SignatureCheck", "certificate_url", "fetch_certificate"]

_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z0-9]+){1,4}")
_PATH = re.compile(r"/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem")
_MEMBERS = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_HASHES: Mapping[str, Callable[[], hashes.HashAlgorithm]] = {"1": hashes.SHA1, "2": hashes.SHA256}

MAX_CERTIFICATE_BYTES = 65_536
FETCH_SECONDS = 5.0
CACHED_CERTIFICATES = 32


class SignatureCheck:
    """Checks signatures; keeps certificates until they expire. Safe to share between threads.

    :param versions: of the signature: ``2`` is SHA-256, ``1`` is SHA-1, which topics use unless their
        attribute ``SignatureVersion`` says 2.
    :param fetch: answers with the PEM text at a URL that was found to be SNS's own.
    :param clock: says whether a certificate is valid.
    """

    def __init__(
        self,
        *,
        versions: tuple[str, ...] = ("1", "2"),
        fetch: Callable[[str], bytes] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._versions = versions
        self._fetch = fetch_certificate if fetch is None else fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, x509.Certificate] = OrderedDict()

    def __repr__(self) -> str:
        return f"SignatureCheck(versions={self._versions!r})"

    def check(self, notification: Any, message_id: str) -> None:
        """Check one message.

        :param notification: the :class:`~sqs_workers.envelopes.kinds.SNSNotification`, or ``None``.
        :param message_id: of SQS, for errors.
        :raises SignatureError: wrong, absent, or made with something that is no certificate of SNS; permanent.
        :raises SigningCertificateError: the certificate cannot be fetched now; temporary.
        """
        signed: Mapping[str, str] = getattr(notification, "signed", None) or {}
        version = signed.get("SignatureVersion")
        if version is None or "Signature" not in signed or "SigningCertURL" not in signed:
            raise SignatureError(f"message {message_id} carries no signature of SNS")
        if version not in self._versions or version not in _HASHES:
            raise SignatureError(f"message {message_id} has a signature of a version that is not accepted")
        url = certificate_url(signed["SigningCertURL"], notification.topic_arn, message_id)
        try:
            signature = base64.b64decode(signed["Signature"], validate=True)
        except (binascii.Error, ValueError):
            raise SignatureError(f"the signature of message {message_id} is no base64") from None
        key = self._certificate(url, message_id).public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise SignatureError(f"the certificate of message {message_id} has no RSA key")
        text = "".join(f"{name}\n{signed[name]}\n" for name in _MEMBERS if name in signed)
        try:
            key.verify(
                signature, text.encode("utf-8", "surrogatepass"), padding.PKCS1v15(), _HASHES[version]()
            )
        except InvalidSignature:
            raise SignatureError(
                f"the signature of message {message_id} is wrong: SNS did not send it like this"
            ) from None

    def _certificate(self, url: str, message_id: str) -> x509.Certificate:
        with self._lock:
            certificate = self._cache.get(url)
            if certificate is not None:
                self._cache.move_to_end(url)
        if certificate is None:
            try:
                certificate = x509.load_pem_x509_certificate(self._fetch(url))
            except ValueError:
                raise SignatureError(f"the certificate of message {message_id} cannot be read") from None
            with self._lock:
                self._cache[url] = certificate
                while len(self._cache) > CACHED_CERTIFICATES:
                    self._cache.popitem(last=False)
        now = datetime.fromtimestamp(self._clock.time(), timezone.utc)
        if not _valid_at(certificate, now):
            with self._lock:
                self._cache.pop(url, None)
            raise SignatureError(f"the certificate of message {message_id} is not valid at this time")
        return certificate


def _valid_at(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def certificate_url(url: str, topic_arn: str, message_id: str) -> str:
    """``url``, if it is where SNS serves the certificates of the topic's region; nothing else is fetched.

    :raises SignatureError: another host, port, scheme or path.
    """
    _, partition, _, region, *_ = topic_arn.split(":")
    domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    host = f"sns.{region}.{domain}"
    try:
        parts = urlsplit(url)
        fine = (
            _REGION.fullmatch(region) is not None
            and parts.netloc == host
            and _PATH.fullmatch(parts.path) is not None
            # All of it: urlsplit drops control characters and blanks, which another reader may not.
            and url == f"https://{host}{parts.path}"
        )
    except ValueError:
        fine = False
    if not fine:
        raise SignatureError(
            f"message {message_id} names a certificate that is not at SNS's address in the region of its "
            "topic: nothing was fetched"
        )
    return url


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Follow nothing: whoever could redirect could name the certificate."""


def fetch_certificate(url: str) -> bytes:
    """The text at ``url``, without following redirects.

    :raises SignatureError: there is nothing there.
    :raises SigningCertificateError: no answer within 5 seconds, or an error of the server.
    """
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(url, timeout=FETCH_SECONDS) as answer:
            text: bytes = answer.read(MAX_CERTIFICATE_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500 and error.code != 429:
            raise SignatureError(f"there is no certificate of SNS at {url} ({error.code})") from None
        raise SigningCertificateError(f"the certificate at {url} was answered with {error.code}") from None
    except (OSError, HTTPException) as error:
        raise SigningCertificateError(
            f"the certificate at {url} cannot be fetched: {type(error).__name__}"
        ) from None
    if len(text) > MAX_CERTIFICATE_BYTES:
        raise SignatureError(f"what is at {url} is too large for a certificate")
    return text
