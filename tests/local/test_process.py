"""``python -m sqs_workers.local`` as a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.conftest import MakeClient

Start = Callable[..., "subprocess.Popen[str]"]
READY = "SQS endpoint ready at "


@pytest.fixture
def start() -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, code: str = "") -> subprocess.Popen[str]:
        how = ["-c", code] if code else ["-m", "sqs_workers.local"]
        process = subprocess.Popen(
            [sys.executable, *how, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(READY), process.communicate()
    return line.removeprefix(READY).strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_even_with_a_long_poll_open(number: signal.Signals, start: Start) -> None:
    process = start("--port", "0")
    host, port = url_of(process).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        for target, body in (
            ("CreateQueue", {"QueueName": "mail"}),
            ("ReceiveMessage", {"QueueUrl": "http://x/123456789012/mail", "WaitTimeSeconds": 20}),
        ):
            data = json.dumps(body).encode()
            head = f"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.{target}\r\n"
            connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            if target == "CreateQueue":
                assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 5
    assert process.communicate() == ("", "")


def test_boto3_works_against_it_and_options_take_effect(start: Start, make_client: MakeClient) -> None:
    process = start(
        "--port", "0", "--latency-ms", "50", "--fault", "ListQueues:throttle:1:count=1", "--seed", "4"
    )
    url = url_of(process)
    assert url.startswith("http://127.0.0.1:")
    sqs = make_client(url)
    began = time.monotonic()
    with pytest.raises(sqs.exceptions.RequestThrottled):
        sqs.list_queues()
    sqs.list_queues()
    assert time.monotonic() - began >= 0.075


def test_a_port_that_is_taken_is_an_error_that_says_so(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = start("--port", port)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert out == ""
    assert f"Cannot listen at 127.0.0.1:{port}" in err
    assert "--port" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fault", "ListQueues:explode"], "explode"),
        (["--port", "70000"], "between 0 and 65535"),
        (["--latency-ms", "-1"], "no number of milliseconds"),
        (["--host", "no.such.host.invalid"], "Cannot listen at no.such.host.invalid"),
    ],
)
def test_wrong_options_are_errors_that_say_why(arguments: list[str], says: str, start: Start) -> None:
    process = start("--port", "0", *arguments) if "--port" not in arguments else start(*arguments)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert says in err
    assert "Traceback" not in err


def test_listening_beyond_this_machine_is_warned_of(start: Start) -> None:
    process = start("--port", "0", "--host", "0.0.0.0")
    url_of(process)
    process.terminate()
    _, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "can be reached from other machines" in err


def test_a_missing_extra_is_named(start: Start) -> None:
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from runpy import run_module; run_module('sqs_workers.local', run_name='__main__', alter_sys=True)"
    )
    process = start(code=code)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2, err
    assert "pip install 'sqs-workers[local]'" in err
    assert "Traceback" not in err


def test_the_aws_cli_works_against_it(start: Start) -> None:
    aws = shutil.which("aws")
    if aws is None:
        pytest.skip("the aws CLI is not installed")
    url = url_of(start("--port", "0"))
    env = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_PAGER": "",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(aws), "--endpoint-url", url, "--output", "json", "sqs", *arguments]
        return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=50)

    def answer(*arguments: str) -> Any:
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    queue = answer("create-queue", "--queue-name", "mail")["QueueUrl"]
    answer("send-message", "--queue-url", queue, "--message-body", "by the CLI")
    (message,) = answer("receive-message", "--queue-url", queue)["Messages"]
    assert message["Body"] == "by the CLI"
    refused = run("get-queue-url", "--queue-name", "nowhere")
    assert "AWS.SimpleQueueService.NonExistentQueue" in refused.stderr


def test_a_broken_call_is_answered_by_an_error_and_the_process_lives(
    start: Start, make_client: MakeClient
) -> None:
    sqs = make_client(url_of(start("--port", "0")))
    with pytest.raises(ClientError, match="NonExistentQueue"):
        sqs.send_message(QueueUrl="not a URL at all", MessageBody="x")
    assert "QueueUrls" not in sqs.list_queues()
