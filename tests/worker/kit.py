"""What the engine's tests share: queues in memory, scripted handlers, faults, workers in threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.clock import SYSTEM_CLOCK, ManualClock
from sqs_workers.hooks import Event, HookRegistry, VisibilityExtended
from sqs_workers.memory_sqs import MemorySession
from sqs_workers.messages import Message
from sqs_workers.outcome import Failed, Outcome, Succeeded
from sqs_workers.transport import Boto3Transport
from sqs_workers.worker import JobPolicies, Source, Worker, WorkerResult

PATIENCE = 10.0
"""Real seconds after which a test that waits has failed."""


def client_error(code: str, status: int = 400, operation: str = "ReceiveMessage") -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation
    )


class Handler:
    """Runs ``function(message)``; what it returns, if an outcome, is the outcome."""

    def __init__(self, function: Callable[[Message], Any] = lambda message: None, **policies: Any) -> None:
        self.function = function
        self.job_policies = JobPolicies(**{"backoff": ConstantBackoff(0), **policies})
        self.lock = threading.Lock()
        self.bodies: list[str] = []
        self.counts: list[int] = []

    def job_name(self, message: Message) -> str:
        return message.string_attribute("JobName") or ""

    def policies(self, message: Message) -> JobPolicies:
        return self.job_policies

    def is_async(self, message: Message) -> bool:
        return False

    def run(self, message: Message) -> Outcome:
        with self.lock:
            self.bodies.append(message.body)
            self.counts.append(message.receive_count)
        try:
            answer = self.function(message)
        except Exception as error:
            return Failed(error)
        return Succeeded() if answer is None else answer

    async def arun(self, message: Message) -> Outcome:
        raise AssertionError("not an async handler")

    def run_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        with self.lock:
            self.bodies.append(",".join(message.body for message in messages))
        answer = self.function(messages)  # type: ignore[arg-type]
        return [Succeeded()] * len(messages) if answer is None else answer


class AsyncHandler(Handler):
    def is_async(self, message: Message) -> bool:
        return True

    async def arun(self, message: Message) -> Outcome:
        with self.lock:
            self.bodies.append(message.body)
        try:
            answer = await self.function(message)
        except Exception as error:
            return Failed(error)
        return Succeeded() if answer is None else answer


class FaultyTransport:
    """A transport whose calls can be counted, scripted to fail, and held up."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        self.before: dict[str, Callable[..., Any]] = {}
        """Method name -> called with its arguments first; what it returns, unless None, is the answer."""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(*args: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
                self.log.append((name, args))
            before = self.before.get(name)
            if before is not None:
                answer = before(*args)
                if answer is not None:
                    return answer
            return method(*args)

        return call


class Bench:
    """One account in memory, with queues, a transport and hooks."""

    def __init__(self, clock: Any = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.session = MemorySession(clock=clock)
        self.client = self.session.client("sqs")
        self.transport = FaultyTransport(Boto3Transport(lambda: self.client, monotonic=clock.monotonic))
        self.hooks = HookRegistry()
        self.events: list[Event] = []
        self.seen = threading.Condition()
        self.hooks.add(Event, self._saw)
        self.urls: dict[str, str] = {}

    def _saw(self, event: Event) -> None:
        with self.seen:
            self.events.append(event)
            self.seen.notify_all()

    def queue(self, name: str = "jobs", **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes.setdefault("FifoQueue", "true")
            attributes.setdefault("ContentBasedDeduplication", "true")
        self.urls[name] = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return self.urls[name]

    def send(self, *bodies: str, queue: str = "jobs", group: str | None = None) -> None:
        for body in bodies:
            extra = {} if group is None else {"MessageGroupId": group}
            self.client.send_message(QueueUrl=self.urls[queue], MessageBody=body, **extra)

    def source(self, handler: Any = None, name: str = "jobs", **options: Any) -> Source:
        options.setdefault("wait_seconds", 1)
        return Source(
            name=name,
            resolve_url=lambda: self.urls[name],
            handler=handler or Handler(),
            resolve_target=lambda target: self.urls[target],
            fifo=name.endswith(".fifo"),
            **options,
        )

    def counts(self, queue: str = "jobs") -> tuple[int, int]:
        """Messages visible, and in flight."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.client.get_queue_attributes(QueueUrl=self.urls[queue], AttributeNames=names)[
            "Attributes"
        ]
        return int(answer[names[0]]), int(answer[names[1]])

    def of(self, event_type: type[Event]) -> list[Any]:
        with self.seen:
            return [event for event in self.events if isinstance(event, event_type)]

    def wait_for(self, event_type: type[Event], count: int = 1) -> list[Any]:
        with self.seen:
            if not self.seen.wait_for(lambda: len(self.of(event_type)) >= count, PATIENCE):
                raise AssertionError(
                    f"{len(self.of(event_type))} of {count} {event_type.__name__}: {self.events}"
                )
            return self.of(event_type)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Until ``condition`` holds; for what no hook tells of."""
        deadline = time.monotonic() + PATIENCE
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline, self.events
            pause.wait(0.01)

    def wait_for_buffered(self, running: Running, count: int) -> None:
        """Until so many messages wait for a slot."""
        self.wait_until(lambda: running.worker.stats().buffered == count)

    def advance_with_beats(self, seconds: float) -> None:
        """Move a manual clock so far that an extension falls due, and wait until it has been made."""
        extended = len(self.of(VisibilityExtended))
        self.clock.advance(seconds)
        for _ in range(int(PATIENCE)):
            with self.seen:
                if self.seen.wait_for(lambda: len(self.of(VisibilityExtended)) > extended, 1.0):
                    return
            # The scheduler read the time just before it moved.
            self.clock.advance(0.1)
        raise AssertionError(f"nothing was extended: {self.events}")

    def worker(self, *sources: Source, **options: Any) -> Worker:
        options.setdefault("clock", self.clock)
        options.setdefault("hooks", self.hooks)
        options.setdefault("handle_signals", False)
        return Worker(sources, self.transport, **options)

    @contextmanager
    def running(self, *sources: Source, **options: Any) -> Iterator[Running]:
        running = Running(self.worker(*sources, **options))
        running.thread.start()
        try:
            yield running
        finally:
            running.stop()


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.result: WorkerResult | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="test-worker")

    def _run(self) -> None:
        try:
            self.result = self.worker.run()
        except BaseException as error:
            self.error = error

    def join(self) -> WorkerResult:
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            raise AssertionError("the worker did not return")
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def stop(self) -> None:
        self.worker.stop("end of test")
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the worker did not return"


class IdleStop:
    """Stops at the first moment at which a worker is idle."""

    def __init__(self) -> None:
        self.idle = False

    def update_state(self, result: Any) -> None:
        self.idle = result.total_count() == 0

    def need_shutdown(self) -> bool:
        return self.idle

    def __repr__(self) -> str:
        return "IdleStop()"


class StopAfter:
    """Stops after a number of jobs."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs

    def update_state(self, result: Any) -> None:
        self.left -= result.total_count()

    def need_shutdown(self) -> bool:
        return self.left <= 0

    def __repr__(self) -> str:
        return "StopAfter()"


def manual() -> Bench:
    return Bench(ManualClock())
