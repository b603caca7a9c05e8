"""Batches: who owns them, how they are packed, and what becomes of what SQS does not take."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers import SQSBatchError
from sqs_workers.delivery import Packer, RetryPolicy
from sqs_workers.exceptions import InvalidMessageError, MessageTooLargeError, QueueNotFoundError
from sqs_workers.limits import MAX_MESSAGE_BYTES
from sqs_workers.messages import OutgoingMessage
from sqs_workers.testing import sent_jobs
from sqs_workers.transport.protocol import EntryError

from .faults import FaultyTransport, once_each

THROTTLED = EntryError("RequestThrottled", "slow down")
REFUSED = EntryError("InvalidMessageContents", "no", sender_fault=True)


@pytest.fixture
def faulty(env: Any) -> FaultyTransport:
    env.transport = FaultyTransport(env.transport)
    return env.transport


@pytest.fixture
def queue(make_queue: Any) -> Any:
    return _without_waiting(make_queue())


@pytest.fixture
def fifo(make_queue: Any) -> Any:
    return _without_waiting(make_queue("emails.fifo"))


def _without_waiting(queue: Any) -> Any:
    queue.sender.retry = RetryPolicy(attempts=4, base=0, cap=0)
    return queue


def _add(queue: Any, number: int, **options: Any) -> Any:
    return queue.add_job("job", number=number, **options)


def _add_fifo(queue: Any, number: int, group: str) -> None:
    _add(queue, number, _group_id=group, _deduplication_id=f"{group}-{number}")


def _numbers(queue: Any) -> list[int]:
    return [job.kwargs["number"] for job in sent_jobs(queue)]


def test_a_batch_sends_nothing_before_it_is_full_or_closed(queue: Any, faulty: Any) -> None:
    with queue.add_batch():
        for number in range(9):
            assert _add(queue, number) is None
        assert faulty.calls == 0
    assert faulty.calls == 1
    assert _numbers(queue) == list(range(9))


def test_a_large_batch_goes_in_tens_and_loses_nothing(queue: Any, faulty: Any) -> None:
    with queue.add_batch():
        for number in range(105):
            _add(queue, number)
    assert sorted(_numbers(queue)) == list(range(105))
    assert faulty.calls == 11


def test_f44_an_empty_batch_makes_no_call_and_needs_no_queue(env: Any) -> None:
    env.transport = faulty = FaultyTransport(env.transport)
    with env.queue("not-there").add_batch():
        pass
    assert faulty.calls == 0


def test_batches_nest_and_the_outermost_sends(queue: Any, faulty: Any) -> None:
    with queue.add_batch():
        _add(queue, 1)
        with queue.add_batch():
            _add(queue, 2)
        assert faulty.calls == 0
        _add(queue, 3)
    assert _numbers(queue) == [1, 2, 3]


def test_open_and_close_add_batch_are_a_pair_and_a_lone_close_is_harmless(queue: Any) -> None:
    queue.close_add_batch()
    queue.open_add_batch()
    assert _add(queue, 1) is None
    queue.close_add_batch()
    assert _add(queue, 2) is not None
    assert _numbers(queue) == [1, 2]


def test_a_block_that_raises_sends_nothing_that_still_waits(queue: Any) -> None:
    with pytest.raises(KeyError), queue.add_batch():
        _add(queue, 1)
        raise KeyError("mine")
    assert _numbers(queue) == []
    _add(queue, 2)
    assert _numbers(queue) == [2]


def test_a_block_that_raises_sends_what_waits_if_told_to(queue: Any) -> None:
    with pytest.raises(KeyError), queue.add_batch(flush_on_error=True):
        _add(queue, 1)
        raise KeyError("mine")
    assert _numbers(queue) == [1]


def test_an_inner_block_that_raises_takes_only_its_own_jobs_along(queue: Any) -> None:
    with queue.add_batch():
        _add(queue, 1)
        with pytest.raises(KeyError), queue.add_batch():
            _add(queue, 2)
            raise KeyError("mine")
        _add(queue, 3)
    assert _numbers(queue) == [1, 3]


def test_a_failed_flush_never_replaces_the_exception_of_the_block(queue: Any, faulty: Any) -> None:
    faulty.fail_entry = lambda message: REFUSED
    with pytest.raises(KeyError, match="mine") as raised, queue.add_batch(flush_on_error=True):
        _add(queue, 1)
        raise KeyError("mine")
    unsent = raised.value.__context__
    assert isinstance(unsent, SQSBatchError)
    assert len(unsent.unsent) == 1


def test_another_thread_is_not_held_up_by_an_open_batch(queue: Any) -> None:
    ids: list[str | None] = []
    with queue.add_batch():
        _add(queue, 1)
        thread = threading.Thread(target=lambda: ids.append(_add(queue, 2)))
        thread.start()
        thread.join()
        assert _numbers(queue) == [2]
    assert ids[0] is not None
    assert _numbers(queue) == [2, 1]


def test_another_task_is_not_held_up_by_an_open_batch(queue: Any) -> None:
    async def other() -> str | None:
        return _add(queue, 2)

    async def main() -> None:
        with queue.add_batch():
            _add(queue, 1)
            assert await asyncio.create_task(other()) is not None
            assert _numbers(queue) == [2]
        assert await other() is not None

    asyncio.run(main())
    assert _numbers(queue) == [2, 1, 2]


def test_f39_threads_that_add_and_delay_at_once_lose_and_mix_nothing(queue: Any) -> None:
    def work(base: int) -> None:
        with queue.add_batch():
            for number in range(15):
                _add(queue, base + number)
        _add(queue, base + 15)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(_numbers(queue)) == sorted(100 * n + k for n in range(32) for k in range(16))


def test_f24_only_failed_entries_are_sent_again(queue: Any, faulty: Any) -> None:
    faulty.fail_entry = once_each('"number": 3}', '"number": 7}', error=THROTTLED)
    with queue.add_batch():
        for number in range(10):
            _add(queue, number)
    assert [len(call) for call in faulty.sent] == [8, 2]
    assert sorted(_numbers(queue)) == list(range(10))


def test_f24_a_call_that_raises_once_is_made_again(queue: Any, faulty: Any) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise ConnectionError("reset")

    faulty.fail_call = fail
    with queue.add_batch():
        _add(queue, 1)
    assert _numbers(queue) == [1]


def test_f24_what_fails_to_the_end_is_in_the_error_and_can_be_sent_again(queue: Any, faulty: Any) -> None:
    faulty.fail_entry = lambda message: THROTTLED if '"number": 4}' in message.body else None
    with pytest.raises(SQSBatchError) as raised, queue.add_batch():
        for number in range(12):
            _add(queue, number)
    error = raised.value
    assert [message.job_name for message in error.unsent] == ["job"]
    assert error.errors[0]["Code"] == "RequestThrottled"
    assert error.errors[0]["_message"]["MessageBody"] == error.unsent[0].body
    assert "job" in str(error)
    faulty.fail_entry = lambda message: None
    queue.send_messages(error.unsent)
    assert sorted(_numbers(queue)) == list(range(12))


def test_a_refused_entry_is_not_tried_again(queue: Any, faulty: Any) -> None:
    faulty.fail_entry = lambda message: REFUSED
    with pytest.raises(SQSBatchError), queue.add_batch():
        _add(queue, 1)
    assert faulty.calls == 1


def test_a_queue_that_does_not_exist_keeps_every_job_of_the_batch(env: Any) -> None:
    queue = _without_waiting(env.queue("not-there"))
    with pytest.raises(SQSBatchError) as raised, queue.add_batch():
        for number in range(25):
            _add(queue, number)
    assert len(raised.value.unsent) == 25
    assert isinstance(raised.value.__cause__, QueueNotFoundError)


@pytest.mark.parametrize("failing", ["a-2", "a-0"])
def test_f24_no_message_of_a_fifo_group_overtakes_a_failed_one(fifo: Any, faulty: Any, failing: str) -> None:
    group, number = failing.split("-")
    faulty.fail_entry = once_each(f'"number": {number}}}', error=THROTTLED)
    with fifo.add_batch():
        for n in range(6):
            _add_fifo(fifo, n, group)
            _add_fifo(fifo, n + 100, "b")
    assert [n for n in _numbers(fifo) if n < 100] == list(range(6))
    assert [n for n in _numbers(fifo) if n >= 100] == list(range(100, 106))


def test_f24_when_a_fifo_message_fails_to_the_end_its_group_waits_and_others_go(
    fifo: Any, faulty: Any
) -> None:
    faulty.fail_entry = lambda message: THROTTLED if message.deduplication_id == "a-2" else None
    with pytest.raises(SQSBatchError) as raised, fifo.add_batch():
        for n in range(5):
            _add_fifo(fifo, n, "a")
            _add_fifo(fifo, n + 100, "b")
    assert [message.deduplication_id for message in raised.value.unsent] == ["a-2", "a-3", "a-4"]
    assert raised.value.errors[1]["Code"] == "EarlierMessageFailed"
    assert _numbers(fifo) == [0, 100, 1, 101, 102, 103, 104]
    faulty.fail_entry = lambda message: None
    fifo.send_messages(raised.value.unsent)
    assert [n for n in _numbers(fifo) if n < 100] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("pack_groups", "calls"), [(False, 20), (True, 2)])
def test_a_batch_of_one_fifo_group_is_packed_when_asked_for(
    fifo: Any, faulty: Any, pack_groups: bool, calls: int
) -> None:
    with fifo.add_batch(pack_groups=pack_groups):
        for n in range(20):
            _add_fifo(fifo, n, "a")
    assert faulty.calls == calls
    assert _numbers(fifo) == list(range(20))


def test_f41_ten_jobs_of_200_kib_are_packed_by_bytes(queue: Any, faulty: Any) -> None:
    with queue.add_batch():
        for number in range(10):
            queue.add_job("job", number=number, text="x" * 200 * 1024)
    assert len(sent_jobs(queue)) == 10
    assert all(sum(message.size for message in call) <= MAX_MESSAGE_BYTES for call in faulty.sent)


def test_f41_cjk_text_is_counted_in_utf8_bytes_of_what_is_sent(queue: Any) -> None:
    with queue.add_batch():
        for number in range(3):
            queue.add_job("job", number=number, text="漢" * 80_000)
    assert [job.kwargs["text"] for job in sent_jobs(queue)] == ["漢" * 80_000] * 3


def test_f41_a_job_above_the_limit_is_refused_where_it_is_added(queue: Any) -> None:
    with queue.add_batch():
        _add(queue, 1)
        with pytest.raises(MessageTooLargeError, match="1048576") as raised:
            queue.add_job("job", text="x" * MAX_MESSAGE_BYTES)
        _add(queue, 2)
    assert raised.value.size > MAX_MESSAGE_BYTES
    assert _numbers(queue) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_process_forked_inside_of_a_batch_does_not_send_it_a_second_time(queue: Any) -> None:
    with queue.add_batch():
        _add(queue, 1)
        child = os.fork()
        if child == 0:
            os._exit(0 if queue.sender.current_batch() is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 600_000)), max_size=40),
    st.booleans(),
)
def test_packing_keeps_every_message_the_limits_and_the_order(
    entries: list[tuple[str, int]], fifo: bool
) -> None:
    packer = Packer(fifo)
    for position, (group, size) in enumerate(entries):
        packer.add(position, OutgoingMessage("x" * size, group_id=group))
    order: list[int] = []
    while call := packer.next_call():
        assert len(call) <= 10
        assert sum(message.size for _, message in call) <= MAX_MESSAGE_BYTES
        if fifo:
            assert len({message.group_id for _, message in call}) == len(call)
        order += [position for position, _ in call]
    assert sorted(order) == list(range(len(entries)))
    for group in "abc":
        of_group = [position for position in order if entries[position][0] == group]
        assert of_group == sorted(of_group)
    if not fifo:
        assert order == sorted(order)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"_delay_seconds": 366 * 86_400 + 1}, "31622400"),
        ({"_delay_seconds": -1}, "31622400"),
        ({"_delay_seconds": float("nan")}, "31622400"),
        ({"_delay_seconds": "soon"}, "31622400"),
        ({"_deduplication_id": "x"}, "FIFO"),
        ({"_group_id": "has space"}, "message group id"),
        ({"_group_id": "x" * 129}, "128"),
    ],
)
def test_options_that_sqs_would_refuse_are_refused_at_once(queue: Any, options: Any, says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        queue.add_job("job", **options)


def test_a_fifo_queue_takes_no_delay_per_message(fifo: Any) -> None:
    with pytest.raises(InvalidMessageError, match="FIFO"):
        fifo.add_job("job", _delay_seconds=5, _deduplication_id="1")
    fifo.add_job("job", _delay_seconds=0, _deduplication_id="1")


def test_a_job_name_is_checked(queue: Any) -> None:
    with pytest.raises(InvalidMessageError, match="JobName"):
        queue.add_job("", number=1)
    with pytest.raises(InvalidMessageError, match=r"U\+0000"):
        queue.add_job("a\x00b", number=1)
