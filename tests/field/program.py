"""A worker as users run it: a process of its own, told what to do by environment, input and signals.

It writes a line for whatever happens. Handlers wait until a byte comes in at standard input, once for all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from sqs_workers import SQSEnv
from tests.servers import boto_session

sqs = SQSEnv(
    boto_session(os.environ["FIELD_ENDPOINT"]),
    queue_prefix=os.environ["FIELD_PREFIX"],
    codec="json",
    transport=os.environ["FIELD_TRANSPORT"],  # type: ignore[arg-type]
)
queue = sqs.queue(os.environ["FIELD_QUEUE"])
go = threading.Event()
if os.environ.get("FIELD_GO"):
    go.set()


def say(*words: object) -> None:
    # One write a line: processes that share the pipe do not mix theirs.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@queue.processor("work")
def work(value: int) -> None:
    say("running", value, os.getpid())
    if value < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    go.wait(30)
    say("ended", value)


def listen() -> None:
    # Not by sys.stdin: its lock would be held when the interpreter ends.
    os.read(0, 1)
    go.set()


def main() -> int:
    options = json.loads(os.environ["FIELD_OPTIONS"])
    if not go.is_set():
        threading.Thread(target=listen, daemon=True).start()
    result = queue.process_queue(**options)
    assert result is not None
    say("returned", result.exit_code, result.reason)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
