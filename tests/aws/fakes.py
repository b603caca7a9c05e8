"""Clients of SNS, EventBridge and S3 that take, refuse or raise as a test says, and keep what they took."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Bus", "Sns", "Store", "api_error"]


def api_error(code: str, status: int = 400) -> Exception:
    from botocore.exceptions import ClientError

    answer: Any = {
        "Error": {"Code": code, "Message": "words"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "Publish")


class _Scripted:
    """``refuse``: the errors of the next calls: a code for each entry (``None``: taken), or an exception."""

    def __init__(self) -> None:
        self.calls: list[list[dict[str, Any]]] = []
        self.taken: list[dict[str, Any]] = []
        self.refuse: list[Sequence[str | None] | Exception] = []
        self._ids = itertools.count()

    def _take(self, entries: list[dict[str, Any]]) -> list[str | None]:
        self.calls.append(entries)
        script = self.refuse.pop(0) if self.refuse else [None] * len(entries)
        if isinstance(script, Exception):
            raise script
        self.taken += [entry for entry, code in zip(entries, script, strict=True) if code is None]
        return list(script)

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"


class Sns(_Scripted):
    """The part of SNS's client that is used."""

    faults: Callable[[str], bool] = staticmethod(lambda code: not code.startswith("Internal"))

    def publish_batch(self, *, TopicArn: str, PublishBatchRequestEntries: list[dict[str, Any]]) -> Any:
        self.topic = TopicArn
        codes = self._take(PublishBatchRequestEntries)
        pairs = list(zip(PublishBatchRequestEntries, codes, strict=True))
        return {
            "Successful": [{"Id": e["Id"], "MessageId": self.new_id()} for e, code in pairs if code is None],
            "Failed": [
                {"Id": e["Id"], "Code": code, "Message": "words", "SenderFault": self.faults(code)}
                for e, code in pairs
                if code is not None
            ],
        }

    @property
    def documents(self) -> list[Any]:
        return [json.loads(entry["Message"]) for entry in self.taken]


class Bus(_Scripted):
    """The part of EventBridge's client that is used."""

    def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:
        codes = self._take(Entries)
        return {
            "FailedEntryCount": sum(code is not None for code in codes),
            "Entries": [
                {"EventId": self.new_id()} if code is None else {"ErrorCode": code, "ErrorMessage": "words"}
                for code in codes
            ],
        }

    @property
    def documents(self) -> list[Any]:
        return [json.loads(entry["Detail"]) for entry in self.taken]


class Store:
    """The part of S3's client that is used."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.asked: list[tuple[str, str]] = []

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:
        self.objects[Bucket, Key] = Body

    def get_object(self, *, Bucket: str, Key: str) -> Any:
        self.asked.append((Bucket, Key))
        try:
            return {"Body": io.BytesIO(self.objects[Bucket, Key])}
        except KeyError:
            raise api_error("NoSuchKey", 404) from None

    def delete_object(self, *, Bucket: str, Key: str) -> None:
        self.objects.pop((Bucket, Key), None)
