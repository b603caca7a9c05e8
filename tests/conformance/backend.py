"""One view of SQS for every conformance case, whichever backend answers."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import pytest
from botocore.exceptions import ClientError

from sqs_workers.clock import ManualClock

__all__ = ["Background", "Sqs"]

T = TypeVar("T")

LONGEST_REAL_WAIT = 2.0
PATIENCE_SECONDS = 5.0
_numbers = itertools.count(1)


class Background(Generic[T]):
    """A call that runs in its own thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._error: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="conformance-background", daemon=False)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._call())
        except Exception as error:
            self._error.append(error)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self, timeout: float = PATIENCE_SECONDS) -> T:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"the call did not return within {timeout} seconds"
        if self._error:
            raise self._error[0]
        return self._value[0]


class Sqs:
    """A client of one backend, with the calls that most cases need and a way to let time pass."""

    def __init__(self, backend: str, client: Any, clock: ManualClock | None) -> None:
        self.backend = backend
        self.client = client
        self.clock = clock
        self._background: list[Background[Any]] = []

    # Time

    def elapse(self, seconds: float) -> None:
        """Let ``seconds`` pass: at once on the memory backend, really on the wire."""
        if self.clock is not None:
            self.clock.advance(seconds)
            return
        assert seconds <= LONGEST_REAL_WAIT, "a case that needs more time must be marked memory_only"
        threading.Event().wait(seconds)

    def propagate(self, seconds: float = 60) -> None:
        """Let pass what AWS may take to carry a change out, and emulators do at once."""
        if self.clock is not None:
            self.clock.advance(seconds)

    def eventually(self, call: Callable[[], T]) -> T:
        """What ``call`` returns as soon as that is true; on the wire asked again for a few seconds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pause = threading.Event()
        while not (value := call()) and self.clock is None and time.monotonic() < deadline:
            pause.wait(0.05)
        return value

    def in_background(self, call: Callable[[], T]) -> Background[T]:
        """Start ``call``, which is to wait inside of SQS, in a thread of its own."""
        background = Background(call)
        self._background.append(background)
        if self.clock is not None:
            self.clock.wait_for_waiters(1)
        else:
            threading.Event().wait(0.3)
        return background

    def close(self) -> None:
        """Let every call in the background end."""
        for background in self._background:
            if background.running and self.clock is not None:
                self.clock.advance(20)
            background.result(25)

    # Queues

    def name(self, suffix: str = "") -> str:
        """A queue name that no other case uses."""
        return f"case-{os.getpid()}-{uuid.uuid4().hex[:12]}-{next(_numbers)}{suffix}"

    def queue(self, **attributes: str) -> str:
        """The URL of a new standard queue."""
        return self.client.create_queue(QueueName=self.name(), Attributes=attributes)["QueueUrl"]  # type: ignore[no-any-return]

    def fifo(self, *, by_content: bool = False, **attributes: str) -> str:
        """The URL of a new FIFO queue."""
        attributes["FifoQueue"] = "true"
        if by_content:
            attributes["ContentBasedDeduplication"] = "true"
        return self.client.create_queue(QueueName=self.name(".fifo"), Attributes=attributes)["QueueUrl"]  # type: ignore[no-any-return]

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"])
        return answer.get("Attributes", {})  # type: ignore[no-any-return]

    def arn(self, url: str) -> str:
        return self.attributes(url, "QueueArn")["QueueArn"]

    def counts(self, url: str) -> tuple[int, int, int]:
        """Messages that are available, in flight, delayed."""
        names = ("", "NotVisible", "Delayed")
        found = self.attributes(url, *(f"ApproximateNumberOfMessages{name}" for name in names))
        return tuple(int(found[f"ApproximateNumberOfMessages{name}"]) for name in names)  # type: ignore[return-value]

    # Messages

    def send(self, url: str, body: str = "body", **options: Any) -> dict[str, Any]:
        return self.client.send_message(QueueUrl=url, MessageBody=body, **options)  # type: ignore[no-any-return]

    def send_in_group(self, url: str, *bodies: str, group: str = "group") -> None:
        for body in bodies:
            self.send(url, body, MessageGroupId=group, MessageDeduplicationId=uuid.uuid4().hex)

    def receive(self, url: str, **options: Any) -> list[dict[str, Any]]:
        """The messages of one receive; up to ten unless told otherwise."""
        options.setdefault("MaxNumberOfMessages", 10)
        return self.client.receive_message(QueueUrl=url, **options).get("Messages", [])  # type: ignore[no-any-return]

    def receive_one(self, url: str, **options: Any) -> dict[str, Any]:
        """The one message that is there."""
        options.setdefault("MessageSystemAttributeNames", ["All"])
        options.setdefault("MessageAttributeNames", ["All"])
        messages = self.receive(url, **options)
        assert len(messages) == 1, f"{len(messages)} messages instead of one"
        return messages[0]

    def receive_again(self, url: str, **options: Any) -> dict[str, Any]:
        """The one message that comes as soon as it is visible."""
        options.setdefault("MessageSystemAttributeNames", ["All"])
        messages = self.eventually(lambda: self.receive(url, **options))
        assert len(messages) == 1, f"{len(messages)} messages instead of one"
        return messages[0]

    def bodies(self, url: str, **options: Any) -> list[str]:
        return [message["Body"] for message in self.receive(url, **options)]

    def delete(self, url: str, message: dict[str, Any]) -> None:
        self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def hide(self, url: str, message: dict[str, Any], seconds: int) -> None:
        self.client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )

    # Errors

    @contextlib.contextmanager
    def refused(self, *codes: str, modeled: str = "") -> Iterator[pytest.ExceptionInfo[ClientError]]:
        """The call inside must be refused with one of these error codes, as that exception of the client."""
        expected = getattr(self.client.exceptions, modeled) if modeled else ClientError
        with pytest.raises(ClientError) as caught:
            yield caught
        code = caught.value.response["Error"]["Code"]
        assert code in codes, f"refused with {code!r} instead of {' or '.join(codes)!r}: {caught.value}"
        assert isinstance(caught.value, expected), f"{type(caught.value)!r} instead of {modeled}"
