"""The backend against a plain model of what SQS promises."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sqs_workers.clock import ManualClock
from sqs_workers.memory_sqs import MemorySession
from tests.memory.driver import counts, receive

VISIBILITY = 10


class _Model(RuleBasedStateMachine):
    """Every message is waiting, held by one receiver until a known moment, or gone."""

    queue_name = "jobs"
    attributes: ClassVar[dict[str, str]] = {}

    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.client: Any = MemorySession(clock=self.clock).client("sqs")
        self.url = self.client.create_queue(QueueName=self.queue_name, Attributes=self.attributes)["QueueUrl"]
        self.waiting: dict[str, float] = {}
        self.held: dict[str, tuple[str, float]] = {}
        self.group: dict[str, str] = {}
        self.order: list[str] = []
        self.receives: dict[str, int] = defaultdict(int)
        self.sent = 0

    def now(self) -> float:
        return self.clock.monotonic()

    def settle_time(self) -> None:
        for body, (_, until) in list(self.held.items()):
            if until <= self.now():
                del self.held[body]
                self.waiting[body] = 0.0

    @rule(group=st.sampled_from("abc"), delay=st.sampled_from([0, 0, 0, 3]))
    def send(self, group: str, delay: int) -> None:
        body = f"m{self.sent}"
        self.sent += 1
        self.client.send_message(QueueUrl=self.url, MessageBody=body, **self.send_options(body, group, delay))
        self.waiting[body] = self.now() + (delay if self.queue_name == "jobs" else 0)
        self.group[body] = group
        self.order.append(body)

    def send_options(self, body: str, group: str, delay: int) -> dict[str, Any]:
        return {"DelaySeconds": delay}

    @rule(limit=st.integers(1, 10))
    def take(self, limit: int) -> None:
        self.settle_time()
        expected = self.available()
        messages = receive(self.client, self.url, limit, VisibilityTimeout=VISIBILITY)
        taken = [message["Body"] for message in messages]
        assert len(taken) == min(limit, len(expected))
        self.check_choice(taken, expected)
        for message in messages:
            body = message["Body"]
            del self.waiting[body]
            self.held[body] = (message["ReceiptHandle"], self.now() + VISIBILITY)
            self.receives[body] += 1
            assert message["Attributes"]["ApproximateReceiveCount"] == str(self.receives[body])

    def available(self) -> list[str]:
        return [body for body, since in self.waiting.items() if since <= self.now()]

    def check_choice(self, taken: list[str], expected: list[str]) -> None:
        assert set(taken) <= set(expected)
        assert len(set(taken)) == len(taken)

    @rule(seconds=st.sampled_from([1, 3, 9, 10]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        self.settle_time()
        if self.held:
            body = data.draw(st.sampled_from(sorted(self.held)))
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=self.held.pop(body)[0])

    @precondition(lambda self: self.held)
    @rule(data=st.data(), timeout=st.sampled_from([0, 1, 5, 30]))
    def change(self, data: Any, timeout: int) -> None:
        self.settle_time()
        if not self.held:
            return
        body = data.draw(st.sampled_from(sorted(self.held)))
        handle = self.held[body][0]
        self.client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=timeout
        )
        self.held[body] = (handle, self.now() + timeout)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.settle_time()
        delayed = sum(since > self.now() for since in self.waiting.values())
        assert counts(self.client, self.url) == (len(self.waiting) - delayed, len(self.held), delayed)


class _FifoModel(_Model):
    queue_name = "jobs.fifo"
    attributes: ClassVar[dict[str, str]] = {"FifoQueue": "true"}

    def send_options(self, body: str, group: str, delay: int) -> dict[str, Any]:
        return {"MessageGroupId": group, "MessageDeduplicationId": body}

    def available(self) -> list[str]:
        blocked = {self.group[body] for body in self.held}
        return [body for body in self.order if body in self.waiting and self.group[body] not in blocked]

    def check_choice(self, taken: list[str], expected: list[str]) -> None:
        for group in "abc":
            of_group = [body for body in taken if self.group[body] == group]
            assert of_group == [body for body in expected if self.group[body] == group][: len(of_group)]


_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)


class TestStandardQueue(_Model.TestCase):  # type: ignore[name-defined, misc]
    settings = _SETTINGS


class TestFifoQueue(_FifoModel.TestCase):  # type: ignore[name-defined, misc]
    settings = _SETTINGS


def test_threads_receive_every_message_once_while_visibility_holds() -> None:
    session = MemorySession()
    client: Any = session.client("sqs")
    url = client.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "600"})["QueueUrl"]
    seen: list[str] = []
    total, senders = 1_200, 3
    everything = threading.Event()

    def send(start: int) -> None:
        for n in range(start, total, senders):
            client.send_message(QueueUrl=url, MessageBody=str(n))

    def work() -> None:
        while not everything.is_set():
            for message in receive(client, url, WaitTimeSeconds=1):
                seen.append(message["Body"])
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if len(seen) >= total:
                everything.set()

    threads = [threading.Thread(target=send, args=(n,)) for n in range(senders)]
    threads += [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert everything.wait(30)
    session.clock.advance(1)
    for thread in threads:
        thread.join(10)
    assert sorted(map(int, seen)) == list(range(total))
    assert counts(client, url) == (0, 0, 0)


def test_threads_keep_the_order_of_every_group() -> None:
    session = MemorySession()
    client: Any = session.client("sqs")
    url = client.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    groups, each = 7, 40
    for n in range(each):
        for group in range(groups):
            client.send_message(
                QueueUrl=url,
                MessageBody=str(n),
                MessageGroupId=str(group),
                MessageDeduplicationId=f"{group}-{n}",
            )
    seen: dict[str, list[int]] = defaultdict(list)
    active: set[str] = set()
    violations: list[str] = []
    guard = threading.Lock()

    def work() -> None:
        while messages := receive(client, url, 3, WaitTimeSeconds=1):
            mine = {message["Attributes"]["MessageGroupId"] for message in messages}
            with guard:
                violations.extend(active & mine)
                active.update(mine)
            for message in messages:
                seen[message["Attributes"]["MessageGroupId"]].append(int(message["Body"]))
            with guard:
                active.difference_update(mine)
            for message in messages:
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert violations == []
    assert seen == {str(group): list(range(each)) for group in range(groups)}
