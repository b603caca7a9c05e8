"""What every test has: the SQS emulators on demand, and a check that nothing stays running behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.leaks import child_processes, leaked_processes, leaked_threads
from tests.servers import SERVER_PIDS, local_endpoint, ministack_endpoint, moto_endpoint

__all__ = ["local_endpoint", "ministack_endpoint", "moto_endpoint", "nothing_stays_running"]

LEAK_PATIENCE_SECONDS = 5.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "documented(url): the AWS page that states what the conformance case checks"
    )
    config.addinivalue_line(
        "markers", "memory_only(reason): a conformance case that emulators cannot run, and why"
    )


@pytest.fixture(autouse=True)
def nothing_stays_running() -> Iterator[None]:
    """Fail a test that leaves behind a thread or a child process."""
    threads = set(threading.enumerate())
    processes = child_processes()
    yield
    left = leaked_threads(threads, LEAK_PATIENCE_SECONDS)
    assert not left, f"the test left threads running: {[thread.name for thread in left]}"
    running = leaked_processes(processes, SERVER_PIDS, LEAK_PATIENCE_SECONDS)
    assert not running, f"the test left child processes running: {sorted(running)}"
