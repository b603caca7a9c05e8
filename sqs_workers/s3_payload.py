"""Bodies that SQS does not take, kept in S3: the message carries a pointer.

::

    reports = sqs.queue("reports", payload=S3Payload("my-bucket"))

The format is that of Amazon's extended client libraries (``amazon-sqs-extended-client`` for Python and Java), so
that either side may be theirs. https://github.com/awslabs/amazon-sqs-python-extended-client-lib
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

from sqs_workers.exceptions import (
    ConfigurationError,
    MessageTooLargeError,
    PermanentError,
    SendError,
    UndecodableMessageError,
)
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import Message, OutgoingMessage, string_attribute
from sqs_workers.transport.errors import ErrorKind, classify, error_code

__all__ = ["COMPRESSION", "POINTER_CLASS", "RESERVED_ATTRIBUTE", "S3Payload", "is_marked", "read_pointer"]

logger = logging.getLogger(__name__)

RESERVED_ATTRIBUTE = "ExtendedPayloadSize"
"""Message attribute that marks a pointer; its value is the size of the body in bytes."""

LEGACY_RESERVED_ATTRIBUTE = "SQSLargePayloadSize"
POINTER_CLASS = "software.amazon.payloadoffloading.PayloadS3Pointer"
_POINTER_CLASSES = (POINTER_CLASS, "com.amazon.sqs.javamessaging.MessageS3Pointer")

COMPRESSION = "PayloadCompression"
"""Message attribute that names the compression of the object; absent if there is none."""

_MARKS = frozenset({RESERVED_ATTRIBUTE, LEGACY_RESERVED_ATTRIBUTE, COMPRESSION})
_GONE = frozenset({"NoSuchKey", "NoSuchBucket", "404", "NotFound"})

DEFAULT_THRESHOLD = 262_144
DEFAULT_MAX_BYTES = 64 * 1024 * 1024


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_marked(message: Message) -> bool:
    """Whether a message says that its body is a pointer."""
    attributes = message.message_attributes
    return RESERVED_ATTRIBUTE in attributes or LEGACY_RESERVED_ATTRIBUTE in attributes


def read_pointer(message_id: str, body: str) -> tuple[str, str]:
    """Bucket and key in the body of a message that is marked.

    :raises UndecodableMessageError: the body is no pointer.
    """
    try:
        kind, pointer = json.loads(body)
        bucket, key = pointer["s3BucketName"], pointer["s3Key"]
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = bucket = key = None
    if kind not in _POINTER_CLASSES or not all(isinstance(part, str) and part for part in (bucket, key)):
        raise UndecodableMessageError(
            f"message {message_id} has the attribute {RESERVED_ATTRIBUTE} and a body that is no pointer to S3"
        )
    return bucket, key


class S3Payload:
    """Stores large bodies of a queue in a bucket.

    The object is written before the message is sent, and read when the job is run. A message that is sent and
    then lost, or that is moved to a dead-letter queue, leaves its object behind: give the bucket a lifecycle
    rule that is longer than the retention of the queue and of its dead-letter queue together.

    :param bucket: name of the bucket.
    :param threshold: bytes of body and attributes above which a body is stored; 262,144 by default, at most
        1,048,576, the limit of SQS.
    :param prefix: put before the key of every object.
    :param delete: ``after_ack``: the worker deletes the object once SQS has taken the acknowledgement. Not if
        several queues get the same pointer. ``never``: a lifecycle rule of the bucket does.
    :param client: use this boto3 client of S3; by default one is made at first use.
    :param allowed_buckets: buckets besides ``bucket`` that pointers may name. A pointer is whatever the sender
        wrote: others are refused, and nothing is fetched.
    :param max_bytes: bytes of a body that are stored or read, at most, after decompression, too; 64 MiB by
        default.
    :param compression: ``zlib``, or ``None`` for none. Extended clients cannot read what is compressed. What
        is read may be compressed or not, whatever is set here.
    :raises ConfigurationError: a value that cannot work.
    """

    def __init__(
        self,
        bucket: str,
        threshold: int = DEFAULT_THRESHOLD,
        *,
        prefix: str = "",
        delete: Literal["after_ack", "never"] = "after_ack",
        client: Any = None,
        allowed_buckets: Iterable[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        compression: Literal["zlib"] | None = None,
    ) -> None:
        name: Any = bucket
        if not isinstance(name, str) or not name:
            raise ConfigurationError("S3Payload needs the name of a bucket")
        if not _is_whole(threshold) or not 0 <= threshold <= MAX_MESSAGE_BYTES:
            raise ConfigurationError(f"threshold must be 0 to {MAX_MESSAGE_BYTES} bytes, not {threshold!r}")
        if delete not in ("after_ack", "never"):
            raise ConfigurationError(f"delete must be 'after_ack' or 'never', not {delete!r}")
        if compression not in (None, "zlib"):
            raise ConfigurationError(f"compression must be 'zlib' or None, not {compression!r}")
        if not _is_whole(max_bytes) or max_bytes < 1:
            raise ConfigurationError(f"max_bytes must be 1 or more, not {max_bytes!r}")
        self.bucket = bucket
        self.threshold = threshold
        self.prefix = prefix
        self.delete = delete
        self.max_bytes = max_bytes
        self.compression = compression
        self.buckets = frozenset(
            [bucket, *([allowed_buckets] if isinstance(allowed_buckets, str) else allowed_buckets)]
        )
        self._given_client = client
        self._client: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"S3Payload({self.bucket!r}, {self.threshold})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def client(self) -> Any:
        """The boto3 client of S3; a new one after a fork."""
        if self._given_client is not None:
            return self._given_client
        known = self._client
        if known is None or known[0] != os.getpid():
            import boto3

            with self._lock:
                known = self._client
                if known is None or known[0] != os.getpid():
                    known = self._client = os.getpid(), boto3.client("s3")
        return known[1]

    # Sending

    def is_large(self, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether body and attributes together are above the threshold."""
        return OutgoingMessage(body, attributes).size > self.threshold

    def store(
        self, body: str, attributes: Mapping[str, Mapping[str, Any]], where: str
    ) -> tuple[str, dict[str, Mapping[str, Any]]]:
        """Store a body; returns the body and the attributes of the message that points to it.

        :param where: what the message is, for errors.
        :raises MessageTooLargeError: the body is above ``max_bytes``.
        :raises SendError: S3 did not take it.
        """
        data = body.encode("utf-8", "surrogatepass")
        if len(data) > self.max_bytes:
            raise MessageTooLargeError(
                f"the body of {where} has {len(data)} bytes, and S3Payload stores {self.max_bytes} at most: "
                "raise max_bytes= for senders and workers",
                size=len(data),
                limit=self.max_bytes,
            )
        marks: dict[str, Mapping[str, Any]] = {
            RESERVED_ATTRIBUTE: {"DataType": "Number", "StringValue": str(len(data))}
        }
        if self.compression is not None:
            data = zlib.compress(data)
            marks[COMPRESSION] = string_attribute(self.compression)
        key = f"{self.prefix}{uuid.uuid4()}"
        try:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        except Exception as error:
            raise SendError(
                f"the body of {where} could not be stored in bucket {self.bucket!r}: {error_code(error)}"
            ) from error
        return json.dumps([POINTER_CLASS, {"s3BucketName": self.bucket, "s3Key": key}]), {
            **attributes,
            **marks,
        }

    # Receiving

    def is_pointer(self, message: Message) -> bool:
        """Whether a message says that its body is a pointer."""
        return is_marked(message)

    def load(self, message: Message) -> Message:
        """The message as its sender wrote it: the body from S3, the marks of the pointer taken off.

        :raises UndecodableMessageError: the pointer, or the object, cannot be read.
        :raises PermanentError: the bucket is not allowed, or the object does not exist or is too large.
        """
        bucket, key = read_pointer(message.message_id, message.body)
        if bucket not in self.buckets:
            raise PermanentError(
                f"message {message.message_id} points to bucket {bucket[:80]!r}, which is not allowed here: "
                "nothing was fetched. If it is meant, name it in allowed_buckets= of S3Payload"
            )
        body = self._decode(message, self._fetch(message, bucket, key))
        loaded = Message(
            message.message_id,
            message.receipt_handle,
            body,
            message.attributes,
            {name: value for name, value in message.message_attributes.items() if name not in _MARKS},
            md5_of_body=message.md5_of_body,
            queue_url=message.queue_url,
            received_at=message.received_at,
            control=message.control,
        )
        loaded.lease = message.lease
        if self.delete == "after_ack":
            message.after_delete = partial(self._remove, bucket, key, message.message_id)
        return loaded

    def _fetch(self, message: Message, bucket: str, key: str) -> bytes:
        try:
            answer = self.client.get_object(Bucket=bucket, Key=key)
        except Exception as error:
            if error_code(error) in _GONE or classify(error) is ErrorKind.MISSING:
                raise PermanentError(
                    f"the body of message {message.message_id} is gone: there is no object {key!r} in bucket "
                    f"{bucket!r} ({error_code(error)}). It was deleted, or a lifecycle rule is too short"
                ) from error
            raise
        stream = answer["Body"]
        try:
            if answer.get("ContentLength", 0) > self.max_bytes:
                raise self._too_large(message)
            # What was said of the size may be wrong: no more is read than is allowed.
            data: bytes = stream.read(self.max_bytes + 1)
        finally:
            stream.close()
        if len(data) > self.max_bytes:
            raise self._too_large(message)
        return data

    def _decode(self, message: Message, data: bytes) -> str:
        compression = message.string_attribute(COMPRESSION)
        if compression not in (None, "zlib"):
            raise UndecodableMessageError(
                f"the body of message {message.message_id} is compressed by {compression!r:.40}: known is zlib"
            )
        try:
            if compression is not None:
                inflater = zlib.decompressobj()
                data = inflater.decompress(data, self.max_bytes + 1)
                if len(data) > self.max_bytes:
                    raise self._too_large(message)
                if not inflater.eof:
                    raise UndecodableMessageError(
                        f"the body of message {message.message_id} in S3 ends too early"
                    )
            return data.decode("utf-8", "surrogatepass")
        except (zlib.error, UnicodeDecodeError) as error:
            raise UndecodableMessageError(
                f"the body of message {message.message_id} in S3 cannot be read: {type(error).__name__}"
            ) from None

    def _too_large(self, message: Message) -> PermanentError:
        return PermanentError(
            f"the body of message {message.message_id} in S3 has more than {self.max_bytes} bytes: raise "
            "max_bytes= of S3Payload if that is meant"
        )

    def _remove(self, bucket: str, key: str, message_id: str) -> None:
        try:
            self.client.delete_object(Bucket=bucket, Key=key)
        except Exception as error:  # noqa: BLE001 - the job is done; what is left over costs storage alone
            logger.warning(
                "The body of message %s was not deleted from bucket %s (%s): a lifecycle rule has to",
                message_id,
                bucket,
                error_code(error),
                extra={"message_id": message_id},
            )
