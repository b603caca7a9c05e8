"""What the field tests share: places with faults and a clock, workers in threads, watched events."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from sqs_workers import MemorySession, SQSEnv
from sqs_workers.clock import SteppableClock
from sqs_workers.hooks import Event
from sqs_workers.local import FaultPlan, LocalServer
from sqs_workers.local.faulty import failed_entries, refusal
from sqs_workers.local.rules import FaultRule
from sqs_workers.memory_sqs.contract import operation_names
from sqs_workers.memory_sqs.resource import make_resource
from tests.servers import boto_session
from tests.worker.kit import PATIENCE, FaultyTransport, Running
from tests.worlds import World, by_transport

__all__ = ["PATIENCE", "Gate", "Place", "Running", "Watch", "client_error", "running", "until"]


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Ask again and again until ``condition()`` is true; the test has failed if that takes too long."""
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        pause.wait(0.01)
    return answer


def client_error(rule: FaultRule) -> Exception:
    refused = refusal(rule)
    if refused is None:
        return ConnectionClosedError(endpoint_url="memory://sqs")
    answer: Any = {
        "Error": {"Code": refused.code, "Message": refused.message},
        "ResponseMetadata": {"HTTPStatusCode": refused.status},
    }
    return ClientError(answer, "SQS")


class FaultyClient:
    """A client in memory whose calls go wrong as a plan says."""

    def __init__(self, inner: Any, plan: FaultPlan, requests: Counter[str]) -> None:
        self._inner = inner
        self._plan = plan
        self._requests = requests
        self.meta = inner.meta
        self.exceptions = inner.exceptions

    def __getattr__(self, name: str) -> Any:
        method, operation = getattr(self._inner, name), operation_names().get(name)
        if operation is None:
            return method

        def call(**params: Any) -> Any:
            self._requests[operation] += 1
            queue = params.get("QueueUrl", params.get("QueueName", "")).rsplit("/", 1)[-1]
            rule = self._plan.decide(operation, queue)
            if rule is None:
                return method(**params)
            if rule.kind in ("lost", "malformed", "half"):
                method(**params)
            if rule.kind != "partial":
                raise client_error(rule)
            params, failed = failed_entries(params, rule)
            answer = method(**params) if params["Entries"] else {"Successful": []}
            return {**answer, "Failed": [*answer.get("Failed", ()), *failed]}

        return call


class FaultySession(MemorySession):
    """A session in memory whose clients go wrong as a plan says."""

    def __init__(self, clock: SteppableClock) -> None:
        super().__init__(clock=clock)
        self.faults = FaultPlan()
        self.requests: Counter[str] = Counter()

    def client(self, service_name: str, **kwargs: Any) -> Any:
        return FaultyClient(super().client(service_name, **kwargs), self.faults, self.requests)

    def resource(self, service_name: str, **kwargs: Any) -> Any:
        return make_resource(super().client(service_name, **kwargs))


@dataclass
class Place(World):
    """Where a failure is tried out: in memory, at the local endpoint, or at an emulator that others wrote.

    :ivar faults: what goes wrong with calls, in memory and at the local endpoint alike.
    :ivar requests: calls so far, by operation.
    """

    kind: str = "memory"
    faults: Any = None
    requests: Any = None
    endpoint: str = ""

    def env(self, **options: Any) -> Any:
        """An environment whose transport counts and records its calls."""
        if self.clock is not None:
            options.setdefault("clock", self.clock)
        # boto3's own retries wait in real time; most tests are about what comes after them.
        env = super().env(**{"retry_max_attempts": 0, **options})
        env.transport = FaultyTransport(env.transport)
        return env

    def advance(self, seconds: float) -> None:
        assert self.clock is not None
        self.clock.advance(seconds)

    def advance_until(self, condition: Callable[[], Any], step: float, what: str = "the condition") -> None:
        """Move the clock on by ``step`` seconds again and again until ``condition()`` is true."""

        def after_a_step() -> Any:
            self.advance(step)
            return condition()

        until(after_a_step, what)


@contextmanager
def open_place(kind: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    """``memory``, ``local`` or ``ministack``, behind ``lean:`` or not."""
    clock = SteppableClock()
    transport, kind = by_transport(kind)
    if kind == "memory":
        session = FaultySession(clock)
        yield Place(session, clock, kind=kind, faults=session.faults, requests=session.requests)
    elif kind == "local":
        with LocalServer(MemorySession(clock=clock)) as server:
            yield Place(
                boto_session(server.url),
                clock,
                transport,
                kind=kind,
                faults=server.faults,
                requests=server.requests,
                endpoint=server.url,
            )
    else:
        url = request.getfixturevalue(f"{kind}_endpoint")
        yield Place(boto_session(url), None, transport, kind=kind, endpoint=url)


class Watch:
    """All events of an environment's workers, to be waited for."""

    def __init__(self, env: SQSEnv) -> None:
        self.events: list[Event] = []
        self.seen = threading.Condition()
        env.hooks.add(Event, self._saw)

    def _saw(self, event: Event) -> None:
        with self.seen:
            self.events.append(event)
            self.seen.notify_all()

    def of(self, event_type: type[Event]) -> list[Any]:
        with self.seen:
            return [event for event in self.events if isinstance(event, event_type)]

    def wait_for(self, event_type: type[Event], count: int = 1) -> list[Any]:
        with self.seen:
            came = self.seen.wait_for(lambda: len(self.of(event_type)) >= count, PATIENCE)
            assert came, f"{len(self.of(event_type))} of {count} {event_type.__name__}: {self.events}"
            return self.of(event_type)


class Gate:
    """Holds handlers up until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.arrived = threading.Semaphore(0)

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self.arrived.release()
        assert self._open.wait(PATIENCE)

    def wait_for_arrival(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.arrived.acquire(timeout=PATIENCE), "no handler arrived"


@contextmanager
def running(env: SQSEnv, *queues: str, **options: Any) -> Iterator[Running]:
    """A worker of ``env`` in a thread; stopped at the end, if it has not stopped before."""
    options.setdefault("wait_second", 1)
    work = Running(env.worker(list(queues), handle_signals=False, **options))
    work.thread.start()
    try:
        yield work
    finally:
        work.worker.stop("end of test")
        if isinstance(env.clock, SteppableClock):
            # The long poll under way need not take its second.
            env.clock.advance(options["wait_second"])
        work.thread.join(PATIENCE)
        assert not work.thread.is_alive(), "the worker did not return"
