"""Signature Version 4 of the requests that the lean transport sends.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html

All that two requests of one operation have in common is worked out once, in a :class:`Template`; the signing
key, which only changes with the day and the credentials, is kept by the :class:`Signer`.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

__all__ = ["Credentials", "Signer", "Template", "canonical_query", "timestamp"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_DATE = "x-amz-date"
_TOKEN = "x-amz-security-token"  # noqa: S105 - the name of a header


class Credentials(Protocol):
    """What botocore's frozen credentials look like."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Template:
    """The constant parts of the canonical request of one operation, around date, token and body."""

    before_date: str
    after_date: str
    after_token: str
    signed_names: str
    signed_names_with_token: str

    @classmethod
    def build(
        cls, headers: Iterable[tuple[str, str]], *, method: str = "POST", path: str = "/", query: str = ""
    ) -> Template:
        """Prepare requests with these headers.

        :param headers: every header to be signed, but for ``X-Amz-Date`` and ``X-Amz-Security-Token``.
        :param path: path of the URL, dot segments removed, not yet percent-encoded for the signature.
        :param query: canonical query string (see :func:`canonical_query`).
        """
        canonical = sorted((name.lower(), " ".join(value.split())) for name, value in headers)
        names = [name for name, _ in canonical]

        def lines(first: str, last: str) -> str:
            return "".join(f"{name}:{value}\n" for name, value in canonical if first < name < last)

        return cls(
            before_date=f"{method}\n{quote(path, safe='/~')}\n{query}\n{lines('', _DATE)}{_DATE}:",
            after_date=f"\n{lines(_DATE, _TOKEN)}",
            after_token=lines(_TOKEN, "\x7f") + "\n",
            signed_names=";".join(sorted([*names, _DATE])),
            signed_names_with_token=";".join(sorted([*names, _DATE, _TOKEN])),
        )


# No repr: it would show the secret.
@dataclass(frozen=True, slots=True, repr=False)
class _Key:
    """A signing key and what depends on the same day and credentials."""

    access_key: str
    secret_key: str
    token: str | None
    day: str
    key: bytes
    scope: str
    canonical_token: str
    credential: str


class Signer:
    """Signs requests for one service in one region.

    Safe to share between threads: the only state is the latest key, replaced as a whole.
    """

    def __init__(self, region: str, service: str) -> None:
        self._region = region
        self._service = service
        self._key: _Key | None = None

    def authorization(self, template: Template, credentials: Credentials, when: str, body: bytes) -> str:
        """Value of the header ``Authorization``.

        :param when: value of the header ``X-Amz-Date`` (see :func:`timestamp`).
        """
        key = self._key
        if (
            key is None
            or when[:8] != key.day
            or credentials.secret_key != key.secret_key
            or credentials.access_key != key.access_key
            or credentials.token != key.token
        ):
            key = self._key = self._derive(credentials, when[:8])
        names = template.signed_names_with_token if key.token else template.signed_names
        canonical = (
            f"{template.before_date}{when}{template.after_date}{key.canonical_token}"
            f"{template.after_token}{names}\n{sha256(body).hexdigest()}"
        )
        digest = sha256(canonical.encode()).hexdigest()
        to_sign = f"{_ALGORITHM}\n{when}\n{key.scope}\n{digest}"
        signature = hmac.digest(key.key, to_sign.encode(), "sha256").hex()
        return f"{key.credential}, SignedHeaders={names}, Signature={signature}"

    def _derive(self, credentials: Credentials, day: str) -> _Key:
        token = credentials.token
        for value in (credentials.access_key, token or ""):
            if "\n" in value or "\r" in value:
                raise ValueError("the AWS access key or session token contains a line break")
        key = f"AWS4{credentials.secret_key}".encode()
        for part in (day, self._region, self._service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        scope = f"{day}/{self._region}/{self._service}/aws4_request"
        return _Key(
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            token=token,
            day=day,
            key=key,
            scope=scope,
            canonical_token=f"{_TOKEN}:{' '.join(token.split())}\n" if token else "",
            credential=f"{_ALGORITHM} Credential={credentials.access_key}/{scope}",
        )


def canonical_query(query: str) -> str:
    """The canonical form of a query string that is percent-encoded already."""
    pairs = sorted(pair.partition("=")[::2] for pair in query.split("&")) if query else []
    return "&".join(f"{name}={value}" for name, value in pairs)


def timestamp(seconds: float) -> str:
    """A Unix time, in seconds, as the header ``X-Amz-Date`` has it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
