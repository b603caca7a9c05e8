"""Everything is done although calls are throttled, reset and half answered; each message is settled once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqs_workers.clock import ManualClock
from sqs_workers.hooks import JobSucceeded, MessageSettled
from sqs_workers.messages import Message
from sqs_workers.outcome import (
    ChangeVisibility,
    Delete,
    Failed,
    Leave,
    Rejected,
    RetryRequested,
    Succeeded,
    Unrun,
)
from sqs_workers.transport import EntryError
from sqs_workers.worker.acker import Acker
from sqs_workers.worker.held import Held
from sqs_workers.worker.rings import Rings
from sqs_workers.worker.source import SourceState
from tests.worker.kit import Bench, Handler, client_error


class Rough:
    """Makes calls fail at random: before they happen, or after."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        bench.transport.before["receive"] = self.before
        bench.transport.before["delete_batch"] = self.settle("delete_batch")
        bench.transport.before["change_visibility_batch"] = self.settle("change_visibility_batch")

    def before(self, *args: Any) -> None:
        with self.lock:
            chance = self.random.random()
        if chance < 0.05:
            raise client_error("RequestThrottled")

    def settle(self, name: str) -> Any:
        def call(url: str, entries: list[Any]) -> Any:
            with self.lock:
                chance = self.random.random()
            if chance < 0.05:
                raise client_error("RequestThrottled")
            if chance < 0.10:
                raise ConnectionResetError
            if chance < 0.15:
                getattr(self.bench.transport._inner, name)(url, entries)
                raise ConnectionResetError
            if chance < 0.25 and len(entries) > 1:
                rest = getattr(self.bench.transport._inner, name)(url, entries[1:])
                return [EntryError("InternalError"), *rest]
            return None

        return call


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_every_job_succeeds_once_on_a_rough_network(
    queue: str, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqs_workers.worker.poller._ERROR_DELAY_FIRST", 0.01)
    monkeypatch.setattr("sqs_workers.worker.acker._RETRY_FIRST", 0.01)
    bench = Bench()
    bench.queue(queue, VisibilityTimeout="1000")
    for number in range(200):
        bench.send(str(number), queue=queue, group=str(number % 20) if "fifo" in queue else None)
    Rough(bench, concurrency)
    handler = Handler()
    with bench.running(bench.source(handler, name=queue), concurrency=concurrency) as running:
        bench.wait_for(JobSucceeded, 200)
        bench.wait_for(MessageSettled, 200)
        running.worker.stop()
        running.join()
    assert Counter(handler.bodies) == {str(number): 1 for number in range(200)}
    assert bench.counts(queue) == (0, 0)


_OUTCOMES = st.sampled_from(["ok", "retry", "fail", "reject", "unrun", "throttle"])


@settings(max_examples=25, deadline=None)
@given(st.lists(_OUTCOMES, min_size=1, max_size=25), st.integers(1, 4))
def test_each_message_is_settled_exactly_once_however_its_job_ends(ends: list[str], concurrency: int) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send(*(f"{number}:{end}" for number, end in enumerate(ends)))
    outcomes = {
        "ok": Succeeded(),
        "retry": RetryRequested(900),
        "fail": Failed(ValueError(), 900),
        "reject": Rejected(ValueError()),
        "unrun": Failed(ValueError(), 800),
        "throttle": Succeeded(),
    }
    handler = Handler(lambda message: outcomes[message.body.split(":")[1]])
    with bench.running(bench.source(handler, wait_seconds=0), concurrency=concurrency) as running:
        bench.wait_for(MessageSettled, len(ends))
        running.worker.stop()
        result = running.join()
    settled = Counter(event.message_id for event in bench.of(MessageSettled))
    assert set(settled.values()) == {1}
    assert len(settled) == len(ends)
    deletes = [args[1] for name, args in bench.transport.log if name == "delete_batch"]
    changes = [args[1] for name, args in bench.transport.log if name == "change_visibility_batch"]
    receipts = Counter(receipt for batch in deletes for receipt in batch)
    receipts.update(receipt for batch in changes for receipt, _ in batch)
    assert not receipts or max(receipts.values()) == 1
    assert result.counts["jobs"].settled == len(ends)


class _Script:
    """A transport that answers deletes and visibility changes as it is told."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.taken: Counter[str] = Counter()

    def _answer(self, receipts: list[str]) -> list[EntryError | None]:
        kind = self.answers.pop() if self.answers else 0
        if kind == 1:
            raise client_error("RequestThrottled")
        results: list[EntryError | None] = []
        for index, receipt in enumerate(receipts):
            if kind == 2 and index % 2:
                results.append(EntryError("InternalError"))
            else:
                self.taken[receipt] += 1
                results.append(None)
        return results

    def delete_batch(self, url: str, receipts: list[str]) -> list[EntryError | None]:
        return self._answer(receipts)

    def change_visibility_batch(self, url: str, entries: list[tuple[str, int]]) -> list[EntryError | None]:
        return self._answer([receipt for receipt, _ in entries])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([Delete(), ChangeVisibility(0), Leave()]), min_size=1, max_size=40),
    st.lists(st.integers(0, 2), max_size=6),
)
def test_the_acker_takes_every_settlement_to_sqs_once(actions: list[Any], answers: list[int]) -> None:
    clock = ManualClock()
    script = _Script(answers)
    settled: Counter[str] = Counter()
    lock = threading.Lock()

    def on_settled(held: Held, ok: bool) -> None:
        with lock:
            settled[held.message.receipt_handle] += ok

    acker = Acker(script, clock, on_settled)  # type: ignore[arg-type]
    bench = Bench()
    state = SourceState(bench.source(), clock)
    for number, action in enumerate(actions):
        message = Message(str(number), str(number), "", received_at=clock.monotonic())
        acker.add(Held(message, state, 1000), action)
    done = threading.Event()

    def flush() -> None:
        if acker.flush(clock.monotonic() + 500):
            done.set()

    thread = threading.Thread(target=flush)
    thread.start()
    for _ in range(400):
        if done.wait(0.002):
            break
        clock.advance(0.5)
    thread.join(10)
    acker.close()
    assert acker.join(10)
    assert done.is_set()
    assert settled == {str(number): 1 for number in range(len(actions))}
    expected = {str(number): 1 for number, action in enumerate(actions) if not isinstance(action, Leave)}
    assert script.taken == expected
    assert acker.backlog == 0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 5.0]), st.integers(0, 9)), max_size=40)
)
def test_rings_give_out_what_is_due_and_nothing_else(steps: list[tuple[str, float, int]]) -> None:
    rings: Rings[str] = Rings()
    model: dict[tuple[float, str], float] = {}
    now = 0.0
    for key, length, wait in steps:
        if wait < 3:
            rings.discard("k", length, key)
            model.pop((length, key), None)
        else:
            rings.add("k", length, key, now + length)
            model[length, key] = now + length
        assert rings.next_due() == min(model.values(), default=None)
        assert len(rings) == len(model)
        now += wait / 4
        due = Counter(key for _, key in rings.pop_due(now))
        assert due == Counter(key for (_, key), at in model.items() if at <= now)
        model = {item: at for item, at in model.items() if at > now}


def test_a_release_and_a_late_extension_end_with_the_release() -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="3")
    bench.send("a")
    inside, go_on = threading.Event(), threading.Event()
    first = iter([True])

    def hold_the_first_extension(url: str, entries: list[tuple[str, int]]) -> Any:
        if entries[0][1] > 0 and next(first, False):
            inside.set()
            assert go_on.wait(10)

    bench.transport.before["change_visibility_batch"] = hold_the_first_extension

    def fail_meanwhile(message: Message) -> Unrun:
        assert inside.wait(10)
        return Unrun("given back")

    with bench.running(bench.source(Handler(fail_meanwhile), wait_seconds=0), executor="threads") as running:
        bench.wait_for(MessageSettled)
        running.worker.stop()
        go_on.set()
        running.join()
    changes = [args[1][0][1] for name, args in bench.transport.log if name == "change_visibility_batch"]
    assert changes[-1] == 0
