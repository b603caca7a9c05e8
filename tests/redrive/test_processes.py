"""Redrives in processes of their own, which are killed, and workers whose jobs go on failing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqs_workers.local import FaultRule, LocalServer
from tests.servers import wire_client

ROOT = Path(__file__).parents[2]
LETTERS = 200
IN_HAND = 10
HOLD = 3

pytestmark = pytest.mark.timeout(120)


class Bench:
    """A queue whose jobs have failed, on a local endpoint."""

    def __init__(self, server: LocalServer, directory: Path, name: str) -> None:
        url = server.url
        self.server = server
        self.client = wire_client(url)
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "PYTHONPATH": str(ROOT),
        }
        self.fifo = name.endswith(".fifo")
        attributes = {"FifoQueue": "true"} if self.fifo else {}
        dead_name = name.replace("jobs", "jobs-dead")
        self.dead = self.client.create_queue(QueueName=dead_name, Attributes=attributes)["QueueUrl"]
        arn = self.client.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])
        policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
        self.url = self.client.create_queue(
            QueueName=name, Attributes={**attributes, "RedrivePolicy": json.dumps(policy)}
        )["QueueUrl"]

    def fill(self, job: str = "work") -> None:
        """Send all jobs and let the redrive policy move them."""
        for start in range(0, LETTERS, 10):
            self.client.send_message_batch(
                QueueUrl=self.url, Entries=[self._entry(number, job) for number in range(start, start + 10)]
            )
        while self.depth(self.url):
            self.client.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        assert self.depth(self.dead) == LETTERS

    def _entry(self, number: int, job: str) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "Id": str(number),
            "MessageBody": json.dumps({"number": number}),
            "MessageAttributes": {
                "JobName": {"DataType": "String", "StringValue": job},
                "ContentType": {"DataType": "String", "StringValue": "json"},
            },
        }
        if self.fifo:
            entry |= {"MessageGroupId": f"g{number % 4}", "MessageDeduplicationId": str(number)}
        return entry

    def depth(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / "output").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "sqs_workers", *arguments],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def redrive(self, *options: str) -> subprocess.Popen[bytes]:
        name = self.dead.rpartition("/")[2]
        return self.start("dlq", "redrive", name, "--hold", str(HOLD), *options)

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        pause, deadline = threading.Event(), time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.directory / "output").read_text()
            pause.wait(0.05)

    def drain(self) -> list[int]:
        """The numbers of all jobs in the queue, in the order in which they come."""
        found: list[int] = []
        while True:
            answer = self.client.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=60
            )
            messages = answer.get("Messages") or []
            if not messages:
                return found
            found += [json.loads(message["Body"])["number"] for message in messages]
            entries = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(messages)
            ]
            self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        self.client.close()


@pytest.fixture(params=["jobs", "jobs.fifo"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with LocalServer() as server:
        made = Bench(server, tmp_path, request.param)
        try:
            yield made
        finally:
            made.close()


def test_after_kills_none_of_200_is_lost_and_no_more_are_doubled_than_were_in_hand(bench: Bench) -> None:
    # Of the queue itself nobody must move a message while it is counted.
    bench.client.set_queue_attributes(QueueUrl=bench.url, Attributes={"VisibilityTimeout": "600"})
    bench.fill()
    kills = 3
    for kill in range(kills):
        process = bench.redrive("--first", "0", "--rate", "60/s")
        bench.until(lambda kill=kill: bench.depth(bench.url) >= 40 * (kill + 1))  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert bench.depth(bench.dead) > 0, "the kill came in the middle"
    # What was in hand at a kill comes back by itself.
    while bench.depth(bench.dead):
        assert bench.redrive("--first", "0").wait(60) == 0

    numbers = bench.drain()
    counted = Counter(numbers)
    assert set(counted) == set(range(LETTERS)), "none is lost"
    assert len(numbers) - LETTERS <= kills * IN_HAND
    assert max(counted.values()) <= 1 + kills
    if bench.fifo:
        for group in range(4):
            first = list(dict.fromkeys(number for number in numbers if number % 4 == group))
            assert first == list(range(group, LETTERS, 4)), "the order of the group is kept"


def test_killed_between_taking_and_deleting_it_doubles_what_was_in_hand_and_nothing_else(
    bench: Bench,
) -> None:
    bench.client.set_queue_attributes(QueueUrl=bench.url, Attributes={"VisibilityTimeout": "600"})
    bench.fill()
    # Deletes are neither carried out nor answered.
    bench.server.faults.add(FaultRule("DeleteMessageBatch", "blackhole", seconds=30))
    process = bench.redrive("--first", "0")
    bench.until(lambda: bench.server.requests["DeleteMessageBatch"] > 0)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    bench.server.faults.clear()
    in_hand = bench.depth(bench.url)
    assert 0 < in_hand <= IN_HAND
    assert bench.depth(bench.dead) == LETTERS
    while bench.depth(bench.dead):
        assert bench.redrive("--first", "0").wait(60) == 0

    numbers = bench.drain()
    assert set(numbers) == set(range(LETTERS))
    assert len(numbers) == LETTERS + in_hand
    if bench.fifo:
        for group in range(4):
            first = list(dict.fromkeys(number for number in numbers if number % 4 == group))
            assert first == list(range(group, LETTERS, 4))


def test_sigterm_ends_a_redrive_with_everything_in_one_queue_alone(bench: Bench) -> None:
    bench.fill()
    process = bench.redrive("--first", "0", "--rate", "60/s")
    bench.until(lambda: bench.depth(bench.url) >= 40)
    # A signal meets it within a call of SQS, whose answer it has to read all the same.
    bench.server.faults.add(FaultRule("SendMessageBatch", "slow", seconds=0.5))
    sends = bench.server.requests["SendMessageBatch"]
    bench.until(lambda: bench.server.requests["SendMessageBatch"] > sends)
    process.terminate()
    assert process.wait(20) == 130
    assert bench.depth(bench.url) + bench.depth(bench.dead) == LETTERS
    visible = bench.client.get_queue_attributes(
        QueueUrl=bench.dead, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"]["ApproximateNumberOfMessages"]
    assert int(visible) == bench.depth(bench.dead), "nothing stays hidden"


PROGRAM = """\
import os
from sqs_workers import SQSEnv
from sqs_workers.backoff_policies import IMMEDIATE_RETURN

sqs = SQSEnv(codec="json", backoff_policy=IMMEDIATE_RETURN)
queue = sqs.queue(os.environ["QUEUE"])


@queue.processor("work")
def work(number):
    if os.path.exists("broken"):
        raise RuntimeError("the cause is still there")
    with open("done", "a") as file:
        file.write(f"{number}\\n")
"""


def test_the_first_few_stop_it_while_the_cause_is_there_and_all_go_back_when_it_is_mended(
    bench: Bench,
) -> None:
    bench.fill()
    (bench.directory / "program.py").write_text(PROGRAM, encoding="utf-8")
    (bench.directory / "broken").touch()
    (bench.directory / "done").touch()
    bench.environment["QUEUE"] = bench.url.rpartition("/")[2]
    bench.start("run", "program:sqs")

    assert bench.redrive("--first", "5", "--wait", "30").wait(60) == 1
    output = (bench.directory / "output").read_text()
    assert "5 letter(s) went back" in output
    assert "the cause is still there, or other jobs fail" in output
    bench.until(lambda: bench.depth(bench.dead) == LETTERS)
    assert (bench.directory / "done").read_text() == ""

    (bench.directory / "broken").unlink()
    assert bench.redrive("--first", "5", "--wait", "1").wait(60) == 0
    bench.until(lambda: not bench.depth(bench.url) and not bench.depth(bench.dead))
    done = (bench.directory / "done").read_text().split()
    assert sorted(map(int, done)) == list(range(LETTERS))
