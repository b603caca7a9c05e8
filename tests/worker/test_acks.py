"""Settling: in tens, entry by entry, tried again while the message is ours, never at the cost of a run."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from sqs_workers.failure_policies import DeadLetter, Discard, Release
from sqs_workers.hooks import JobDeadLettered, JobDiscarded, JobSucceeded, MessageSettled
from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.outcome import Failed, MoveTo, Rejected, RetryRequested
from sqs_workers.transport import EntryError
from sqs_workers.worker import process_once
from sqs_workers.worker.moves import copy_message
from tests.worker.kit import PATIENCE, Bench, Handler, StopAfter, client_error


def test_deletes_go_out_in_tens_while_the_queue_drains_fast() -> None:
    bench = Bench()
    bench.queue()
    for number in range(200):
        bench.send(str(number))
    bench.worker(bench.source(), concurrency=4, shutdown_policy=StopAfter(200)).run()
    assert bench.counts() == (0, 0)
    assert bench.transport.calls["delete_batch"] < 60


def test_the_fast_ones_are_deleted_while_a_slow_one_of_the_same_receive_still_runs() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefghij")
    gate = threading.Event()

    def one_is_slow(message: Message) -> None:
        if message.body == "a":
            assert gate.wait(PATIENCE)

    with bench.running(bench.source(Handler(one_is_slow)), concurrency=10) as running:
        bench.wait_for(MessageSettled, 9)
        assert bench.counts() == (0, 1)
        gate.set()
        running.worker.stop()
        running.join()


def test_f12_one_refused_entry_of_a_batch_is_tried_again_alone() -> None:
    bench = Bench()
    bench.queue()
    bench.send(*"abcdefghij")
    refused: list[str] = []
    together = threading.Barrier(10)

    def refuse_the_first(url: str, receipts: list[str]) -> Any:
        if refused:
            return None
        refused.append(receipts[0])
        results = bench.transport._inner.delete_batch(url, receipts[1:]) if receipts[1:] else []
        return [EntryError("InternalError"), *results]

    bench.transport.before["delete_batch"] = refuse_the_first
    handler = Handler(lambda message: together.wait(PATIENCE) and None)

    def meet(message: Message) -> None:
        together.wait(PATIENCE)

    handler = Handler(meet)
    with bench.running(bench.source(handler), concurrency=10) as running:
        bench.wait_for(MessageSettled, 10)
        running.worker.stop()
        result = running.join()
    assert bench.counts() == (0, 0)
    assert len(handler.bodies) == 10
    assert result.counts["jobs"].settled == 10
    again = [args[1] for name, args in bench.transport.log if name == "delete_batch"][-1]
    assert again == refused


@pytest.mark.parametrize("code", ["ReceiptHandleIsInvalid", "InvalidParameterValue"])
def test_f14_a_receipt_that_is_no_longer_valid_costs_neither_the_worker_nor_a_slot(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    bench.transport.before["delete_batch"] = lambda url, receipts: [
        EntryError(code, sender_fault=True) for _ in receipts
    ]
    handler = Handler()
    with bench.running(bench.source(handler)) as running:
        assert bench.wait_for(MessageSettled)[0].ok is False
        del bench.transport.before["delete_batch"]
        bench.send("b")
        bench.wait_for(MessageSettled, 2)
        running.worker.stop()
        result = running.join()
    assert handler.bodies == ["a", "b"]
    assert result.counts["jobs"].delete_failures == 1
    assert result.counts["jobs"].failed == 0
    assert code in caplog.text


@pytest.mark.parametrize("code", ["RequestThrottled", "ExpiredToken", "InternalError", "KmsThrottled"])
def test_f34_a_delete_that_fails_for_a_while_is_tried_again_and_the_job_is_not(code: str) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    failures = iter([True, True])

    def fail_twice(url: str, receipts: object) -> None:
        if next(failures, False):
            raise client_error(code, 400, "DeleteMessageBatch")

    bench.transport.before["delete_batch"] = fail_twice
    handler = Handler()
    with bench.running(bench.source(handler)) as running:
        assert bench.wait_for(MessageSettled)[0].ok
        running.worker.stop()
        running.join()
    assert handler.bodies == ["a"]
    assert len(bench.of(JobSucceeded)) == 1
    assert bench.counts() == (0, 0)


def test_deletes_that_are_denied_are_told_loudly(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a", "b")

    def deny(url: str, receipts: object) -> None:
        raise client_error("AccessDenied", 403, "DeleteMessageBatch")

    bench.transport.before["delete_batch"] = deny
    with bench.running(bench.source(), shutdown_timeout=0.5) as running:
        bench.wait_for(JobSucceeded, 2)
        running.worker.stop()
        result = running.join()
    errors = [record for record in caplog.records if "may not delete" in record.message]
    assert [record.levelno for record in errors] == [logging.ERROR]
    assert result.abandoned != ()


@pytest.mark.parametrize("operation", ["delete_batch", "change_visibility_batch", "send"])
def test_one_batch_does_not_wait_for_what_is_denied(operation: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.queue("dead")
    bench.queue(VisibilityTimeout="1000")
    bench.send("a", "b")

    def deny(*_: object) -> None:
        raise client_error("AccessDenied", 403, operation)

    def outcome(message: Message) -> object:
        match operation:
            case "send":
                return Rejected(ValueError("bad"))
            case "delete_batch":
                return None
            case _:
                return RetryRequested(60)

    bench.transport.before[operation] = deny
    handler = Handler(outcome, failure_policy=DeadLetter("dead"))
    before = time.monotonic()
    result = process_once(bench.source(handler), bench.transport, clock=bench.clock, hooks=bench.hooks)
    assert time.monotonic() - before < 10
    assert result.succeeded_count() + result.failed_count() == 2
    assert len([r for r in caplog.records if "was not settled (AccessDenied)" in r.getMessage()]) == 2
    # Never settled is never lost.
    assert sum(bench.counts()) == 2


def test_permanent_errors_go_to_the_failure_policy_at_once() -> None:
    bench = Bench()
    bench.queue("dead")
    bench.queue()
    bench.client.send_message(
        QueueUrl=bench.urls["jobs"],
        MessageBody="a",
        MessageAttributes={"JobName": {"DataType": "String", "StringValue": "pay"}},
    )
    handler = Handler(
        lambda message: Rejected(ValueError("no such account")), failure_policy=DeadLetter("dead")
    )
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert bench.counts() == (0, 0)
    answer = bench.client.receive_message(QueueUrl=bench.urls["dead"], MessageAttributeNames=["All"])
    (copy,) = answer["Messages"]
    attributes = {name: value["StringValue"] for name, value in copy["MessageAttributes"].items()}
    assert copy["Body"] == "a"
    assert attributes["JobName"] == "pay"
    assert attributes["DeadLetterReason"] == "permanent error"
    assert attributes["DeadLetterErrorType"] == "ValueError"
    assert attributes["DeadLetterReceiveCount"] == "1"
    (event,) = bench.of(JobDeadLettered)
    assert (event.target, event.reason, event.job_name) == ("dead", "permanent error", "pay")


def test_f30_attempts_are_counted_by_the_receive_count_and_then_used_up() -> None:
    bench = Bench()
    bench.queue("dead")
    bench.queue()
    bench.send("a")
    handler = Handler(lambda message: Failed(ValueError()), max_attempts=3, failure_policy=DeadLetter("dead"))
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(3)).run()
    assert handler.counts == [1, 2, 3]
    assert bench.counts() == (0, 0)
    assert bench.counts("dead") == (1, 0)


def test_f22_a_message_is_kept_until_its_copy_is_taken() -> None:
    bench = Bench()
    bench.queue("dead")
    bench.queue()
    bench.send("a")
    failures = iter([True, True])
    deleted_before_copy: list[int] = []

    def fail_twice(url: str, message: OutgoingMessage) -> None:
        deleted_before_copy.append(bench.transport.calls["delete_batch"])
        if next(failures, False):
            raise client_error("RequestThrottled", 400, "SendMessage")

    bench.transport.before["send"] = fail_twice
    handler = Handler(lambda message: Rejected(ValueError()), failure_policy=DeadLetter("dead"))
    with bench.running(bench.source(handler)) as running:
        assert bench.wait_for(MessageSettled)[0].action == "move"
        running.worker.stop()
        running.join()
    assert deleted_before_copy == [0, 0, 0]
    assert bench.counts("dead") == (1, 0)
    assert bench.counts() == (0, 0)


def test_f22_a_message_whose_copy_is_never_taken_stays_in_its_queue() -> None:
    bench = Bench()
    bench.queue("dead")
    bench.queue()
    bench.send("a")

    def fail(url: str, message: OutgoingMessage) -> None:
        raise client_error("InvalidMessageContents", 400, "SendMessage")

    bench.transport.before["send"] = fail
    handler = Handler(lambda message: Rejected(ValueError()), failure_policy=DeadLetter("dead"))
    with bench.running(bench.source(handler)) as running:
        assert bench.wait_for(MessageSettled)[0].ok is False
        running.worker.stop()
        running.join()
    assert bench.transport.calls["delete_batch"] == 0
    assert bench.counts() == (0, 1)


def test_a_discarded_message_is_deleted_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.queue()
    bench.send("secret body")
    handler = Handler(lambda message: Rejected(ValueError("secret text")), failure_policy=Discard())
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert bench.counts() == (0, 0)
    assert bench.of(JobDiscarded)[0].error_type == "ValueError"
    (record,) = (record for record in caplog.records if "discarded" in record.message)
    assert record.levelno == logging.WARNING
    assert "secret" not in caplog.text


def test_a_message_left_to_its_visibility_timeout_costs_no_request() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    handler = Handler(lambda message: Rejected(ValueError()))
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert bench.counts() == (0, 1)
    assert bench.transport.calls["change_visibility_batch"] == 0
    assert bench.of(MessageSettled)[0].action == "leave"


def test_a_released_message_is_visible_at_once() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    handler = Handler(lambda message: Rejected(ValueError()), failure_policy=Release())
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert bench.counts() == (1, 0)


def test_a_requested_retry_counts_as_no_error_and_takes_its_own_delay() -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    handler = Handler(lambda message: RetryRequested(500), max_attempts=1, failure_policy=Discard())
    result = bench.worker(bench.source(handler), shutdown_policy=StopAfter(1)).run()
    assert (result.counts["jobs"].failed, result.counts["jobs"].retried) == (0, 1)
    assert bench.counts() == (0, 1)
    (entries,) = (args[1] for name, args in bench.transport.log if name == "change_visibility_batch")
    assert [seconds for _, seconds in entries] == [500]


class _Raising:
    def settle(self, failure: object) -> Any:
        raise RuntimeError("broken policy")

    def get_visibility_timeout(self, message: object) -> Any:
        raise RuntimeError("broken backoff")


@pytest.mark.parametrize("outcome", [Rejected(ValueError()), Failed(ValueError())])
def test_a_policy_that_raises_leaves_the_message_and_the_worker_alive(
    outcome: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a", "b")
    handler = Handler(lambda message: outcome, failure_policy=_Raising(), backoff=_Raising())
    bench.worker(bench.source(handler), shutdown_policy=StopAfter(2)).run()
    assert len(handler.bodies) == 2
    assert bench.counts() == (0, 2)
    assert "A policy of job" in caplog.text


@pytest.mark.parametrize("answer", [True, "done", 0])
def test_an_answer_that_is_no_outcome_is_a_failure_not_a_success(answer: object) -> None:
    bench = Bench()
    bench.queue()
    bench.send("a")
    result = bench.worker(bench.source(Handler(lambda message: answer)), shutdown_policy=StopAfter(1)).run()
    assert (result.succeeded, result.failed) == (0, 1)
    assert bench.counts() == (1, 0)


def _moved(message: Message, **extra: str) -> MoveTo:
    return MoveTo("dead", message, extra)


def test_a_copy_has_at_most_ten_attributes_and_its_own_come_first() -> None:
    own = {f"A{number}": {"StringValue": "x", "DataType": "String"} for number in range(9)}
    message = Message("id", "receipt", "body", {}, own)
    copy = copy_message(_moved(message, First="1", Second="2"), fifo=False)
    assert list(copy.attributes) == [*own, "First"]


def test_a_copy_for_a_fifo_queue_keeps_its_group_and_is_taken_once() -> None:
    message = Message("id-1", "receipt", "body", {"MessageGroupId": "g"}, {})
    first = copy_message(_moved(message), fifo=True)
    assert (first.group_id, first.deduplication_id) == ("g", "moved-id-1")
    assert copy_message(_moved(message), fifo=True) == first


def test_a_copy_carries_no_empty_text_and_no_foreign_keys() -> None:
    own = {"B": {"BinaryValue": b"1", "DataType": "Binary", "StringListValues": []}}
    copy = copy_message(_moved(Message("id", "r", "b", {}, own), Empty=""), fifo=False)
    assert dict(copy.attributes) == {"B": {"BinaryValue": b"1", "DataType": "Binary"}}
