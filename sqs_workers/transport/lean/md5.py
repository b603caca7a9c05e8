"""The MD5 digests with which SQS states what it took and what it hands out.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
("Calculating the MD5 message digest for message attributes")
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

__all__ = ["MD5_AVAILABLE", "md5_of_attributes", "md5_of_body"]

_CACHED_LENGTH = 256
"""Characters up to which the encoded form of an attribute is remembered: names of jobs and codecs repeat."""


def _available() -> bool:
    try:
        hashlib.md5(usedforsecurity=False)
    except ValueError:
        return False
    return True


MD5_AVAILABLE = _available()
"""Whether this Python can compute MD5 at all; some FIPS builds cannot, and then nothing is compared."""


def md5_of_body(body: str) -> str:
    """Digest of a message body."""
    return hashlib.md5(body.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """Digest of message attributes in boto3's shape."""
    parts = []
    for name in sorted(attributes):
        attribute = attributes[name]
        data_type = attribute["DataType"]
        text = attribute.get("StringValue")
        if text is None:
            parts.append(_head(name, data_type) + b"\x02" + _field(bytes(attribute["BinaryValue"])))
        elif len(text) <= _CACHED_LENGTH:
            parts.append(_remembered(name, data_type, text))
        else:
            parts.append(_string(name, data_type, text))
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()


def _field(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _head(name: str, data_type: str) -> bytes:
    return _field(name.encode("utf-8", "surrogatepass")) + _field(data_type.encode("utf-8", "surrogatepass"))


def _string(name: str, data_type: str, text: str) -> bytes:
    return _head(name, data_type) + b"\x01" + _field(text.encode("utf-8", "surrogatepass"))


_remembered = lru_cache(maxsize=1024)(_string)
