"""Receives messages: one long poll for each queue, and overlapping short ones while there is more to get.

A long poll that is under way cannot be called back: SQS may hand out a message at any moment and hides it,
whether anybody still listens or not. So a stop never drops one. The worker waits for it for a second; if it
has not been answered by then, ``run()`` returns, and the receiver thread stays until the answer comes and
gives back at once whatever it brings. The process waits for such receivers when it exits, no longer than a
poll lasts.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
import weakref
from typing import TYPE_CHECKING

from sqs_workers.exceptions import QueueNotFoundError, SQSError, WorkerError
from sqs_workers.hooks import PollFailed
from sqs_workers.transport import ErrorKind, classify, error_code, wake_receives
from sqs_workers.worker.calls import join_all, start_thread
from sqs_workers.worker.circuit import Circuit
from sqs_workers.worker.shutdown import openings_of
from sqs_workers.worker.source import STALLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqs_workers.messages import Message
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.source import SourceState

__all__ = ["Poller", "give_back", "next_delay"]

logger = logging.getLogger(__name__)

_ERROR_DELAY_FIRST = 0.5
_ERROR_DELAY_MAX = 30.0
# Between empty answers that come at once (wait_seconds=0): first and longest pause.
_EMPTY_DELAY_FIRST = 0.05
_EMPTY_DELAY_MAX = 1.0
# While messages wait for a slot. What a stop releases must not be taken by a poll of our own (see the engine).
_WAIT_WHILE_HOLDING = 1
# A receive answered sooner than this was no long poll.
_AT_ONCE = 0.2
# At exit, beyond the time that a long poll lasts.
_EXIT_MARGIN = 5.0

_trailing: weakref.WeakSet[Poller] = weakref.WeakSet()


class Poller:
    """The receiver threads of one queue."""

    def __init__(self, engine: Engine, state: SourceState) -> None:
        self._engine = engine
        self._state = state
        self._threads: list[threading.Thread] = []
        self._good = False

    def start(self) -> None:
        """Begin with the long poll; the others are started when the queue turns out to be busy."""
        self._start_thread()

    @property
    def queue_name(self) -> str:
        """Name of the queue."""
        return self._state.name

    @property
    def under_way(self) -> int:
        """Receives that have not been answered."""
        return self._state.receives

    @property
    def longest_wait(self) -> int:
        """Seconds that a receive may take to be answered."""
        return self._state.source.wait_seconds

    def join(self, timeout: float) -> bool:
        """Wait for the threads (real seconds); whether all have ended."""
        return not join_all(self._threads, timeout)

    def wake(self) -> None:
        """Have the receives under way answered now, where the transport can do that."""
        if not self.under_way:
            return
        try:
            wake_receives(self._engine.transport, self._state.url)
        except Exception:
            logger.exception("The receives of queue %s could not be woken", self._state.name)

    def wait_for_answers(self, timeout: float) -> None:
        """Wait until no receive is under way (real seconds), whatever jobs keep the threads."""
        changed, deadline = self._engine.changed, time.monotonic() + timeout
        with self._engine.lock:
            while self.under_way and (left := deadline - time.monotonic()) > 0:
                changed.wait(left)

    def trail(self) -> None:
        """Leave the receives under way to their threads, which give back what they bring; wait at exit."""
        _trailing.add(self)

    def _start_thread(self) -> None:
        first = not self._threads
        name = f"sqs-receive-{self._state.name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, args=(first,), name=name, daemon=True)
        if start_thread(thread, others=len(self._threads)):
            self._threads.append(thread)

    # -- one receiver

    def _run(self, first: bool) -> None:
        try:
            if first and not self._prepare():
                return
            self._receive_until_stop(first)
        except BaseException as error:
            # SystemExit too: it would end this thread in silence, and the worker would receive nothing more.
            logger.exception("A receiver of queue %s failed", self._state.name)
            self._engine.fail(error, f"a receiver of queue {self._state.name} failed")

    def _prepare(self) -> bool:
        """Find the queue; ``False`` if the worker ends before that."""
        delay = 0.0
        while not self._engine.stopping:
            try:
                self._state.prepare(self._engine.transport)
                self._engine.connected()
                self._warn_of_single_receive()
                return True
            except SQSError as error:
                self._engine.fail(error, f"queue {self._state.name} cannot be used")
                return False
            except Exception as error:  # noqa: BLE001 - classified and waited out
                delay = self._report(error, delay)
            self._pause(delay, first=True)
        return False

    def _warn_of_single_receive(self) -> None:
        if self._state.received_once_only:
            logger.warning(
                "The redrive policy of queue %s has a maxReceiveCount of 1: whatever is given back, at a stop for "
                "instance, goes to the dead-letter queue. Nothing is received ahead of free slots; take 2 or more",
                self._state.name,
                extra={"queue_name": self._state.name},
            )

    def _receive_until_stop(self, first: bool) -> None:
        engine, state = self._engine, self._state
        error_delay = empty_delay = 0.0
        while True:
            count = self._wait_for_room(first)
            if not count:
                return
            asked_at, openings = engine.clock.monotonic(), openings_of(engine, state)
            wait_seconds = self._wait_seconds() if first else 0
            try:
                messages = engine.transport.receive(state.url, state.options(count, wait_seconds))
            except Exception as error:  # noqa: BLE001 - classified and waited out
                self._answered(count)
                if self._fatal(error):
                    return
                error_delay = self._report(error, error_delay)
                self._pause(error_delay, first=first)
                continue
            error_delay = 0.0
            took = engine.clock.monotonic() - asked_at
            self._take_in(messages, count, took, first=first)
            if messages and not first and engine.executors.help():
                engine.acker.help()
            if first and not messages:
                engine.watch.polled_empty(state, openings)
            if messages:
                empty_delay = 0.0
            elif first and took < _AT_ONCE:
                empty_delay = min(max(empty_delay * 2, _EMPTY_DELAY_FIRST), _EMPTY_DELAY_MAX)
                self._pause(empty_delay, first=first)

    def _wait_seconds(self) -> int:
        """Seconds of the long poll; short while something waits for a slot, for the sake of a stop."""
        wait_seconds = self._state.source.wait_seconds
        return min(wait_seconds, _WAIT_WHILE_HOLDING) if len(self._state.buffer) else wait_seconds

    def _take_in(self, messages: Sequence[Message], count: int, took: float, *, first: bool) -> None:
        engine, state = self._engine, self._state
        with engine.lock:
            state.last_good_poll = engine.clock.monotonic()
            state.counts.polls += 1
            # One message of the ten asked for: no sign that more wait, and no reason for further requests.
            state.answered(more=len(messages) > 1 or len(messages) == count, first=first)
            if messages:
                engine.slots.received(messages)
                if took < 1:
                    engine.slots.receive_took(took)
                    engine.width.answered(took)
        self._good = True
        if messages:
            state.empty = None
            # Not the long poll: in a job that turns out to be slow, nobody would look for what comes next.
            if not engine.admit(state, messages, count, helper=not first):
                give_back(engine, state, messages)
            self._start_another()
        self._answered(0 if messages else count)

    def _start_another(self) -> None:
        engine, state = self._engine, self._state
        with engine.lock:
            if (
                len(self._threads) < 1 + engine.width.value + engine.executors.helper_stuck
                and state.parked == state.resting
                and not engine.stopping
                and engine.room_beside(state)
            ):
                self._start_thread()

    def _answered(self, reserved: int) -> None:
        engine = self._engine
        with engine.lock:
            self._state.reserved -= reserved
            self._state.receives -= 1
            if engine.stopping:
                engine.releases.answered(self._state)
            elif reserved or not self._state.receives or not self._state.hot:
                engine.wake_receivers()

    # -- waiting

    def _wait_for_room(self, first: bool) -> int:
        """Reserve room for a receive; 0 when the worker stops."""
        engine, state = self._engine, self._state
        while True:
            with engine.lock:
                if engine.stopping:
                    return 0
                circuit = state.circuit
                if circuit is None or not circuit.paused:
                    count = engine.ask(state, first=first)
                    if count:
                        state.receives += 1
                        engine.wake_receivers()
                        return count
                    engine.park(state, STALLED if first and state.attended else None, first=first)
                    continue
                if not first or circuit.wait > 0:
                    engine.park(state, circuit.wait if first else None, first=first)
                    continue
            self._probe(circuit)

    def _probe(self, circuit: Circuit) -> None:
        up = circuit.ping()
        with self._engine.lock:
            if up:
                circuit.resume()
            else:
                circuit.ping_failed()

    def _pause(self, seconds: float, *, first: bool) -> None:
        engine = self._engine
        deadline = engine.clock.monotonic() + seconds
        with engine.lock:
            while not engine.stopping:
                left = deadline - engine.clock.monotonic()
                if left <= 0:
                    return
                engine.park(self._state, left, first=first)

    # -- errors

    def _fatal(self, error: Exception) -> bool:
        """Whether the first receive of the worker's life says that it can never work."""
        if self._good:
            return False
        kind, name = classify(error), self._state.name
        problem: SQSError
        if kind is ErrorKind.MISSING:
            problem = QueueNotFoundError(
                f"queue {name!r} does not exist; create it before the worker starts", queue_name=name
            )
        elif kind is ErrorKind.DENIED:
            problem = WorkerError(
                f"these credentials may not receive from queue {name!r} ({error_code(error)}); allow "
                "sqs:ReceiveMessage, and kms:Decrypt if the queue is encrypted"
            )
        elif kind is ErrorKind.INVALID:
            problem = WorkerError(f"queue {name!r} cannot be received from: {error_code(error)}: {error}")
        else:
            return False
        problem.__cause__ = error
        self._engine.fail(problem, f"queue {name} cannot be used")
        return True

    def _report(self, error: Exception, previous_delay: float) -> float:
        engine, state = self._engine, self._state
        kind = classify(error)
        delay = next_delay(previous_delay)
        with engine.lock:
            state.counts.poll_errors += 1
            state.answered(more=False, first=False)
            stopping = engine.stopping
        if stopping:
            # The last poll of a worker that has stopped: there is no next try to tell of.
            return delay
        logger.warning(
            "Receiving from queue %s failed (%s, %s); next try in %.1f s",
            state.name,
            kind.value,
            error_code(error),
            delay,
            extra={"queue_name": state.name, "error": error_code(error)},
        )
        if engine.hooks.wants(PollFailed):
            engine.hooks.emit(PollFailed(queue_name=state.name, kind=kind.value, error=error, delay=delay))
        return delay


def next_delay(previous: float) -> float:
    """Seconds until the next try, after ``previous`` (0 for none): doubled, bounded and spread."""
    longest = min(max(previous * 2, _ERROR_DELAY_FIRST) * 1.5, _ERROR_DELAY_MAX)
    return random.uniform(longest / 2, longest)  # noqa: S311


def give_back(engine: Engine, state: SourceState, messages: Sequence[Message]) -> None:
    """Make messages visible again that came after the engine had stopped."""
    try:
        results = engine.transport.change_visibility_batch(
            state.url, [(message.receipt_handle, 0) for message in messages]
        )
        failed = sum(result is not None for result in results)
    except Exception:
        logger.exception(
            "%d message(s) of queue %s that came after the stop could not be given back",
            len(messages),
            state.name,
            extra={"queue_name": state.name},
        )
        return
    logger.log(
        logging.WARNING if failed else logging.INFO,
        "%d message(s) of queue %s came after the stop and were given back, but for %d",
        len(messages),
        state.name,
        failed,
        extra={"queue_name": state.name},
    )


@atexit.register
def _wait_for_trailing_receives() -> None:
    for poller in list(_trailing):
        poller.wait_for_answers(poller.longest_wait + _EXIT_MARGIN)
