"""The servers and checks that other tests rely on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.leaks import child_processes, leaked_processes, leaked_threads
from tests.servers import (
    boto_session,
    require_ministack,
    require_moto,
    reset_ministack,
    reset_moto,
    server_absent,
    start_ministack,
    start_moto,
    wire_client,
)


def test_an_absent_server_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="pip install some-server"):
        server_absent("some_server", "some-server")


def test_an_absent_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="pip install some-server"):
        server_absent("some_server", "some-server")


@pytest.mark.wire
@pytest.mark.parametrize("server", ["moto", "ministack"])
def test_a_session_makes_clients_and_resources_of_the_endpoint(
    request: pytest.FixtureRequest, server: str
) -> None:
    endpoint = request.getfixturevalue(f"{server}_endpoint")
    url = wire_client(endpoint).create_queue(QueueName=f"session-{server}")["QueueUrl"]
    queue = boto_session(endpoint).resource("sqs").get_queue_by_name(QueueName=f"session-{server}")
    assert queue.url == url
    queue.send_message(MessageBody="body")
    assert [message.body for message in queue.receive_messages()] == ["body"]


@pytest.mark.wire
@pytest.mark.parametrize(
    ("require", "start", "reset"),
    [
        pytest.param(require_moto, start_moto, reset_moto, id="moto"),
        pytest.param(require_ministack, start_ministack, reset_ministack, id="ministack"),
    ],
)
def test_a_server_of_its_own_can_be_reset_and_ends_with_its_block(
    require: Callable[[], None],
    start: Callable[[], AbstractContextManager[str]],
    reset: Callable[[str], None],
) -> None:
    require()
    before = child_processes()
    with start() as endpoint:
        client = wire_client(endpoint)
        client.create_queue(QueueName="queue")
        reset(endpoint)
        assert not client.list_queues().get("QueueUrls")
    assert child_processes() == before


def test_a_thread_that_stays_is_found() -> None:
    before = set(threading.enumerate())
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert leaked_threads(before, patience=0.05) == [thread]
    finally:
        end.set()
        thread.join()
    assert leaked_threads(before, patience=0.05) == []


def test_a_daemon_thread_counts_only_if_it_is_our_own() -> None:
    before = set(threading.enumerate())
    end = threading.Event()
    foreign = threading.Thread(target=end.wait, name="foreign", daemon=True)
    own = threading.Thread(target=end.wait, name="sqs-workers-heartbeat", daemon=True)
    foreign.start()
    own.start()
    try:
        assert leaked_threads(before, patience=0.05) == [own]
    finally:
        end.set()
        own.join()
        foreign.join()


def test_a_child_process_that_stays_is_found_unless_it_is_expected() -> None:
    before = child_processes()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert leaked_processes(before, set(), patience=0.05) == {child.pid}
        assert leaked_processes(before, {child.pid}, patience=0.05) == set()
        child.communicate(b"\n")
    assert leaked_processes(before, set(), patience=1) == set()
