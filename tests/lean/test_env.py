"""``SQSEnv(transport=...)``: what each choice does, where a refusal comes, and that everything works over it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqs_workers import ConfigurationError, IdleShutdown, MemorySession, SQSEnv, create_standard_queue
from sqs_workers.clock import ManualClock
from sqs_workers.local import LocalServer
from sqs_workers.testing import run_until_idle
from sqs_workers.transport import Boto3Transport, DeferredTransport, ReceiveOptions, WakesReceives
from sqs_workers.transport.lean import LeanTransport
from tests.conformance.backend import Background
from tests.servers import boto_session

ROOT = Path(__file__).parents[2]
REASON = "the client is no botocore client but sqs_workers.memory_sqs"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture
def env(server: LocalServer) -> Iterator[SQSEnv]:
    env = SQSEnv(boto_session(server.url), codec="json", transport="lean")
    create_standard_queue(env, "jobs")
    yield env
    close(env)


def close(env: SQSEnv) -> None:
    assert isinstance(env.transport, DeferredTransport)
    env.transport.close()
    env.sqs_client.close()


def chosen(env: SQSEnv) -> object:
    assert isinstance(env.transport, DeferredTransport)
    return env.transport.chosen


def test_without_a_word_requests_go_through_boto3() -> None:
    assert isinstance(SQSEnv(codec="json").transport, Boto3Transport)


def test_an_unknown_transport_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown transport 'fast'.*boto3, lean, auto"):
        SQSEnv(codec="json", transport="fast")  # type: ignore[arg-type]


def test_a_transport_of_ones_own_is_taken_as_it_is() -> None:
    own = Boto3Transport(object)
    assert SQSEnv(codec="json", transport=own).transport is own


@pytest.mark.parametrize("mode", ["lean", "auto"])
def test_a_real_client_is_passed_by(server: LocalServer, mode: Any) -> None:
    env = SQSEnv(boto_session(server.url), codec="json", transport=mode)
    create_standard_queue(env, "jobs")
    env.queue("jobs").add_job("work")
    assert isinstance(chosen(env), LeanTransport)
    close(env)


STARTS: dict[str, Callable[[SQSEnv], object]] = {
    "process_queue": lambda env: env.queue("jobs").process_queue(IdleShutdown(1)),
    "processes": lambda env: env.queue("jobs").process_queue(processes=2, env_path=f"{__name__}:in_memory"),
    "worker": lambda env: env.worker(["jobs"]),
    "process_queues": lambda env: env.process_queues(["jobs"]),
    "aprocess_queue": lambda env: asyncio.run(env.queue("jobs").aprocess_queue()),
    "process_batch": lambda env: env.process_batch("jobs"),
    "send": lambda env: env.queue("jobs").add_job("work"),
}

in_memory: SQSEnv | None = None


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_lean_over_a_session_in_memory_is_refused_with_the_reason(
    start: Callable[[SQSEnv], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = MemorySession()
    create_standard_queue(SQSEnv(session, codec="json"), "jobs")
    env = SQSEnv(session, codec="json", transport="lean")
    monkeypatch.setattr(sys.modules[__name__], "in_memory", env)
    # By its URL: no request precedes the first receive.
    url = session.client("sqs").get_queue_url(QueueName="jobs")["QueueUrl"]
    env.queue("jobs", queue_url=url).connect_processor("work", lambda: None)
    with pytest.raises(ConfigurationError, match=REASON):
        start(env)


def test_auto_over_a_session_in_memory_goes_through_its_client_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = SQSEnv(MemorySession(), codec="json", transport="auto")
    create_standard_queue(env, "jobs")
    done: list[int] = []
    task = env.queue("jobs").connect_processor("work", done.append)
    with caplog.at_level(logging.INFO, "sqs_workers.transport"):
        task.delay(1)
        task.delay(2)
        run_until_idle(env)
    assert sorted(done) == [1, 2]
    assert [REASON in record.getMessage() for record in caplog.records] == [True]


def test_auto_over_a_session_in_memory_lets_receives_be_answered_before_their_time() -> None:
    clock = ManualClock()
    env = SQSEnv(MemorySession(clock=clock), codec="json", transport="auto")
    create_standard_queue(env, "jobs")
    url = env.queue("jobs").url
    receive = Background(lambda: env.transport.receive(url, ReceiveOptions(wait_seconds=20)))
    clock.wait_for_waiters(1)
    assert isinstance(env.transport, WakesReceives)
    env.transport.wake_receives(url)
    assert receive.result() == []


def test_another_client_is_taken_up_by_the_lean_transport(server: LocalServer, env: SQSEnv) -> None:
    env.queue("jobs").add_job("work")
    first, before = chosen(env), server.requests["SendMessage"]
    env.sqs_client.close()
    with LocalServer() as other:
        env.sqs_client = boto_session(other.url).client("sqs")
        create_standard_queue(env, "jobs")
        env.queue("jobs", queue_url=None).add_job("work")
        assert other.requests["SendMessage"] == 1
        assert chosen(env) is not first
    assert server.requests["SendMessage"] == before


def test_batches_are_sent_and_worked_beside_an_event_loop(server: LocalServer, env: SQSEnv) -> None:
    done: list[int] = []
    task = env.queue("jobs").connect_processor("work", done.append)

    async def main() -> None:
        await task.adelay(0)
        with task.batch():
            for number in range(1, 25):
                task.delay(number)
        await env.queue("jobs").aprocess_queue(IdleShutdown(1), 1, concurrency=4)

    asyncio.run(main())
    assert sorted(done) == list(range(25))
    assert server.requests["SendMessageBatch"] == 3
    assert isinstance(chosen(env), LeanTransport)


APPLICATION = """
    import os, pathlib
    from tests.servers import boto_session
    from sqs_workers import IdleShutdown, SQSEnv

    sqs = SQSEnv(boto_session(os.environ["URL"]), codec="json", transport="lean")
    queue = sqs.queue("jobs")

    @queue.processor("job")
    def job(n):
        pathlib.Path(f"{type(sqs.transport.chosen).__name__}-{n}-{os.getpid()}").touch()

    def main():
        for number in range(20):
            job.delay(number)
        result = queue.process_queue(IdleShutdown(1), 1, processes=2, concurrency=2)
        raise SystemExit(result.exit_code)
"""


def test_processes_have_a_lean_transport_each(server: LocalServer, env: SQSEnv, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(textwrap.dedent(APPLICATION))
    done = subprocess.run(
        [sys.executable, "-c", "import application; application.main()"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "", "URL": server.url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = [path.name.split("-") for path in tmp_path.glob("LeanTransport-*")]
    assert sorted(int(number) for _, number, _ in files) == list(range(20))


MOCKED = """
import boto3, logging, sys
from moto import mock_aws
from sqs_workers import ConfigurationError, SQSEnv, create_standard_queue

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print("a socket was opened:", arguments)

sys.addaudithook(audit)
sqs = SQSEnv(codec="json", transport="auto")
lean = SQSEnv(codec="json", transport="lean")
queue = sqs.queue("jobs")

@queue.processor("work")
def work(n):
    print("worked", n)

@lean.processor("jobs", "work")
def work_lean(n):
    print("worked")

with mock_aws():
    create_standard_queue(sqs, "jobs")
    work.delay(1)
    with work.batch():
        work.delay(2)
    sqs.process_batch("jobs")
    for start in (lambda: work_lean.delay(1), lambda: lean.worker(["jobs"]), lean.queue("jobs").process_queue):
        try:
            start()
        except ConfigurationError as error:
            print(error)
"""


def test_under_mock_aws_auto_opens_no_socket_and_lean_is_refused() -> None:
    # In a process of its own: moto changes every later session of the process that imports it.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MOCKED],
        env={"PYTHONPATH": str(ROOT), "AWS_DEFAULT_REGION": "us-east-1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert sorted(said[:2]) == ["worked 1", "worked 2"]
    assert len(said) == 5
    assert all("event handlers" in line and "moto" in line for line in said[2:]), said
