"""The threads that run jobs, and how many of them are awake.

Waking a thread costs more than a job that does nothing. So there are two ways to hand work over. Jobs that
take their time get a thread each, at once. Jobs that are measured as short are worked off by the thread that
runs already, without a lock between them, and settled together: by the receiver that has brought them, if no
other thread is at it. Meanwhile one thread watches, and takes over what waits too long: short on average is
not short always.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from sqs_workers.limits import MAX_BATCH_ENTRIES
from sqs_workers.outcome import Succeeded
from sqs_workers.worker.calls import join_all, start_thread

if TYPE_CHECKING:
    from sqs_workers.worker.engine import Engine
    from sqs_workers.worker.executors import Executors, Work

__all__ = ["JobThreads"]

WATCH_SECONDS = 0.02
"""How long a task waits for a busy thread, or an ended job for its settlement, until that is noticed; noticed
twice, another thread acts."""
QUIET_WATCHES = 5
"""How often a watching thread finds nothing before it goes idle: work comes in tens, with pauses between."""


class JobThreads:
    """Up to ``limit`` threads, started when they are needed."""

    def __init__(self, engine: Engine, executors: Executors, limit: int) -> None:
        self._engine = engine
        self._executors = executors
        self._limit = limit
        self.tasks: deque[Work] = deque()
        """What has a slot and waits for a thread. Taken out with or without the engine's lock."""
        # Jobs that have succeeded and are not settled yet. Not empty only while a thread watches, or while
        # the one that put something in is about to settle it.
        self._ended: deque[tuple[Work, float]] = deque()
        self._condition = threading.Condition(engine.lock)
        self._watch_condition = threading.Condition(engine.lock)
        self._threads: list[threading.Thread] = []
        self._started = 0
        self._live = 0
        self._idle = 0
        self._called = 0
        # Threads in a job, but for those that were found to be stuck in one: each time, a new turn begins.
        self._busy = 0
        self._turn = 0
        self._watched = False
        self._settlements = 0
        self._closed = False
        # The receiver that is about to call help(), as the number of its thread.
        self._promised = 0
        # Whether a receiver is in a job. One at a time: a stuck one must not be followed by the others.
        self._helping = False
        self._helping_turn = 0
        self._helpers: set[int] = set()

    # -- under the engine's lock

    def add(self, work: Work) -> None:
        """Have a thread run ``work``."""
        self.tasks.append(work)
        self._call()

    def wake(self) -> None:
        """Let idle threads look at the engine's state."""
        self._condition.notify_all()
        self._watch_condition.notify_all()

    def given_up(self, work: Work) -> None:
        """A thread is stuck in ``work``, which was given up: another may be started in its place."""
        if not work.by_receiver:
            self._live -= 1
        self._leave(work.turn)

    def expect_help(self) -> None:
        """A receiver is about to hand over what it has brought: let it run that itself, if jobs are short."""
        engine = self._engine
        if self._busy or self._helping or self._promised or self._closed:
            return
        if not (engine.slots.short and engine.width.narrow):
            return
        me = threading.get_ident()
        if me in self._helpers or len(self._helpers) < self._limit:
            self._helpers.add(me)
            self._promised = me

    def _leave(self, turn: int) -> None:
        if turn == self._turn:
            self._busy -= 1

    def close(self) -> None:
        """End the threads as they become idle."""
        self._closed = True
        self.wake()

    def _call(self) -> None:
        """Have somebody look after the tasks, unless somebody does."""
        if self._engine.slots.short and (self._called or self._promised or (self._busy and self._watched)):
            return
        if self._idle > self._called:
            self._called += 1
            self._condition.notify()
        elif self._live < self._limit:
            thread = threading.Thread(target=self._run, name=f"sqs-job-{self._started + 1}", daemon=True)
            if start_thread(thread, others=self._live):
                self._live += 1
                self._called += 1
                self._started += 1
                self._threads = [other for other in self._threads if other.is_alive()]
                self._threads.append(thread)

    def join(self, timeout: float) -> list[str]:
        """Wait for the threads (real seconds); names of those that still run."""
        return [thread.name for thread in join_all(self._threads, timeout)]

    # -- a receiver

    @property
    def helper_stuck(self) -> bool:
        """Whether a receiver is in a job that takes long. Under the engine's lock."""
        return self._helping and self._helping_turn != self._turn

    def help(self) -> bool:
        """Run what waits in the calling thread, a receiver, if that was expected of it; whether it was."""
        if self._promised != threading.get_ident():
            return False
        with self._engine.lock:
            self._promised = 0
            work = self._take(overdue=False)
            if work is None:
                if self.tasks:
                    self._call()
                return True
            self._helping = work.by_receiver = True
            self._helping_turn = work.turn
        alive = self._work_off(work)
        with self._engine.lock:
            self._helping = False
            if alive:
                self._leave(work.turn)
            if self.tasks:
                self._call()
        return True

    # -- a thread

    def _run(self) -> None:
        with self._engine.lock:
            self._arrived()
        while True:
            work = self._next()
            if work is None or not self._work_off(work):
                return
            with self._engine.lock:
                self._leave(work.turn)

    def _next(self) -> Work | None:
        """The next task for this thread; ``None`` to end it."""
        overdue, called = False, True
        while True:
            with self._engine.lock:
                while True:
                    work = self._take(overdue)
                    if work is not None:
                        return work
                    if self._unwatched(called):
                        called = False
                        overdue = self._watch()
                        if overdue:
                            self._turn += 1
                            self._busy = 0
                            break
                    elif self._closed:
                        self._live -= 1
                        return None
                    else:
                        self._wait()
                        called = True
            self._settle_ended()

    def _unwatched(self, called: bool) -> bool:
        if self._watched or self._closed:
            return False
        if self.tasks or self._ended:
            return True
        # By the time a called thread has woken, what it was called for is often done: while jobs are short,
        # it stays and watches for a moment, because more is about to come.
        return called and self._engine.slots.short

    def _take(self, overdue: bool) -> Work | None:
        if self._busy and self._engine.slots.short and not overdue:
            return None
        try:
            work = self.tasks.popleft()
        except IndexError:
            return None
        work.turn = self._turn
        self._busy += 1
        if self.tasks or overdue:
            # One at a time: for short jobs this thread is back before the other has woken.
            self._call()
        return work

    def _wait(self) -> None:
        self._idle += 1
        try:
            self._engine.clock.wait(self._condition, None)
        finally:
            self._idle -= 1
            self._arrived()

    def _arrived(self) -> None:
        # Not below zero: a thread may be woken that was not called, to look at the engine's state.
        self._called = max(0, self._called - 1)

    def _watch(self) -> bool:
        """Watch until something has waited too long (``True``), or nothing waits any more."""
        self._watched = True
        quiet = standing = 0
        while True:
            settlements, first = self._settlements, _first(self.tasks)
            # Real time, whatever the clock: this is about threads that share a processor.
            self._watch_condition.wait(WATCH_SECONDS)
            stuck = bool(self._ended) and self._settlements == settlements
            left = first is not None and _first(self.tasks) is first
            # Seen once, it may have been this process that got no processor.
            standing = standing + 1 if stuck or left else 0
            if standing == 2 or (self.tasks and not self._engine.slots.short):
                self._watched = False
                return True
            quiet = 0 if first is not None or self.tasks or self._ended else quiet + 1
            if quiet >= QUIET_WATCHES or self._closed:
                self._watched = False
                # A busy thread may have put something in before it could see that nobody watches.
                if not self._ended:
                    return False
                self._watched = True

    def _work_off(self, work: Work) -> bool:
        """Run ``work`` and, while jobs are short, what else waits; ``False`` if this thread was given up."""
        executors, engine, ended, turn = self._executors, self._engine, self._ended, work.turn
        by_receiver = work.by_receiver
        while True:
            outcomes, took = executors.execute(work)
            if work.plain and type(outcomes[0]) is Succeeded:
                ended.append((work, took))
                if not self.tasks:
                    # A receiver carries out itself what it settles last (see the acker).
                    self._settle_ended(wake=not by_receiver)
                elif not self._watched or len(ended) >= MAX_BATCH_ENTRIES:
                    self._settle_ended()
            else:
                self._settle_ended()
                if not executors.end(work, outcomes, took):
                    return False
            alone = not self._watched or self._turn != turn
            if alone or not engine.slots.short or engine.stop_reason is not None:
                self._settle_ended()
                return True
            try:
                work = self.tasks.popleft()
            except IndexError:
                self._settle_ended()
                return True
            work.turn = turn
            work.by_receiver = by_receiver
            if by_receiver:
                # It does not come to it as long as this one takes.
                engine.acker.tell()

    def _settle_ended(self, *, wake: bool = True) -> None:
        ended: list[tuple[Work, float]] = []
        try:
            while True:
                ended.append(self._ended.popleft())
        except IndexError:
            pass
        if ended:
            self._settlements += 1
            self._executors.end_well(ended, wake=wake)


def _first(tasks: deque[Work]) -> Work | None:
    try:
        return tasks[0]
    except IndexError:
        return None
